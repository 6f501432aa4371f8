package attacks

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"crypto/x509"

	"glovebox/attacks/forge"
	"glovebox/attacks/harness"
	"glovebox/attacks/oracle"
)

// logs attacks what is written down: by text that would forge or hide a line, and
// by secrets and content that would stand in one. These worlds log at debug.
var logs = harness.Family{
	Name: "logs", About: "forged lines, and secrets and content in logs",
	Cases: join(logLines, logSecrets),
}

// hostileTexts would break a line, forge one, or act on a terminal that shows it.
func hostileTexts(mark string) []string {
	return []string{
		mark + "\n{\"level\":\"ERROR\",\"msg\":\"forged\"}", mark + "\r\nforged: line", mark + "\x1b[2J\x1b]0;owned\x07", mark + "\x00nul", mark + "\"},{\"msg\":\"forged\"}", mark + "\u2028forged\u2029", mark + "\u202eforged", mark + "\x9b2J", mark + "\xff\xfe", mark + "\b\b\b\x7f", mark + "%0a%0dforged", mark + "\\nforged", mark + "${jndi:ldap://x}", mark + "%s%n%d",
	}
}

// sound checks every line that the system's own programs wrote since the mark.
func sound(e *harness.Env, since oracle.Logs, least int) []oracle.Line {
	var all []oracle.Line
	for _, program := range []string{"server-*.log", "worker-*.log", "launcher-*.log", "sweeper.log"} {
		lines, err := since.Since(program)
		e.Must(err, "read the logs")
		all = append(all, lines...)
	}
	e.Control(len(all) >= least, "only %d lines were written", len(all))
	for _, line := range all {
		e.Check(cleanLine(line), "%s: %.300q", line.File, line.Raw)
		msg, _ := line.Fields["msg"].(string)
		e.Check(!strings.Contains(msg, "forged"), "%s: a forged line: %.300q", line.File, line.Raw)
		_, twice := line.Fields["forged"]
		e.Check(!twice, "%s: a forged field: %.300q", line.File, line.Raw)
	}
	return all
}

// marked remembers where the logs end now.
func marked(e *harness.Env) oracle.Logs {
	l, err := oracle.MarkLogs(e.Endpoint.LogsDir)
	e.Must(err, "mark the logs")
	return l
}

const logOracle = "every line of the logs of server, worker, launcher and sweeper: one JSON object, no control or bidi character, no forged message"

var logLines = []harness.Case{
	{
		ID: "logs/requests", Title: "a request forges or hides a line of the log", World: harness.Quiet, Lock: "logs",
		Requirements: []string{"REL-02"}, Threats: []string{"OPS-R1"},
		Attack:  "line breaks, escapes, NUL, bidi, broken UTF-8 and JSON in method, path, query, host, every header that a log may hold, over HTTP/1.1 and HTTP/2",
		Control: "the requests leave lines",
		Oracle:  logOracle,
		Run: func(e *harness.Env) {
			since := marked(e)
			token := e.Token(e.NewUser())
			for _, text := range hostileTexts("r" + harness.RandomHex(4)) {
				flat := strings.NewReplacer("\r", "", "\n", "\\n", "\x00", "").Replace(text)
				for _, r := range []harness.Request{
					{Method: http.MethodGet, Path: "/" + url.PathEscape(text)}, {Method: http.MethodGet, Path: "/health?" + url.QueryEscape(text)}, {Method: http.MethodGet, Path: "/api/v1/jobs/" + url.PathEscape(text), Token: token},
					{Method: http.MethodGet, Path: "/health", Header: []string{"User-Agent: " + flat, "Referer: " + flat, "X-Request-Id: " + flat, "X-Forwarded-For: " + flat, "Traceparent: " + flat, "Origin: " + flat}},
					{Method: http.MethodGet, Path: "/health", NoHost: true, Header: []string{"Host: " + flat}}, {Method: "G" + strings.ToUpper(harness.RandomHex(3)), Path: "/health"}, {Method: http.MethodGet, Path: "/health", Token: flat}, {Method: http.MethodGet, Path: "/" + flat},
				} {
					_, _ = e.Try(r) // many are refused below the handlers
				}
				c, err := e.Dial(e.Public(0), nil)
				e.Must(err, "connect")
				_ = c.Send([]byte(text + " / HTTP/1.1\r\nHost: x\r\n\r\n"))
				_, _ = c.Receive(http.MethodGet, time.Second)
				c.Close()
				h := e.H2(e.Public(0))
				id, err := h.Open(harness.Fields("GET", e.Public(0), "/"+url.PathEscape(text), [2]string{"user-agent", flat}, [2]string{"x-request-id", flat}), true)
				if err == nil {
					_, _ = h.Await(id, 2*time.Second)
				}
			}
			sound(e, since, 40)
		},
	},
	{
		ID: "logs/logins", Title: "a login forges or hides a line of the log", World: harness.Quiet, Lock: "logs",
		Requirements: []string{"REL-02", "AUT-05"}, Threats: []string{"OPS-R1"},
		Attack:  "hostile text as login, as password and as unknown keys of the body",
		Control: "failed logins leave lines",
		Oracle:  logOracle,
		Run: func(e *harness.Env) {
			since := marked(e)
			for i, text := range hostileTexts("l" + harness.RandomHex(4)) {
				if i%6 == 5 {
					e.From(fmt.Sprintf("127.%d.%d.9", 30+e.Rand.IntN(20), 1+e.Rand.IntN(250)))
				}
				e.Do(harness.LoginRequest(text, text))
				body, err := json.Marshal(map[string]string{"login": "x", "password": "y", text: text})
				e.Must(err, "write a body")
				e.Do(harness.Request{Method: http.MethodPost, Path: "/api/v1/auth/token", Header: []string{harness.JSONType}, Body: body})
				e.Do(harness.Request{Method: http.MethodPost, Path: "/api/v1/auth/token", Header: []string{harness.JSONType}, Body: []byte(`{"login":"` + text)})
			}
			sound(e, since, 10)
		},
	},
	{
		ID: "logs/uploads", Title: "an upload's name or key forges or hides a line of the log", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"REL-02", "UPL-05"}, Threats: []string{"OPS-R1", "PUB-T4"},
		Attack:  "hostile text as file name, as idempotency key, as part's name and type, through a whole attempt with a hostile failure",
		Control: "uploads leave lines",
		Oracle:  logOracle,
		Run: func(e *harness.Env) {
			since := marked(e)
			u, w := e.NewUser(), ownWorker(e)
			for _, text := range hostileTexts("u" + harness.RandomHex(4)) {
				quoted := strings.NewReplacer("\"", "%22", "\r", "%0D", "\n", "%0A").Replace(text)
				flat := strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(text)
				r := harness.SubmitRequest(e.Token(u), harness.Lua(), "Idempotency-Key: "+flat)
				r.Body = harness.Form(quoted, harness.Lua())
				_, _ = e.Try(r)
				r = harness.SubmitRequest(e.Token(u), harness.Lua())
				r.Body = []byte(strings.Replace(string(r.Body), `name="file"`, `name="`+quoted+`"`, 1))
				_, _ = e.Try(r)
			}
			for a := w.Claim(); a != nil; a = w.Claim() {
				body, err := json.Marshal(map[string]any{"code": "invalid_input", "retryable": false, "detail": `"},{"msg":"forged"}`})
				e.Must(err, "write a failure")
				report(w, a, string(body), "Glovebox-Attempt-Provenance: "+`{"msg":"forged"}`)
			}
			sound(e, since, 10)
		},
	},
	{
		ID: "logs/certificates", Title: "a certificate or a handshake forges or hides a line of the log", World: harness.Quiet, Lock: "logs",
		Requirements: []string{"REL-02", "MTL-02"}, Threats: []string{"OPS-R1"},
		Attack:  "hostile text in the subject and the names of certificates of the right authority and of a foreign one, as server name and protocol of handshakes at both listeners",
		Control: "the refused handshakes leave lines at debug",
		Oracle:  logOracle,
		Run: func(e *harness.Env) {
			since := marked(e)
			foreign, err := forge.NewAuthority("x\n{\"msg\":\"forged\"}", nil)
			e.Must(err, "make an authority")
			for i, text := range hostileTexts("c" + harness.RandomHex(4)) {
				for _, by := range []*forge.Authority{stolen(e, internalCA), foreign} {
					leaf := forge.Client(workerName + "y" + fmt.Sprint(i))
					leaf.Change = func(c *x509.Certificate) {
						c.Subject = pkix.Name{CommonName: strings.ToValidUTF8(text, "?"), Organization: []string{strings.ToValidUTF8(text, "?")}}
					}
					pair, err := by.Sign(leaf)
					e.Must(err, "forge a certificate")
					_, _ = claimOver(e, showing(e, pair))
					leaf.URIs = []string{"spiffe://glovebox/worker/" + url.PathEscape(text)}
					if pair, err = by.Sign(leaf); err == nil {
						_, _ = claimOver(e, showing(e, pair))
					}
				}
				for _, address := range []string{e.Public(0), e.Internal(0)} {
					c, err := e.DialTCP(e.Context(), address)
					e.Must(err, "connect")
					_ = c.SetDeadline(time.Now().Add(2 * time.Second))
					name := strings.NewReplacer(".", "x").Replace(text)
					_ = tls.Client(c, &tls.Config{ServerName: name, NextProtos: []string{strings.ToValidUTF8(text, "?")}, InsecureSkipVerify: true}).HandshakeContext(e.Context()) //nolint:gosec // the handshake is the attack
					_ = c.Close()
				}
			}
			sound(e, since, 10)
		},
	},
	{
		ID: "logs/core-words", Title: "what the core says about a file forges a line of the log", World: harness.Brief, Lock: "logs", Slow: true,
		Requirements: []string{"REL-02", "SBX-16"}, Threats: []string{"OPS-R1", "BOX-D2"},
		Attack:  "sources whose faults make the core repeat hostile text: names, strings, comments, escapes",
		Control: "each job ends and leaves lines at every process on its way",
		Oracle:  logOracle,
		Run: func(e *harness.Env) {
			since := marked(e)
			u := e.NewUser()
			var ids []string
			for _, text := range hostileTexts("k" + harness.RandomHex(4)) {
				for _, source := range []string{"local " + text + " = = 1", "x = \"" + text, "goto " + text, "--[[" + text} {
					a := e.Do(harness.SubmitRequest(e.FreshToken(u), []byte(source)))
					if a.Status == http.StatusCreated {
						var job harness.Job
						e.JSON(a, &job)
						ids = append(ids, job.ID)
					}
				}
				if len(ids) > 24 {
					break
				}
			}
			db := observer(e)
			ended := e.Await(60*time.Second, func() bool {
				for _, id := range ids {
					if s := jobRow(e, db, id).Status; s != "completed" && s != "failed" {
						return false
					}
				}
				return true
			})
			e.Control(ended && len(ids) > 10, "of %d jobs not all have ended", len(ids))
			sound(e, since, len(ids))
		},
	},
}

// written searches what was logged since the mark, PostgreSQL's and the engine's
// own logs, and the metrics, for needles, as they stand and as they may be coded.
func written(e *harness.Env, since oracle.Logs, needles map[string][]byte) {
	coded := map[string][]byte{}
	for name, needle := range needles {
		coded[name] = needle
		if len(needle) >= 6 {
			coded[name+", in base64"] = []byte(strings.TrimRight(base64.StdEncoding.EncodeToString(needle), "="))[:min(20, len(needle))]
			coded[name+", in hex"] = []byte(fmt.Sprintf("%x", needle))
		}
	}
	lines, err := since.Since("*.log")
	e.Must(err, "read the logs")
	e.Control(len(lines) > 3, "only %d lines were written", len(lines))
	for _, line := range lines {
		for name, needle := range coded {
			e.Check(!strings.Contains(string(line.Raw), string(needle)), "%s holds the %s", line.File, name)
		}
	}
	for _, file := range []string{"pg/log", "eng/log"} {
		hits, err := oracle.Search(statePath(e, file), needles)
		e.Must(err, "search %s", file)
		e.Check(len(hits) == 0, "%s holds %v", file, hits)
	}
	for name, page := range e.Endpoint.Metrics {
		address, ok := page.(string)
		if !ok {
			continue
		}
		m, err := oracle.Scrape(e.Context(), address)
		if err != nil {
			continue // a program that this world does not run
		}
		for series := range m {
			for what, needle := range needles {
				e.Check(!strings.Contains(series, string(needle)), "the metrics of %s hold the %s", name, what)
			}
		}
	}
	planted := strings.NewReader(`{"msg":"x","text":"` + string(needles["canary"]) + `"}`)
	hits, err := oracle.SearchReader(planted, needles)
	e.Control(err == nil && len(hits) == 1, "the search does not find a planted text: %v (%v)", hits, err)
}

var logSecrets = []harness.Case{
	{
		ID: "logs/tokens", Title: "a user's token stands in a log", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"REL-02"}, Threats: []string{"OPS-I1", "PUB-S1"},
		Attack:  "a live token where it belongs and where it does not: path, query, cookie, basic credentials, other schemes, referer, body, idempotency key, as a user agent, malformed by one letter, twice",
		Control: "the search finds a planted text; the token is good",
		Oracle:  "every log of the system at debug, PostgreSQL's and the engine's included, and the metrics",
		Run: func(e *harness.Env) {
			since := marked(e)
			token := e.FreshToken(e.NewUser())
			me := e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/auth/me", Token: token})
			e.Control(me.Status == http.StatusOK, "the token: %s", me.Brief())
			basic := base64.StdEncoding.EncodeToString([]byte("user:" + token))
			for _, r := range []harness.Request{
				{Method: http.MethodGet, Path: "/api/v1/jobs/" + token}, {Method: http.MethodGet, Path: "/" + token + "/x", Token: token}, {Method: http.MethodGet, Path: "/api/v1/auth/me?token=" + token}, {Method: http.MethodGet, Path: "/api/v1/auth/me?access_token=" + token, Token: token + "x"},
				{Method: http.MethodGet, Path: "/api/v1/auth/me", Header: []string{"Cookie: token=" + token}}, {Method: http.MethodGet, Path: "/api/v1/auth/me", Header: []string{"Authorization: Basic " + basic}}, {Method: http.MethodGet, Path: "/api/v1/auth/me", Header: []string{"Authorization: Token " + token}},
				{Method: http.MethodGet, Path: "/api/v1/auth/me", Header: []string{"Authorization: Bearer " + token, "Authorization: Bearer " + token}}, {Method: http.MethodGet, Path: "/health", Header: []string{"Referer: https://x/?t=" + token, "User-Agent: " + token, "X-Request-Id: " + token, "X-Api-Key: " + token}},
				{Method: http.MethodPost, Path: "/api/v1/auth/token", Header: []string{harness.JSONType}, Body: []byte(`{"login":"` + token + `","password":"` + token + `"}`)}, {Method: http.MethodPost, Path: "/api/v1/auth/token", Header: []string{harness.JSONType}, Body: []byte(`{"token":"` + token + `"`)},
				harness.SubmitRequest(token, harness.Lua(), "Idempotency-Key: "+token), {Method: "X" + strings.ToUpper(token[len(token)-8:]), Path: "/api/v1/jobs", Token: token}, {Method: http.MethodDelete, Path: "/api/v1/auth/token", Token: token},
			} {
				_, _ = e.Try(r)
			}
			written(e, since, map[string][]byte{"canary": []byte("canary-" + harness.RandomHex(8)), "token": []byte(token), "basic credentials": []byte(basic), "token in upper case": []byte(strings.ToUpper(token))})
		},
	},
	{
		ID: "logs/passwords", Title: "a password stands in a log", World: harness.Quiet, Lock: "logs",
		Requirements: []string{"REL-02", "AUT-02"}, Threats: []string{"OPS-I1", "PUB-S2"},
		Attack:  "right and wrong passwords in the password's field, the login's, in bodies that are no JSON, of unknown keys, too long, in the query and in the path; by the operator's command",
		Control: "the search finds a planted text; the right password logs in",
		Oracle:  "every log of the system at debug, PostgreSQL's and the engine's included, and the metrics",
		Run: func(e *harness.Env) {
			since := marked(e)
			u := e.NewUser()
			e.Control(e.FreshToken(u) != "", "the right password")
			wrong := "wrong-" + harness.RandomHex(8)
			for _, p := range []string{u.Password, wrong} {
				for _, r := range []harness.Request{
					harness.LoginRequest(p, p), harness.LoginRequest(u.Login, p+"x"), harness.LoginRequest(u.Login, p+strings.Repeat("y", 5000)), {Method: http.MethodPost, Path: "/api/v1/auth/token", Header: []string{harness.JSONType}, Body: []byte(`{"login":"x","password":"` + p)},
					{Method: http.MethodPost, Path: "/api/v1/auth/token", Header: []string{harness.JSONType}, Body: []byte(`{"login":"x","passwort":"` + p + `"}`)}, {Method: http.MethodPost, Path: "/api/v1/auth/token", Header: []string{harness.JSONType}, Body: []byte(`{"login":["` + p + `"],"password":1}`)},
					{Method: http.MethodPost, Path: "/api/v1/auth/token?password=" + p, Header: []string{harness.JSONType}}, {Method: http.MethodPost, Path: "/api/v1/auth/token/" + p}, {Method: http.MethodPost, Path: "/api/v1/auth/token", Header: []string{"Content-Type: application/x-www-form-urlencoded"}, Body: []byte("login=x&password=" + p)},
					{Method: http.MethodGet, Path: "/api/v1/auth/me", Header: []string{"Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("x:"+p))}},
				} {
					_, _ = e.Try(r)
				}
				e.From(fmt.Sprintf("127.%d.%d.9", 50+e.Rand.IntN(9), 1+e.Rand.IntN(250)))
			}
			_, _ = e.Admin(e.Context(), wrong+"\n", "user", "passwd", u.Login, "--password-stdin")
			written(e, since, map[string][]byte{"canary": []byte("canary-" + harness.RandomHex(8)), "right password": []byte(u.Password), "wrong password": []byte(wrong)})
		},
	},
	{
		ID: "logs/content", Title: "a user's file, its name or its result stands in a log", World: harness.Brief, Lock: "logs",
		Requirements: []string{"REL-02", "UPL-05"}, Threats: []string{"OPS-I1", "STO-I1"},
		Attack:  "a mark in the content, the name and the result of files that are processed, refused as no Lua, refused as too large, cut off, sent with a wrong digest",
		Control: "the search finds a planted text; the owner is told of the mark in the diagnostic, or downloads it",
		Oracle:  "every log of the system at debug, PostgreSQL's and the engine's included, and the metrics",
		Run: func(e *harness.Env) {
			since := marked(e)
			mark := "canary" + harness.RandomHex(8)
			u := e.NewUser()
			submit := func(source string) (harness.Job, harness.Answer) {
				r := harness.SubmitRequest(e.FreshToken(u), []byte(source))
				r.Body = harness.Form(mark+".lua", []byte(source))
				a := e.Do(r)
				var job harness.Job
				if a.Status == http.StatusCreated {
					e.JSON(a, &job)
				}
				return job, a
			}
			good, _ := submit("local " + mark + " = '" + mark + "'\nreturn " + mark + "\n")
			bad, _ := submit("local = " + mark + " '" + mark)
			_, large := submit("-- " + mark + strings.Repeat("x", 300_000))
			e.Check(large.Status == http.StatusRequestEntityTooLarge, "too large: %s", large.Brief())
			r := harness.SubmitRequest(e.FreshToken(u), []byte(mark), "Glovebox-File-Digest: "+harness.Digest([]byte("other")))
			_, _ = e.Try(r)
			db := observer(e)
			e.Control(e.Await(40*time.Second, func() bool {
				return jobRow(e, db, good.ID).Status == "completed" && jobRow(e, db, bad.ID).Status == "failed"
			}), "the jobs are %s and %s", jobRow(e, db, good.ID).Status, jobRow(e, db, bad.ID).Status)
			written(e, since, map[string][]byte{"canary": []byte(mark)})
		},
	},
	{
		ID: "logs/keys", Title: "a key or a secret of the system itself stands in a log", World: harness.Quiet, Lock: "logs",
		Requirements: []string{"REL-02", "REL-04"}, Threats: []string{"OPS-I1"},
		Attack:  "all that the system wrote at debug since its start, its refused handshakes and failed starts included",
		Control: "a planted key is found",
		Oracle:  "every log, PostgreSQL's and the engine's included, searched for the secrets that this system uses",
		Run: func(e *harness.Env) {
			needles := systemSecrets(e)
			all, err := filepath.Glob(filepath.Join(e.Endpoint.LogsDir, "*.log"))
			e.Must(err, "list the logs")
			e.Control(len(all) >= 4, "only %v", all)
			for _, file := range append(all, statePath(e, "pg/log"), statePath(e, "eng/log")) {
				hits := search(e, file, needles)
				e.Check(len(hits) == 0, "%s holds %v", filepath.Base(file), hits)
			}
			for name, needle := range needles {
				hits, err := oracle.SearchReader(strings.NewReader("before "+string(needle)+" after"), needles)
				e.Control(err == nil && len(hits) > 0, "a planted %s is not found", name)
			}
		},
	},
	{
		ID: "logs/correlation", Title: "a client chooses what a request is called in the log", World: harness.Quiet, Lock: "logs",
		Requirements: []string{"REL-02"}, Threats: []string{"OPS-R1"},
		Attack:  "request ids that are no UUID, in upper case, in braces, twice, empty, long, of another request",
		Control: "a canonical UUID is taken over, in the answer and in the log",
		Oracle:  "the request_id of the lines that were written, and the answer's header",
		Run: func(e *harness.Env) {
			since := marked(e)
			good := harness.UUID()
			a := e.Do(harness.Request{Method: http.MethodGet, Path: "/health", Header: []string{"X-Request-Id: " + good}})
			e.Control(a.Header.Get("X-Request-Id") == good, "a canonical one: %q", a.Header.Get("X-Request-Id"))
			bad := []string{strings.ToUpper(harness.UUID()), "{" + harness.UUID() + "}", strings.ReplaceAll(harness.UUID(), "-", ""), "chosen", harness.UUID() + "x", strings.Repeat("a", 500), "' OR 1", "urn:uuid:" + harness.UUID()}
			for _, id := range bad {
				a := e.Do(harness.Request{Method: http.MethodGet, Path: "/health", Header: []string{"X-Request-Id: " + id}})
				e.Check(a.Header.Get("X-Request-Id") != id && len(a.Header.Get("X-Request-Id")) == 36, "%.40q is answered with %q", id, a.Header.Get("X-Request-Id"))
			}
			one, two := harness.UUID(), harness.UUID()
			a = e.Do(harness.Request{Method: http.MethodGet, Path: "/health", Header: []string{"X-Request-Id: " + one, "X-Request-Id: " + two}})
			e.Check(a.Header.Get("X-Request-Id") != one && a.Header.Get("X-Request-Id") != two, "of two ids one was taken")
			lines, err := since.Since("server-*.log")
			e.Must(err, "read the logs")
			seen := false
			for _, line := range lines {
				id, _ := line.Fields["request_id"].(string)
				seen = seen || id == good
				for _, b := range bad {
					e.Check(id != b, "a line bears the id %.40q", b)
				}
			}
			e.Control(seen, "no line bears the canonical id")
		},
	},
}
