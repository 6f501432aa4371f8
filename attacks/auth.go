package attacks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"glovebox/attacks/harness"
)

// auth attacks the door: credentials that are wrong, malformed or missing.
var auth = harness.Family{
	Name: "auth", About: "authentication: missing, malformed and wrong credentials",
	Cases: []harness.Case{
		{
			ID: "auth/no-token", Title: "somebody without a token uses the API",
			Requirements: []string{"AUT-01"}, Threats: []string{"PUB-S1"}, Safe: true,
			Attack:  "every protected route, without Authorization",
			Control: "with a token, none of them is answered as unauthenticated",
			Oracle:  "status, code and WWW-Authenticate of each answer",
			Run:     authNoToken,
		},
		{
			ID: "auth/malformed-authorization", Title: "a header that only resembles a bearer token is taken as one",
			Requirements: []string{"AUT-01", "API-07"}, Threats: []string{"PUB-S1"}, Safe: true,
			Attack:  "a valid token under other schemes, joined, quoted, padded, and words in its place",
			Control: "the token as it should be names its user",
			Oracle:  "no answer names a user; each is the refusal",
			Run:     authMalformed,
		},
		{
			ID: "auth/doubled-header", Title: "two Authorization headers let a proxy and the server see different users",
			Requirements: []string{"AUT-01", "API-07"}, Threats: []string{"PUB-T2", "PUB-S1"}, Safe: true,
			Attack:  "a valid token beside another header in every order and spelling",
			Control: "either header alone is accepted",
			Oracle:  "status 400 and no user in the answer",
			Run:     authDoubled,
		},
		{
			ID: "auth/token-elsewhere", Title: "a token in a place that is logged or sent by browsers opens the API",
			Requirements: []string{"AUT-01"}, Threats: []string{"PUB-S1"}, Safe: true,
			Attack:  "a valid token in the query, a cookie, other headers and the body",
			Control: "the same token in Authorization names its user",
			Oracle:  "status of the answer",
			Run:     authElsewhere,
		},
		{
			ID: "auth/near-password", Title: "a password that is nearly right opens the account",
			Requirements: []string{"AUT-01", "AUT-02"}, Threats: []string{"PUB-S2"},
			Attack:  "the password cut, lengthened, in other case, normalised, doubled, with NUL or spaces",
			Control: "the right password opens it before and after",
			Oracle:  "status; no answer holds a token",
			Run:     authNearPassword,
		},
		{
			ID: "auth/long-password", Title: "of a long password only the beginning counts",
			Requirements: []string{"AUT-02"}, Threats: []string{"PUB-S2"},
			Attack:  "a 200-character password with its end changed, or cut at 55, 64, 72 and 128",
			Control: "the whole password opens the account",
			Oracle:  "status of the login",
			Run:     authLongPassword,
		},
		{
			ID: "auth/default-credentials", Title: "an account that nobody made is there",
			Requirements: []string{"AUT-01", "AUT-05"}, Threats: []string{"PUB-S2"},
			Attack:  "logins and passwords that products ship with",
			Control: "the login of a user that was made gets a token",
			Oracle:  "no answer holds a token",
			Run:     authDefaults,
		},
		{
			ID: "auth/unknown-same-answer", Title: "the answer to a login tells whether the user exists",
			Requirements: []string{"AUT-05"}, Threats: []string{"PUB-S2"},
			Attack:  "wrong passwords for a user, for a disabled user and for nobody",
			Control: "the right password is answered otherwise",
			Oracle:  "status, header names and body of the answers are equal",
			Run:     authUnknownSame,
		},
		{
			ID: "auth/login-injection", Title: "text in the login form becomes a query",
			Requirements: []string{"DBS-01", "AUT-01"}, Threats: []string{"DBS-T1", "PUB-S1"},
			Attack:  "quotes, comments, operators, wildcards and NUL as login and as password",
			Control: "the form itself works for the user",
			Oracle:  "no token, no 5xx, and the user logs in afterwards",
			Run:     authInjection,
		},
		{
			ID: "auth/strict-json", Title: "a login body that two readers understand differently is accepted",
			Requirements: []string{"API-07"}, Threats: []string{"PUB-T2", "PUB-T1"}, Safe: true,
			Attack:  "doubled, unknown and oddly spelled keys, arrays, trailing text, other encodings, great depth and size, with the right password inside",
			Control: "the plain body gets a token",
			Oracle:  "no answer holds a token; each is 400, 413 or 415",
			Run:     authStrictJSON,
		},
		{
			ID: "auth/content-type", Title: "a foreign web page makes a browser log in or submit",
			Requirements: []string{"API-07", "REL-07"}, Threats: []string{"PUB-S1"}, Safe: true,
			Attack:  "the login body under the types that a browser's form can send without asking",
			Control: "as application/json it gets a token",
			Oracle:  "status 415 and no token",
			Run:     authContentType,
		},
		{
			ID: "auth/disabled-user", Title: "a user who was shut out goes on working",
			Requirements: []string{"AUT-01", "AUT-03"}, Threats: []string{"PUB-S1"},
			Attack:  "token, open connection and password of a disabled user, on both servers",
			Control: "all three work before, and again when the user is enabled",
			Oracle:  "status on each server right after the command returns",
			Run:     authDisabled,
		},
		{
			ID: "auth/changed-password", Title: "an old password still opens the account",
			Requirements: []string{"AUT-01", "AUT-02"}, Threats: []string{"PUB-S2"},
			Attack:  "the password from before a change, on both servers",
			Control: "the old one works before, the new one after",
			Oracle:  "status of the login",
			Run:     authChanged,
		},
		{
			ID: "auth/sign-up", Title: "a stranger makes an account",
			Requirements: []string{"AUT-01", "API-07"}, Threats: []string{"PUB-S1", "PUB-E1"}, Safe: true,
			Attack:  "the paths under which products let people register or manage users, with and without a token",
			Control: "a known route on the same connection is answered",
			Oracle:  "status 404 or 405, and the made-up login gets no token",
			Run:     authSignUp,
		},
	},
}

func authNoToken(e *harness.Env) {
	token := e.Token(e.Alice())
	for _, r := range protectedRoutes() {
		if r.method != http.MethodDelete {
			a := e.Do(r.request(harness.UUID(), token))
			e.Control(a.Status != http.StatusUnauthorized, "%s with a token: %s", r.name(), a.Brief())
		}
		e.Input("%s", r.name())
		a := e.Do(r.request(harness.UUID(), ""))
		e.Check(a.Status == http.StatusUnauthorized && strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Bearer"), "got %s, WWW-Authenticate %q", a.Brief(), a.Header.Get("WWW-Authenticate"))
		e.Check(r.method == http.MethodHead || a.Code() == "unauthenticated", "the form is not the one: %s", a.Brief())
	}
}

func authMalformed(e *harness.Env) {
	u := e.Alice()
	token := e.Token(u)
	e.Control(whoami(e.Do(me(token))) == u.Login, "the token names its user")
	for _, v := range load(e, "authorization") {
		e.Input("%s", v.ID)
		value := strings.ReplaceAll(strings.ReplaceAll(v.Bytes(), "TOKEN", token), "REST", token[1:])
		a := e.Do(me("", "Authorization: "+value))
		e.Check(whoami(a) == "", "it names a user: %s", a.Brief())
		// A header that HTTP itself does not permit, or one too large, may be
		// refused before it is read.
		e.Check(a.Status == http.StatusUnauthorized || a.Status == http.StatusBadRequest || a.Status == http.StatusRequestHeaderFieldsTooLarge, "got %s", a.Brief())
	}
}

func authDoubled(e *harness.Env) {
	alice, bob := e.Alice(), e.Bob()
	a, b := "Bearer "+e.Token(alice), "Bearer "+e.Token(bob)
	e.Control(whoami(e.Do(me("", "Authorization: "+a))) == alice.Login, "the first alone")
	e.Control(whoami(e.Do(me("", "authorization: "+b))) == bob.Login, "the second alone, in small letters")
	for name, lines := range map[string][]string{
		"two users": {"Authorization: " + a, "Authorization: " + b}, "the other order": {"Authorization: " + b, "Authorization: " + a},
		"the same twice": {"Authorization: " + a, "Authorization: " + a}, "other case": {"Authorization: " + a, "AUTHORIZATION: " + b},
		"an empty one": {"Authorization: ", "Authorization: " + a}, "another scheme": {"Authorization: Basic eDp5", "Authorization: " + a},
		"apart": {"Authorization: " + a, "Accept: */*", "Authorization: " + b},
	} {
		e.Input("%s", name)
		got := e.Do(me("", lines...))
		e.Check(refused(got, http.StatusBadRequest, "invalid_request"), "got %s", got.Brief())
	}
}

func authElsewhere(e *harness.Env) {
	u := e.Alice()
	token := e.Token(u)
	e.Control(whoami(e.Do(me(token))) == u.Login, "the token names its user")
	get := func(path string, header ...string) harness.Request {
		return harness.Request{Method: http.MethodGet, Path: path, Header: header}
	}
	form := "access_token=" + token
	for name, r := range map[string]harness.Request{
		"query access_token": get("/api/v1/auth/me?access_token=" + token), "query token": get("/api/v1/auth/me?token=" + token),
		"query authorization": get("/api/v1/auth/me?Authorization=Bearer%20" + token),
		"cookie":              get("/api/v1/auth/me", "Cookie: token="+token+"; Authorization=Bearer "+token+"; session="+token),
		"proxy header":        get("/api/v1/auth/me", "Proxy-Authorization: Bearer "+token),
		"x-auth-token":        get("/api/v1/auth/me", "X-Auth-Token: "+token, "X-Api-Key: "+token, "X-Access-Token: "+token),
		"forwarded header":    get("/api/v1/auth/me", "X-Forwarded-Authorization: Bearer "+token, "X-Original-Authorization: Bearer "+token),
		"underscore":          get("/api/v1/auth/me", "Authorization_: Bearer "+token, "HTTP_AUTHORIZATION: Bearer "+token),
		"websocket protocol":  get("/api/v1/auth/me", "Sec-WebSocket-Protocol: bearer, "+token),
		"body of a GET":       {Method: http.MethodGet, Path: "/api/v1/auth/me", Header: []string{"Content-Type: application/x-www-form-urlencoded", fmt.Sprintf("Content-Length: %d", len(form))}, Body: []byte(form), NoLength: true},
		"user info":           get("https://x:" + token + "@" + e.Public(0) + "/api/v1/auth/me"),
		"path":                get("/api/v1/auth/me/" + token), "path parameter": get("/api/v1/auth/me;token=" + token),
	} {
		e.Input("%s", name)
		a := e.Do(r)
		e.Check(whoami(a) == "" && a.Status >= 400, "got %s", a.Brief())
	}
}

// hasToken reports whether an answer gives out a token.
func hasToken(a harness.Answer) bool {
	var body struct {
		Token string `json:"token"`
	}
	return a.Status < 300 && json.Unmarshal(a.Body, &body) == nil && body.Token != ""
}

// nearly are ways to miss a password by little.
var nearly = []struct {
	name string
	of   func(password string) string
}{
	{"cut by one", func(p string) string { return p[:len(p)-1] }},
	{"lengthened", func(p string) string { return p + "x" }},
	{"upper case", strings.ToUpper},
	{"space behind", func(p string) string { return p + " " }},
	{"space before", func(p string) string { return " " + p }},
	{"line end", func(p string) string { return p + "\n" }},
	{"NUL behind", func(p string) string { return p + "\x00" }},
	{"NUL and more", func(p string) string { return p + "\x00x" }},
	{"doubled", func(p string) string { return p + p }},
	{"zero width inside", func(p string) string { return p[:8] + "\u200b" + p[8:] }},
	{"full width", func(p string) string { return strings.ReplaceAll(p, p[:1], string(rune(p[0])+0xfee0)) }},
	{"percent-encoded", func(p string) string { return fmt.Sprintf("%%%02x%s", p[0], p[1:]) }},
	{"star", func(string) string { return "*" }},
	{"one character", func(p string) string { return p[:1] }},
	{"empty", func(string) string { return "" }},
}

func authNearPassword(e *harness.Env) {
	const perUser = 4 // a fifth failure might be refused as one too many, and prove nothing
	for some := range slices.Chunk(nearly, perUser) {
		u := e.NewUser()
		e.Control(hasToken(e.Do(harness.LoginRequest(u.Login, u.Password))), "the right password, before")
		for _, n := range some {
			e.Input("%s", n.name)
			a := e.Do(harness.LoginRequest(u.Login, n.of(u.Password)))
			e.Check(!hasToken(a) && (a.Status == http.StatusUnauthorized || a.Status == http.StatusBadRequest), "got %s", a.Brief())
		}
		e.Control(hasToken(e.Do(harness.LoginRequest(u.Login, u.Password))), "the right password, afterwards")
	}
}

func authLongPassword(e *harness.Env) {
	u := e.NewUser()
	long := harness.RandomHex(100)
	_, err := e.Admin(e.Context(), long+"\n", "user", "passwd", u.Login, "--password-stdin")
	e.Must(err, "set a long password")
	e.Control(hasToken(e.Do(harness.LoginRequest(u.Login, long))), "the whole password")
	for _, at := range []int{55, 72, 128, 199} {
		e.Input("cut at %d", at)
		a := e.Do(harness.LoginRequest(u.Login, long[:at]))
		e.Check(refused(a, http.StatusUnauthorized, "unauthenticated"), "got %s", a.Brief())
	}
	e.Input("its end changed")
	e.Control(hasToken(e.Do(harness.LoginRequest(u.Login, long))), "the whole password, again")
	a := e.Do(harness.LoginRequest(u.Login, long[:199]+"!"))
	e.Check(refused(a, http.StatusUnauthorized, "unauthenticated"), "got %s", a.Brief())
}

func authDefaults(e *harness.Env) {
	e.Control(e.FreshToken(e.Alice()) != "", "a user that was made")
	for _, login := range []string{"admin", "root", "administrator", "glovebox", "test", "postgres", "worker", "system", "guest", "demo"} {
		for _, password := range []string{"admin", login, "password"} {
			e.Input("%s with %s", login, password)
			a := e.Do(harness.LoginRequest(login, password))
			if a.Status == http.StatusTooManyRequests {
				e.From("127.9." + fmt.Sprint(e.Rand.IntN(250)) + "." + fmt.Sprint(1+e.Rand.IntN(250)))
				a = e.Do(harness.LoginRequest(login, password))
			}
			e.Check(!hasToken(a) && a.Status < 500, "got %s", a.Brief())
		}
	}
}

func authUnknownSame(e *harness.Env) {
	u, off := e.NewUser(), e.NewUser()
	_, err := e.Admin(e.Context(), "", "user", "disable", off.Login)
	e.Must(err, "disable a user")
	e.Control(e.Do(harness.LoginRequest(u.Login, u.Password)).Status == http.StatusOK, "the right password")
	wrong := e.Do(harness.LoginRequest(u.Login, "wrong-"+harness.RandomHex(8)))
	for name, r := range map[string]harness.Request{
		"nobody":                         harness.LoginRequest("n"+harness.RandomHex(8), "wrong-"+harness.RandomHex(8)),
		"a disabled user, wrong":         harness.LoginRequest(off.Login, "wrong-"+harness.RandomHex(8)),
		"a disabled user, right":         harness.LoginRequest(off.Login, off.Password),
		"a login that nobody could have": harness.LoginRequest("no body!", "wrong-"+harness.RandomHex(8)),
		"on the other server":            {Method: http.MethodPost, Path: "/api/v1/auth/token", Header: []string{harness.JSONType}, Body: []byte(`{"login":"x","password":"y"}`), Server: 1},
	} {
		e.Input("%s", name)
		a := e.Do(r)
		e.Check(sameAnswer(a, wrong), "got %s %v, for a wrong password %s %v", a.Brief(), a.Header, wrong.Brief(), wrong.Header)
	}
}

// perRequest are the header fields that differ between any two answers.
var perRequest = []string{"Date", "X-Request-Id"}

// sameAnswer reports whether two answers are the same to whoever reads them.
func sameAnswer(a, b harness.Answer) bool {
	if a.Status != b.Status || string(a.Body) != string(b.Body) || len(a.Header) != len(b.Header) {
		return false
	}
	for name, values := range a.Header {
		if !slices.Contains(perRequest, name) && !slices.Equal(values, b.Header[name]) {
			return false
		}
	}
	return true
}

func authInjection(e *harness.Env) {
	u := e.Alice()
	e.Control(hasToken(e.Do(harness.LoginRequest(u.Login, u.Password))), "the form works")
	for _, text := range []string{
		"' OR '1'='1", "' OR 1=1--", u.Login + "'--", u.Login + "' /*", "\\' OR 1=1;--", "'; DROP TABLE app.users;--", "%", "_%", "*", ")(uid=*",
		"$1", "{\"$ne\":null}", "\x00", u.Login + "\x00", "'||pg_sleep(5)||'", "\ufeff" + u.Login, "../" + u.Login, "${jndi:ldap://x}", "{{7*7}}",
	} {
		e.Input("login %q", text)
		a := e.Do(harness.LoginRequest(text, u.Password))
		e.Check(!hasToken(a) && a.Status < 500, "got %s", a.Brief())
		e.Input("password %q", text)
		a = e.Do(harness.LoginRequest("n"+harness.RandomHex(6), text))
		e.Check(!hasToken(a) && a.Status < 500, "got %s", a.Brief())
	}
	e.Input("")
	e.From("127.8.7.6")
	e.Control(hasToken(e.Do(harness.LoginRequest(u.Login, u.Password))), "the user is still there")
}

func authStrictJSON(e *harness.Env) {
	u := e.Alice()
	plain := harness.LoginRequest(u.Login, u.Password)
	e.Control(hasToken(e.Do(plain)), "the plain body")
	l, p := fmt.Sprintf("%q", u.Login), fmt.Sprintf("%q", u.Password)
	good := `"login":` + l + `,"password":` + p
	bodies := map[string]string{
		"doubled login": `{"login":"x",` + good + `}`, "doubled password": `{` + good + `,"password":` + p + `}`,
		"doubled by escape": `{"log\u0069n":"x",` + good + `}`, "upper case keys": `{"Login":` + l + `,"Password":` + p + `}`,
		"long s and Kelvin": `{"login":` + l + `,"paſſword":` + p + `}`, "unknown key": `{` + good + `,"user_id":"1"}`, "admin": `{` + good + `,"admin":true}`,
		"array around": `[{` + good + `}]`, "array value": `{"login":[` + l + `],"password":` + p + `}`,
		"object value":  `{"login":{"$eq":` + l + `},"password":` + p + `}`,
		"null password": `{"login":` + l + `,"password":null}`, "number": `{"login":1,"password":2}`, "true": `{"login":` + l + `,"password":true}`,
		"second object": `{` + good + `}{` + good + `}`, "trailing comma": `{` + good + `,}`, "trailing text": `{` + good + `} x`, "comment": `{/**/` + good + `}`,
		"single quotes": strings.ReplaceAll(`{`+good+`}`, `"`, `'`), "byte order mark": "\xef\xbb\xbf{" + good + "}", "UTF-16": utf16(`{` + good + `}`),
		"bad UTF-8": `{` + good + `,"x":"` + "\xff" + `"}`, "depth": strings.Repeat(`{"login":`, 3000) + "1" + strings.Repeat("}", 3000), "empty": "",
		"only null": "null",
		"large":     `{` + good + strings.Repeat(" ", 64<<10) + `}`, "long login": `{"login":"` + strings.Repeat("a", 15<<10) + `","password":` + p + `}`,
		"NUL": `{` + good + "}\x00",
	}
	for name, body := range bodies {
		e.Input("%s", name)
		r := plain
		r.Body = []byte(body)
		a := e.Do(r)
		form := a.Status == http.StatusBadRequest || a.Status == http.StatusRequestEntityTooLarge || a.Status == http.StatusUnsupportedMediaType
		e.Check(!hasToken(a) && form && a.Code() != "", "got %s", a.Brief())
	}
}

// utf16 encodes ASCII text in 16-bit little-endian characters with their mark.
func utf16(text string) string {
	out := "\xff\xfe"
	for _, c := range []byte(text) {
		out += string([]byte{c, 0})
	}
	return out
}

func authContentType(e *harness.Env) {
	u := e.Alice()
	plain := harness.LoginRequest(u.Login, u.Password)
	e.Control(hasToken(e.Do(plain)), "as application/json")
	for _, kind := range []string{
		"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b", "", "text/json", "application/jsonp", "application/javascript",
		"application/json, text/plain", "application /json", "application/json;;charset", "text/plain; application/json", "*/*",
	} {
		e.Input("%q", kind)
		r := plain
		r.Header = []string{"Content-Type: " + kind, "Origin: https://evil.example"}
		a := e.Do(r)
		e.Check(refused(a, http.StatusUnsupportedMediaType, "unsupported_media_type"), "got %s", a.Brief())
	}
	e.Input("no type at all")
	r := plain
	r.Header = nil
	a := e.Do(r)
	e.Check(refused(a, http.StatusUnsupportedMediaType, "unsupported_media_type"), "got %s", a.Brief())
}

func authDisabled(e *harness.Env) {
	u := e.NewUser()
	token := e.Token(u)
	for i := range e.Servers() {
		r := me(token)
		r.Server = i
		e.Control(whoami(e.Do(r)) == u.Login, "the token on server %d, before", i)
	}
	_, err := e.Admin(e.Context(), "", "user", "disable", u.Login)
	e.Must(err, "disable the user")
	for i := range e.Servers() {
		e.Input("server %d", i)
		r := me(token)
		r.Server = i // on the connection that is open since before
		e.Check(e.Do(r).Status == http.StatusUnauthorized, "the token still works")
		login := harness.LoginRequest(u.Login, u.Password)
		login.Server = i
		e.Check(!hasToken(e.Do(login)), "the password still works")
	}
	_, err = e.Admin(e.Context(), "", "user", "enable", u.Login)
	e.Must(err, "enable the user")
	e.Control(hasToken(e.Do(harness.LoginRequest(u.Login, u.Password))), "the password when enabled again")
}

func authChanged(e *harness.Env) {
	u := e.NewUser()
	old, fresh := u.Password, harness.RandomHex(16)
	e.Control(hasToken(e.Do(harness.LoginRequest(u.Login, old))), "the old password, before")
	_, err := e.Admin(e.Context(), fresh+"\n", "user", "passwd", u.Login, "--password-stdin")
	e.Must(err, "change the password")
	for i := range e.Servers() {
		e.Input("server %d", i)
		r := harness.LoginRequest(u.Login, old)
		r.Server = i
		e.Check(refused(e.Do(r), http.StatusUnauthorized, "unauthenticated"), "the old password still works")
	}
	e.Control(hasToken(e.Do(harness.LoginRequest(u.Login, fresh))), "the new password")
}

func authSignUp(e *harness.Env) {
	token := e.Token(e.Alice())
	e.Control(e.Do(me(token)).Status == http.StatusOK, "a known route")
	login, password := "n"+harness.RandomHex(6), harness.RandomHex(16)
	body := fmt.Appendf(nil, `{"login":%q,"password":%q}`, login, password)
	for _, path := range []string{
		"/api/v1/users", "/api/v1/auth/users", "/api/v1/auth/register", "/api/v1/auth/signup", "/api/v1/signup", "/api/v1/register", "/api/v1/accounts",
		"/api/v1/admin/users", "/admin", "/api/v1/auth/reset", "/api/v1/auth/password", "/api/v1/auth/me", "/users", "/api/v2/auth/token",
		"/api/v1/workers", "/api/v1/tokens",
	} {
		for _, t := range []string{"", token} {
			for _, method := range []string{http.MethodPost, http.MethodPut} {
				e.Input("%s %s", method, path)
				a := e.Do(harness.Request{Method: method, Path: path, Token: t, Header: []string{harness.JSONType}, Body: body})
				e.Check(a.Status == http.StatusNotFound || a.Status == http.StatusMethodNotAllowed, "got %s", a.Brief())
			}
		}
	}
	e.Input("")
	e.Check(!hasToken(e.Do(harness.LoginRequest(login, password))), "the made-up user logs in")
}
