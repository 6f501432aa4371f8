package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	platform "glovebox/system/platform/config"
	"glovebox/system/platform/secret"
	"glovebox/system/server/internal/config"
	"glovebox/threat-model/evidence"
)

// protected is every route behind the bearer check.
var protected = []struct{ method, path string }{
	{"DELETE", "/api/v1/auth/token"},
	{"GET", "/api/v1/auth/me"},
	{"POST", "/api/v1/jobs"},
	{"GET", "/api/v1/jobs/0197f0aa-0000-7000-8000-000000000001"},
	{"GET", "/api/v1/jobs/0197f0aa-0000-7000-8000-000000000001/result"},
	{"HEAD", "/api/v1/jobs/0197f0aa-0000-7000-8000-000000000001/result"},
}

func TestARequestWithoutAValidTokenIsRefused(t *testing.T) {
	evidence.Proves(t, "AUT-01", "AUT-03")
	s := startOne(t, nil)
	alice := s.user("alice")

	expired := s.login("alice")
	if _, err := s.admin.Exec(t.Context(), `UPDATE app.tokens SET created_at = now() - interval '2 days', expires_at = now() - interval '1 second'
		WHERE created_at = (SELECT max(created_at) FROM app.tokens)`); err != nil {
		t.Fatal(err)
	}
	revoked := s.login("alice")
	revoked.do("DELETE", "/api/v1/auth/token", nil).want(http.StatusNoContent)

	valid := alice.token
	tokens := map[string]string{
		"none": "", "expired": "Bearer " + expired.token, "revoked": "Bearer " + revoked.token,
		"empty": "Bearer ", "only the scheme": "Bearer", "another scheme": "Basic " + valid, "no scheme": valid,
		"cut": "Bearer " + valid[:len(valid)-1], "longer": "Bearer " + valid + "A", "other case": "Bearer " + strings.ToUpper(valid),
		"random": "Bearer gbx_" + strings.Repeat("A", 43), "two spaces": "Bearer  " + valid, "two tokens": "Bearer " + valid + " " + valid,
		"comma": "Bearer " + valid + "," + valid, "padding": "Bearer " + valid + "=", "very long": "Bearer gbx_" + strings.Repeat("A", 8000),
		"the stored hash": "Bearer gbx_" + tokenHashText(t, s),
	}
	for name, value := range tokens {
		for _, route := range protected {
			c := s.anonymous()
			options := []option{}
			if value != "" {
				options = append(options, header("Authorization", value))
			}
			a := c.do(route.method, route.path, nil, options...).refused(http.StatusUnauthorized, "unauthenticated")
			if !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s: %s %s has no WWW-Authenticate", name, route.method, route.path)
			}
		}
	}
	for _, route := range protected {
		alice.do(route.method, route.path, nil, header("Authorization", "Bearer "+valid)).refused(http.StatusBadRequest, "invalid_request")
	}
	// The control: the same requests with the valid token are not refused so.
	alice.get("/api/v1/auth/me").want(http.StatusOK)
	s.anonymous().get("/api/v1/auth/me", header("Authorization", "bEaReR "+valid)).want(http.StatusOK)
}

// tokenHashText is what a reader of the database might try to present.
func tokenHashText(t *testing.T, s *server) (text string) {
	t.Helper()
	if err := s.admin.QueryRow(t.Context(), `SELECT rtrim(translate(encode(token_hash, 'base64'), '+/', '-_'), '=') FROM app.tokens LIMIT 1`).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

func TestRevokingActsAtOnceOnEveryServer(t *testing.T) {
	evidence.Proves(t, "AUT-03")
	in := install(t)
	one, two := in.start(nil), in.start(nil)
	alice := one.user("alice")
	onTwo := &caller{t: t, base: two.publicURL, http: alice.http, token: alice.token}
	onTwo.get("/api/v1/auth/me").want(http.StatusOK)
	alice.do("DELETE", "/api/v1/auth/token", nil).want(http.StatusNoContent)
	onTwo.get("/api/v1/auth/me").refused(http.StatusUnauthorized, "unauthenticated")

	// Disabling a user ends its tokens, and its logins have the one answer.
	bob := one.user("bob")
	if err := in.users.SetDisabled(t.Context(), "bob", true); err != nil {
		t.Fatal(err)
	}
	bob.get("/api/v1/auth/me").refused(http.StatusUnauthorized, "unauthenticated")
	disabled := bob.json("POST", "/api/v1/auth/token", map[string]string{"login": "bob", "password": password})
	unknown := bob.json("POST", "/api/v1/auth/token", map[string]string{"login": "nobody", "password": password})
	wrong := bob.json("POST", "/api/v1/auth/token", map[string]string{"login": "alice", "password": "not the password"})
	for _, a := range []*answer{disabled, unknown, wrong} {
		a.refused(http.StatusUnauthorized, "unauthenticated")
		if string(a.body) != string(unknown.body) {
			t.Errorf("answers differ: %q and %q", a.body, unknown.body)
		}
	}
	// The same with a token that was not revoked: the user's state is looked at too.
	if _, err := in.admin.Exec(t.Context(), `UPDATE app.tokens SET revoked_at = NULL`); err != nil {
		t.Fatal(err)
	}
	bob.get("/api/v1/auth/me").refused(http.StatusUnauthorized, "unauthenticated")
	// A new password ends the old tokens too.
	alice = one.login("alice")
	if err := in.users.SetPassword(t.Context(), "alice", secret.New("another long password")); err != nil {
		t.Fatal(err)
	}
	alice.get("/api/v1/auth/me").refused(http.StatusUnauthorized, "unauthenticated")
}

func TestAnotherSecretEndsEveryToken(t *testing.T) {
	evidence.Proves(t, "AUT-04")
	in := install(t)
	one := in.start(nil)
	alice := one.user("alice")
	two := in.start(func(c *config.Config) { c.Auth.TokenSecret = secret.New(randomHex(32)) })
	onTwo := &caller{t: t, base: two.publicURL, http: alice.http, token: alice.token}
	onTwo.get("/api/v1/auth/me").refused(http.StatusUnauthorized, "unauthenticated")
	alice.get("/api/v1/auth/me").want(http.StatusOK)
	if n := in.count(`SELECT count(*) FROM app.tokens WHERE position(convert_to($1, 'UTF8') IN token_hash) > 0`, alice.token); n != 0 {
		t.Fatal("the token itself is in the database")
	}
}

// TestFailedLoginsAreLimitedOverAllServers fires at once at two servers: counted
// before they are judged, no burst passes the limit.
func TestFailedLoginsAreLimitedOverAllServers(t *testing.T) {
	evidence.Proves(t, "AUT-05")
	in := install(t)
	tight := func(c *config.Config) { c.Auth.LoginFailuresPerLogin, c.Auth.LoginAttemptsPerAddress = 5, 1000 }
	servers := []*server{in.start(tight), in.start(tight)}
	servers[0].user("alice")
	servers[0].user("bob")
	statuses := burst(servers, 40, "ALICE", "not the password")
	if statuses[http.StatusUnauthorized] != 5 || statuses[http.StatusTooManyRequests] != 35 {
		t.Fatalf("statuses %v, want 5 judged and 35 refused", statuses)
	}
	// The right password does not help any more, and other users are not hit.
	c := servers[1].anonymous()
	limited := c.json("POST", "/api/v1/auth/token", map[string]string{"login": "alice", "password": password}).refused(http.StatusTooManyRequests, "rate_limited")
	if after, err := strconv.Atoi(limited.Header.Get("Retry-After")); err != nil || after < 1 || after > 15*60 {
		t.Errorf("Retry-After is %q", limited.Header.Get("Retry-After"))
	}
	servers[1].login("bob")
}

func TestLoginsFromOneAddressAreLimitedOverAllServers(t *testing.T) {
	evidence.Proves(t, "AUT-05")
	in := install(t)
	tight := func(c *config.Config) {
		c.Auth.LoginFailuresPerLogin, c.Auth.LoginAttemptsPerAddress = 1000, 6
		c.HTTP.TrustedProxies = []string{"127.0.0.1"}
	}
	servers := []*server{in.start(tight), in.start(tight)}
	servers[0].user("alice") // one attempt, from the proxy's own address
	from := func(address string) option { return header("X-Forwarded-For", address) }
	statuses := burst(servers, 20, "nobody", "not the password", from("192.0.2.7"))
	if statuses[http.StatusUnauthorized] != 6 || statuses[http.StatusTooManyRequests] != 14 {
		t.Fatalf("statuses %v, want 6 judged and 14 refused", statuses)
	}
	login := map[string]string{"login": "alice", "password": password}
	c := servers[1].anonymous()
	// What the client itself wrote further left does not make another address.
	c.json("POST", "/api/v1/auth/token", login, from("203.0.113.9, 192.0.2.7")).refused(http.StatusTooManyRequests, "rate_limited")
	// A blocked address cannot lock a login: from elsewhere it works.
	c.json("POST", "/api/v1/auth/token", login, from("192.0.2.8")).want(http.StatusOK)
	// IPv6 counts by /64.
	for i := range 6 {
		c.json("POST", "/api/v1/auth/token", login, from("2001:db8::"+strconv.Itoa(i+1))).want(http.StatusOK)
	}
	c.json("POST", "/api/v1/auth/token", login, from("2001:db8::ffff")).refused(http.StatusTooManyRequests, "rate_limited")
	c.json("POST", "/api/v1/auth/token", login, from("2001:db8:0:1::1")).want(http.StatusOK)
}

func TestXForwardedForOfAStrangerCountsForNothing(t *testing.T) {
	evidence.Proves(t, "AUT-05")
	s := startOne(t, func(c *config.Config) { c.Auth.LoginAttemptsPerAddress = 3 })
	s.user("alice")
	c := s.anonymous()
	for i := range 4 {
		a := c.json("POST", "/api/v1/auth/token", map[string]string{"login": "alice", "password": password}, header("X-Forwarded-For", "192.0.2."+strconv.Itoa(i)))
		if i < 2 {
			a.want(http.StatusOK)
		} else {
			a.refused(http.StatusTooManyRequests, "rate_limited")
		}
	}
}

func burst(servers []*server, n int, login, pass string, options ...option) map[int]int {
	var (
		all      sync.WaitGroup
		mu       sync.Mutex
		statuses = map[int]int{}
	)
	for i := range n {
		c := servers[i%len(servers)].anonymous()
		all.Go(func() {
			a := c.json("POST", "/api/v1/auth/token", map[string]string{"login": login, "password": pass}, options...)
			mu.Lock()
			statuses[a.StatusCode]++
			mu.Unlock()
		})
	}
	all.Wait()
	return statuses
}

// TestASpikeOfFailedLoginsIsNotifiedOnce: two servers see parts of the spike, one
// notification goes out, after its target refused it twice.
func TestASpikeOfFailedLoginsIsNotifiedOnce(t *testing.T) {
	evidence.Proves(t, "AUT-07")
	var posts, delivered atomic.Int32
	body := make(chan string, 10)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if posts.Add(1) <= 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		buf := make([]byte, 4096)
		n, _ := r.Body.Read(buf)
		delivered.Add(1)
		body <- string(buf[:n])
	}))
	defer target.Close()
	in := install(t)
	set := func(c *config.Config) {
		c.SecurityNotification.URL = secret.New(target.URL + "/hook-with-key-5e3a")
		c.SecurityNotification.Threshold = 10
		c.SecurityNotification.Window = platform.Duration(time.Hour)
		c.Auth.LoginFailuresPerLogin = 1000
	}
	servers := []*server{in.start(set), in.start(set)}
	burst(servers, 25, "nobody", "not the password")
	select {
	case got := <-body:
		if !strings.Contains(got, `"kind":"failed_logins"`) || !strings.Contains(got, `"failures":"10"`) {
			t.Errorf("notification is %s", got)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no notification came")
	}
	for _, s := range servers {
		s.stop() // sends what is still queued
	}
	if n := delivered.Load(); n != 1 {
		t.Errorf("%d notifications were delivered, want 1", n)
	}
	logs := in.logs.String()
	if strings.Count(logs, `"msg":"security notification","`) != 1 || strings.Contains(logs, "hook-with-key") {
		t.Error("the log has no or several events, or shows the target")
	}
}

func TestTheLoginTakesOnlyItsOwnForm(t *testing.T) {
	evidence.Proves(t, "API-07", "AUT-06")
	s := startOne(t, nil)
	s.user("alice")
	c := s.anonymous()
	post := func(body string, options ...option) *answer {
		t.Helper()
		if len(options) == 0 {
			options = []option{header("Content-Type", "application/json")}
		}
		return c.do("POST", "/api/v1/auth/token", strings.NewReader(body), options...)
	}
	good := `{"login":"alice","password":"` + password + `"}`
	for _, bad := range []string{
		``, `null`, `[]`, `"x"`, `{`, good + `{}`, good + `x`, `{"login":"alice"}`, `{"password":"x"}`, `{"login":null,"password":null}`,
		`{"login":1,"password":"x"}`, `{"login":"alice","password":"x","user_id":"1"}`, `{"login":"alice","login":"bob","password":"x"}`,
		`{"login":"alice","Login":"bob","password":"x"}`, `{"login":"` + strings.Repeat("a", 300) + `","password":"x"}`,
		`{"login":"alice","password":"` + strings.Repeat("a", 1100) + `"}`, "{\"login\":\"al\xffce\",\"password\":\"x\"}",
	} {
		post(bad).refused(http.StatusBadRequest, "invalid_request")
	}
	post(`{"login":"alice","password":"`+strings.Repeat("a", 17000)+`"}`).refused(http.StatusRequestEntityTooLarge, "too_large")
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "application/json5", "multipart/form-data", "*/*"} {
		post(good, header("Content-Type", kind)).refused(http.StatusUnsupportedMediaType, "unsupported_media_type")
	}
	post(good, header("Content-Type", "application/json"), header("Content-Encoding", "gzip")).refused(http.StatusUnsupportedMediaType, "unsupported_media_type")
	post(good, header("Content-Type", "application/json; charset=utf-8"), header("Content-Encoding", "identity")).want(http.StatusOK)
}

// TestALoginTakesAsLongForNobodyAsForAUser compares medians of many logins; the
// hash dominates, so that leaving it out for an unknown user would show.
func TestALoginTakesAsLongForNobodyAsForAUser(t *testing.T) {
	evidence.Proves(t, "AUT-05")
	s := startOne(t, func(c *config.Config) {
		c.Auth.LoginFailuresPerLogin, c.Auth.LoginAttemptsPerAddress = 10000, 10000
		c.Auth.Argon2Time, c.Auth.Argon2Memory = 3, 16<<20
	})
	// The user's hash has the configured costs once it has logged in.
	s.user("alice")
	c := s.anonymous()
	measure := func(login string) time.Duration {
		began := time.Now()
		c.json("POST", "/api/v1/auth/token", map[string]string{"login": login, "password": "not the password"}).want(http.StatusUnauthorized)
		return time.Since(began)
	}
	var known, unknown []time.Duration
	for range 31 {
		known = append(known, measure("alice"))
		unknown = append(unknown, measure("nobody"))
	}
	k, u := median(known), median(unknown)
	t.Logf("medians: known %s, unknown %s", k, u)
	if u < k*7/10 || k < u*7/10 {
		t.Errorf("medians differ: known %s, unknown %s", k, u)
	}
}

func TestRehashOnLoginWhenCostsWereRaised(t *testing.T) {
	evidence.Proves(t, "AUT-02")
	in := install(t)
	low := in.start(nil)
	low.user("alice")
	high := in.start(func(c *config.Config) { c.Auth.Argon2Time = 2 })
	high.login("alice")
	var hash string
	if err := in.admin.QueryRow(context.Background(), `SELECT password_hash FROM app.users`).Scan(&hash); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=8192,t=2,p=1$") {
		t.Errorf("the hash is %q", hash[:min(40, len(hash))])
	}
	low.login("alice") // the raised hash is good everywhere
}
