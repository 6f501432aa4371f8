package attacks

import (
	"encoding/base64"
	"math/bits"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"glovebox/attacks/harness"
)

// tokens attacks what a login gives out: its life, its form, its traces.
var tokens = harness.Family{
	Name: "tokens", About: "bearer tokens: life, revocation, form, traces",
	Cases: []harness.Case{
		{
			ID: "tokens/revoked", Title: "a token that was given back goes on working",
			Requirements: []string{"AUT-01", "AUT-03", "API-08"}, Threats: []string{"PUB-S1"}, Safe: true,
			Attack:  "a revoked token on every protected route, on both servers, over connections open since before",
			Control: "the token works on both before",
			Oracle:  "status of each answer right after the 204",
			Run:     tokensRevoked,
		},
		{
			ID: "tokens/revoked-by-operator", Title: "a stolen token cannot be ended by the operator",
			Requirements: []string{"AUT-03"}, Threats: []string{"PUB-S1"},
			Attack:  "all of a user's tokens after glovebox-server token revoke --user",
			Control: "two tokens work before; another user's works after",
			Oracle:  "status on each server right after the command returns",
			Run:     tokensByOperator,
		},
		{
			ID: "tokens/revoked-h2", Title: "streams of an open HTTP/2 connection outlive the token",
			Requirements: []string{"AUT-01", "AUT-03"}, Threats: []string{"PUB-S1"}, Safe: true,
			Attack:  "further streams with a token that was revoked in between on another connection",
			Control: "a stream before is answered with the user",
			Oracle:  ":status of the stream",
			Run:     tokensRevokedH2,
		},
		{
			ID: "tokens/expired", Title: "a token lives longer than it says", World: harness.Brief,
			Requirements: []string{"AUT-01", "AUT-03"}, Threats: []string{"PUB-S1"},
			Attack:  "an expired token on every protected route, its revocation included",
			Control: "the token works when it is new, and its expires_at lies ahead",
			Oracle:  "status after expires_at",
			Run:     tokensExpired,
		},
		{
			ID: "tokens/race", Title: "a request that begins after the revocation is still served",
			Requirements: []string{"AUT-03"}, Threats: []string{"PUB-S1"},
			Attack:  "eight connections use a token without pause while it is revoked",
			Control: "requests before the revocation are served",
			Oracle:  "no 200 to a request that was sent after the 204 had come",
			Run:     tokensRace,
		},
		{
			ID: "tokens/near", Title: "a token that differs in one character is accepted",
			Requirements: []string{"AUT-01", "AUT-03"}, Threats: []string{"PUB-S1"}, Safe: true,
			Attack:  "every character of a valid token changed, in other case, cut, lengthened, in another alphabet of base64",
			Control: "the token itself is accepted before and after",
			Oracle:  "status 401 for each",
			Run:     tokensNear,
		},
		{
			ID: "tokens/random", Title: "tokens can be foreseen",
			Requirements: []string{"AUT-03"}, Threats: []string{"PUB-S1"},
			Attack:  "48 tokens of four users are compared bit by bit",
			Control: "a counter in place of the random bytes is told by the same measure",
			Oracle:  "no token twice, 32 bytes each, every bit about as often set as not, every pair far apart",
			Run:     tokensRandom,
		},
		{
			ID: "tokens/foreign-revocation", Title: "one user ends another's session",
			Requirements: []string{"AUT-06", "API-08"}, Threats: []string{"PUB-D1", "PUB-T1"}, Safe: true,
			Attack:  "a revocation that names the other's token in body, query, headers and cookie",
			Control: "the revocation itself works: the caller's own token ends",
			Oracle:  "the other user's token still names him",
			Run:     tokensForeignRevocation,
		},
		{
			ID: "tokens/one-of-many", Title: "giving back one token ends all, or none",
			Requirements: []string{"AUT-03"}, Threats: []string{"PUB-S1"}, Safe: true,
			Attack:  "one of three tokens of a user is revoked, twice",
			Control: "all three work before",
			Oracle:  "the others work, the one does not, the second revocation is 401",
			Run:     tokensOneOfMany,
		},
		{
			ID: "tokens/database", Title: "whoever reads the database's files has everybody's token",
			Requirements: []string{"AUT-03"}, Threats: []string{"PUB-S1", "DBS-I1"},
			Attack:  "the database's files, its log of writes included, are searched for a token that was just given out, whole, without its prefix, and decoded",
			Control: "the login of the user is found there",
			Oracle:  "the bytes on disk",
			Run:     tokensDatabase,
		},
		{
			ID: "tokens/password-traces", Title: "a password stands in the database's files or in a log", Slow: true,
			Requirements: []string{"AUT-02", "REL-02"}, Threats: []string{"PUB-S2", "OPS-I1"},
			Attack:  "right and wrong passwords are sent; database files, logs and storage are searched for them",
			Control: "the login of the user is found in the database's files, the requests in the log",
			Oracle:  "the bytes on disk",
			Run:     tokensPasswordTraces,
		},
		{
			ID: "tokens/echoed", Title: "a token is repeated in an answer, where caches and logs keep it",
			Requirements: []string{"REL-02", "API-03"}, Threats: []string{"PUB-I2"}, Safe: true,
			Attack:  "every route with a valid token and with one that is not",
			Control: "the login's answer does hold the token, and is found by the same search",
			Oracle:  "headers and bodies of the answers",
			Run:     tokensEchoed,
		},
		{
			ID: "tokens/kept-answer", Title: "a cache or a cookie keeps what a login gave out",
			Requirements: []string{"AUT-03", "API-07"}, Threats: []string{"PUB-I3"}, Safe: true,
			Attack:  "a login, and every route with the token",
			Control: "the answers are there and have headers",
			Oracle:  "Cache-Control: no-store on the login, no Set-Cookie anywhere",
			Run:     tokensKept,
		},
	},
}

func tokensRevoked(e *harness.Env) {
	u := e.Alice()
	token := e.FreshToken(u)
	for i := range e.Servers() {
		r := me(token)
		r.Server = i
		e.Control(whoami(e.Do(r)) == u.Login, "before, on server %d", i)
	}
	a := e.Do(harness.Request{Method: http.MethodDelete, Path: "/api/v1/auth/token", Token: token})
	e.Control(a.Status == http.StatusNoContent && len(a.Body) == 0, "the revocation: %s", a.Brief())
	for i := range e.Servers() {
		for _, route := range protectedRoutes() {
			e.Input("%s on server %d", route.name(), i)
			r := route.request(harness.UUID(), token)
			r.Server = i
			a := e.Do(r)
			e.Check(a.Status == http.StatusUnauthorized, "got %s", a.Brief())
		}
	}
}

func tokensByOperator(e *harness.Env) {
	u, other := e.NewUser(), e.Bob()
	mine := []string{e.FreshToken(u), e.FreshToken(u)}
	others := e.Token(other)
	for i, token := range mine {
		r := me(token)
		r.Server = i
		e.Control(whoami(e.Do(r)) == u.Login, "before")
	}
	_, err := e.Admin(e.Context(), "", "token", "revoke", "--user", u.Login)
	e.Must(err, "revoke the tokens")
	for i := range e.Servers() {
		for _, token := range mine {
			r := me(token)
			r.Server = i
			e.Check(e.Do(r).Status == http.StatusUnauthorized, "a token still works on server %d", i)
		}
	}
	e.Control(whoami(e.Do(me(others))) == other.Login, "another user's token")
}

func tokensRevokedH2(e *harness.Env) {
	u := e.Alice()
	token := e.FreshToken(u)
	h := e.H2(e.Public(0))
	ask := func() *harness.Stream {
		id, err := h.Open(harness.Fields("GET", e.Public(0), "/api/v1/auth/me", [2]string{"authorization", "Bearer " + token}), true)
		e.Must(err, "open a stream")
		s, err := h.Await(id, 10*time.Second)
		e.Must(err, "read a stream")
		return s
	}
	before := ask()
	e.Control(before.Status == "200" && strings.Contains(string(before.Body), u.Login), "before: %s", before.Status)
	a := e.Do(harness.Request{Method: http.MethodDelete, Path: "/api/v1/auth/token", Token: token})
	e.Control(a.Status == http.StatusNoContent, "the revocation: %s", a.Brief())
	after := ask()
	e.Check(after.Status == "401" && !strings.Contains(string(after.Body), u.Login), "after: %s %s", after.Status, after.Body)
}

func tokensExpired(e *harness.Env) {
	u := e.NewUser()
	a := e.Do(harness.LoginRequest(u.Login, u.Password))
	var body struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	e.JSON(a, &body)
	e.Control(whoami(e.Do(me(body.Token))) == u.Login && body.ExpiresAt.After(time.Now()), "when it is new; it expires at %s", body.ExpiresAt)
	e.Await(time.Until(body.ExpiresAt)+time.Second, func() bool { return time.Now().After(body.ExpiresAt.Add(100 * time.Millisecond)) })
	for _, route := range protectedRoutes() {
		e.Input("%s", route.name())
		a := e.Do(route.request(harness.UUID(), body.Token))
		e.Check(a.Status == http.StatusUnauthorized, "got %s", a.Brief())
	}
}

func tokensRace(e *harness.Env) {
	u := e.NewUser()
	token := e.FreshToken(u)
	const callers = 8
	conns := make([]*harness.Conn, callers)
	for i := range conns {
		conns[i] = e.MustDial(e.Public(i), nil)
	}
	var revoked atomic.Bool // set once the 204 has come
	var before, late atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Await(10*time.Second, func() bool { return before.Load() > 4*callers })
		r := harness.Request{Method: http.MethodDelete, Path: "/api/v1/auth/token", Token: token}
		if a, err := e.Try(r); err == nil && a.Status == http.StatusNoContent {
			revoked.Store(true)
		}
	}()
	e.Parallel(callers, func(i int) {
		for {
			begun := revoked.Load()
			if err := conns[i].Send(me(token).Bytes(e.Public(i))); err != nil {
				return
			}
			a, err := conns[i].Receive(http.MethodGet, 10*time.Second)
			switch {
			case err != nil:
				return
			case a.Status == http.StatusOK && begun:
				late.Add(1)
			case a.Status == http.StatusOK:
				before.Add(1)
				continue
			}
			if begun || e.Context().Err() != nil {
				return
			}
			if a.Status == http.StatusUnauthorized && !begun {
				continue // the revocation has acted, its answer is on its way
			}
		}
	})
	<-done
	e.Control(before.Load() > 4*callers && revoked.Load(), "%d requests before, revoked %v", before.Load(), revoked.Load())
	e.Check(late.Load() == 0, "%d requests sent after the 204 were served", late.Load())
}

func tokensNear(e *harness.Env) {
	u := e.Alice()
	token := e.Token(u)
	e.Control(whoami(e.Do(me(token))) == u.Login, "the token, before")
	try := func(name, text string) {
		if text == token {
			return
		}
		e.Input("%s", name)
		a := e.Do(me(text))
		e.Check(a.Status == http.StatusUnauthorized || a.Status == http.StatusBadRequest, "got %s", a.Brief())
	}
	for i := range token {
		other := byte('A')
		if token[i] == other {
			other = 'B'
		}
		try("character "+string('0'+rune(i/10))+string('0'+rune(i%10)), token[:i]+string(other)+token[i+1:])
	}
	// The last character of 32 bytes in base64 carries four bits: its neighbours
	// decode to the same bytes where a decoder is lenient.
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	at := strings.IndexByte(alphabet, token[len(token)-1])
	for bit := 1; bit < 4; bit++ {
		try("unused bits of the last character", token[:len(token)-1]+string(alphabet[at^bit]))
	}
	for name, text := range map[string]string{
		"upper case": strings.ToUpper(token), "lower case": strings.ToLower(token), "without its prefix": strings.TrimPrefix(token, "gbx_"),
		"prefix twice": "gbx_" + token,
		"upper prefix": "GBX_" + strings.TrimPrefix(token, "gbx_"), "cut": token[:len(token)-1], "lengthened": token + "A", "padded": token + "=",
		"line end inside":    token[:20] + "%0A" + token[20:],
		"the other alphabet": strings.NewReplacer("-", "+", "_", "/").Replace(token),
	} {
		try(name, text)
	}
	e.Input("")
	e.Control(whoami(e.Do(me(token))) == u.Login, "the token, after")
}

// tellApart reports whether 32-byte values look random: none twice, every bit set
// about as often as not, and every pair far apart.
func tellApart(values [][]byte) string {
	seen := map[string]bool{}
	for i, v := range values {
		if len(v) != 32 {
			return "one is not of 32 bytes"
		}
		if seen[string(v)] {
			return "one stands there twice"
		}
		seen[string(v)] = true
		for _, w := range values[:i] {
			distance := 0
			for k := range v {
				distance += bits.OnesCount8(v[k] ^ w[k])
			}
			// 128 of 256 bits on average, 8 the deviation: 8 deviations off is not chance.
			if distance < 64 || distance > 192 {
				return "two are alike"
			}
		}
	}
	for bit := range 256 {
		set := 0
		for _, v := range values {
			set += int(v[bit/8]>>(bit%8)) & 1
		}
		// Of 48 values 24 on average, 3.5 the deviation.
		if n := len(values); set < n/16 || set > n-n/16 {
			return "a bit is nearly always the same"
		}
	}
	return ""
}

func tokensRandom(e *harness.Env) {
	counter := make([][]byte, 48)
	for i := range counter {
		counter[i] = make([]byte, 32)
		counter[i][31] = byte(i)
	}
	e.Control(tellApart(counter) != "", "a counter passes for random")
	var values [][]byte
	for range 4 {
		u := e.NewUser()
		e.From(address(e))
		for range 12 {
			token := e.FreshToken(u)
			raw, err := base64.RawURLEncoding.Strict().DecodeString(strings.TrimPrefix(token, "gbx_"))
			e.Check(err == nil, "a token does not have its form: %v", err)
			values = append(values, raw)
		}
	}
	e.Check(tellApart(values) == "", "%s", tellApart(values))
}

func tokensForeignRevocation(e *harness.Env) {
	alice, bob := e.Alice(), e.Bob()
	hers, his := e.FreshToken(alice), e.FreshToken(bob)
	e.Control(whoami(e.Do(me(hers))) == alice.Login, "her token, before")
	body := []byte(`{"token":"` + hers + `","login":"` + alice.Login + `"}`)
	a := e.Do(harness.Request{
		Method: http.MethodDelete, Path: "/api/v1/auth/token?token=" + hers + "&login=" + alice.Login, Token: his, Body: body,
		Header: []string{harness.JSONType, "X-Token: " + hers, "Cookie: token=" + hers, "Content-Length: " + itoa(len(body))}, NoLength: true,
	})
	e.Note("the revocation was answered %s", a.Brief())
	e.Check(whoami(e.Do(me(hers))) == alice.Login, "her token has ended")
	e.Do(harness.Request{Method: http.MethodDelete, Path: "/api/v1/auth/token", Token: his})
	e.Control(e.Do(me(his)).Status == http.StatusUnauthorized, "his own token ends")
	e.Check(whoami(e.Do(me(hers))) == alice.Login, "her token has ended with his")
}

func tokensOneOfMany(e *harness.Env) {
	u := e.Alice()
	all := []string{e.FreshToken(u), e.FreshToken(u), e.FreshToken(u)}
	for _, token := range all {
		e.Control(whoami(e.Do(me(token))) == u.Login, "before")
	}
	end := harness.Request{Method: http.MethodDelete, Path: "/api/v1/auth/token", Token: all[1]}
	e.Control(e.Do(end).Status == http.StatusNoContent, "the revocation")
	a := e.Do(end)
	e.Check(a.Status == http.StatusUnauthorized, "the second revocation: %s", a.Brief())
	e.Check(e.Do(me(all[1])).Status == http.StatusUnauthorized, "the revoked one works")
	e.Check(whoami(e.Do(me(all[0]))) == u.Login && whoami(e.Do(me(all[2]))) == u.Login, "the others have ended")
}

// databaseFiles is the folder of the system's own PostgreSQL.
func databaseFiles(e *harness.Env) string {
	if e.Endpoint.StorageRoot == "" {
		e.Unavailable("the database's files, which only a local system shows")
	}
	return filepath.Join(filepath.Dir(e.Endpoint.StorageRoot), "pg")
}

func tokensDatabase(e *harness.Env) {
	u := e.NewUser()
	token := e.FreshToken(u)
	bare := strings.TrimPrefix(token, "gbx_")
	raw, err := base64.RawURLEncoding.DecodeString(bare)
	e.Must(err, "decode the token")
	files := databaseFiles(e)
	found := e.Holders(files, map[string]string{
		"login": u.Login, "the token": token, "the token without its prefix": bare, "its bytes": string(raw), "its first half": bare[:22],
	})
	e.Control(len(found["login"]) > 0, "the login is not found")
	delete(found, "login")
	e.Check(len(found) == 0, "found: %v", found)
}

func tokensPasswordTraces(e *harness.Env) {
	u := e.NewUser()
	wrong := "wrong-" + harness.RandomHex(12)
	e.Control(hasToken(e.Do(harness.LoginRequest(u.Login, u.Password))), "the right password")
	asked := e.Do(harness.LoginRequest(u.Login, wrong))
	e.Do(harness.LoginRequest(wrong, u.Password)) // typed into the wrong field
	id := asked.Header.Get("X-Request-Id")
	e.Control(e.Await(5*time.Second, func() bool { return len(e.HoldersOf(e.Endpoint.LogsDir, id)) > 0 }), "the request is not found in the log")
	for name, root := range map[string]string{"database": databaseFiles(e), "logs": e.Endpoint.LogsDir, "storage": e.Endpoint.StorageRoot} {
		found := e.Holders(root, map[string]string{"login": u.Login, "right password": u.Password, "wrong password": wrong})
		if name == "database" {
			e.Control(len(found["login"]) > 0, "the login is not found in the database's files")
		}
		e.Check(len(found["right password"])+len(found["wrong password"]) == 0, "in the %s: %v", name, found)
	}
}

// holds reports whether text stands anywhere in the answer.
func holds(a harness.Answer, text string) bool {
	if strings.Contains(string(a.Body), text) {
		return true
	}
	for name, values := range a.Header {
		if strings.Contains(name, text) || strings.Contains(strings.Join(values, "\n"), text) {
			return true
		}
	}
	return false
}

func tokensEchoed(e *harness.Env) {
	u := e.Alice()
	login := e.Do(harness.LoginRequest(u.Login, u.Password))
	token := e.Token(u)
	var body struct {
		Token string `json:"token"`
	}
	e.JSON(login, &body)
	e.Control(holds(login, body.Token), "the search does not find the token in the login's answer")
	wrong := "gbx_" + base64.RawURLEncoding.EncodeToString([]byte(harness.RandomHex(16)))
	for _, route := range routes {
		for name, t := range map[string]string{"valid": token, "invalid": wrong} {
			if route.method == http.MethodDelete && name == "valid" {
				continue // it would end the token
			}
			e.Input("%s, %s", route.name(), name)
			a := e.Do(route.request(harness.UUID(), t))
			e.Check(!holds(a, t) && !holds(a, strings.TrimPrefix(t, "gbx_")), "the answer repeats it: %s", a.Brief())
		}
	}
}

func tokensKept(e *harness.Env) {
	u := e.Alice()
	a := e.Do(harness.LoginRequest(u.Login, u.Password))
	e.Control(hasToken(a), "the login")
	e.Check(strings.Contains(a.Header.Get("Cache-Control"), "no-store"), "Cache-Control is %q", a.Header.Get("Cache-Control"))
	token := e.Token(u)
	for _, route := range routes {
		if route.method == http.MethodDelete {
			continue
		}
		e.Input("%s", route.name())
		a := e.Do(route.request(harness.UUID(), token))
		e.Check(len(a.Header["Set-Cookie"]) == 0, "it sets a cookie: %v", a.Header["Set-Cookie"])
		e.Check(a.Header.Get("Www-Authenticate") == "" || a.Status == http.StatusUnauthorized, "it asks for a login with status %d", a.Status)
	}
}
