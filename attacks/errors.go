package attacks

import (
	"bytes"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"glovebox/attacks/harness"
)

// faults attacks what the server says when it says no.
var faults = harness.Family{
	Name: "errors", About: "error answers on every route and method, and what they tell",
	Cases: []harness.Case{
		{
			ID: "errors/contract", Title: "a route is there that nobody listed, and nobody attacks",
			Requirements: []string{"API-08", "API-03"}, Threats: []string{"PUB-I2"}, Safe: true,
			Attack:  "the contract that the server serves is compared with this suite's list of routes",
			Control: "the document names the login",
			Oracle:  "both lists are the same for the operations that are served; every other one is answered 404 or 405",
			Run:     errorsContract,
		},
		{
			ID: "errors/matrix", Title: "some route and method answers in another form, or with the inside",
			Requirements: []string{"API-03", "API-07"}, Threats: []string{"PUB-I2", "PUB-E1"}, Safe: true,
			Attack:  "every known path under every method, odd ones included, with and without a token",
			Control: "the documented methods are not answered 405",
			Oracle:  "every refusal has the one form, a documented code, and Allow with 405; no 5xx",
			Run:     errorsMatrix,
		},
		{
			ID: "errors/paths", Title: "an unknown path is answered in another form, or by something that should not be there",
			Requirements: []string{"API-03"}, Threats: []string{"PUB-I2", "OPS-E2"}, Safe: true,
			Attack:  "paths of debuggers, metrics, consoles, documentation, backups and other products, plain and odd ones",
			Control: "known paths are served",
			Oracle:  "404 in the one form",
			Run:     errorsPaths,
		},
		{
			ID: "errors/leaks", Title: "an answer tells paths, versions, names of parts or a stack",
			Requirements: []string{"API-03", "API-05"}, Threats: []string{"PUB-I2"}, Safe: true,
			Attack:  "some hundred refusals of every kind are collected",
			Control: "the search finds the words in a text that holds them",
			Oracle:  "no header and no body holds a path of the host, a version, a part's name, a stack's words",
			Run:     errorsLeaks,
		},
		{
			ID: "errors/internal-matrix", Title: "the internal interface answers in another form, or with the inside",
			Requirements: []string{"API-03", "API-07"}, Threats: []string{"PUB-I2", "INT-I1"},
			Attack:  "every internal path and some unknown ones under every method, with a worker's certificate",
			Control: "a claim is answered as documented",
			Oracle:  "every refusal has the one form; no 5xx; nothing of the inside",
			Run:     errorsInternal,
		},
		{
			ID: "errors/malformed", Title: "what HTTP's own parser refuses tells the inside or breaks the server",
			Requirements: []string{"API-03", "API-07"}, Threats: []string{"PUB-I2", "PUB-D1"}, Safe: true,
			Attack:  "requests that are no HTTP: bad lines, bad escapes, bad lengths, binary",
			Control: "a good request is answered",
			Oracle:  "4xx or the end of the connection; a short text without inner words",
			Run:     errorsMalformed,
		},
		{
			ID: "errors/reflection", Title: "what a client sent comes back in the answer",
			Requirements: []string{"API-03"}, Threats: []string{"PUB-I3", "PUB-I2"}, Safe: true,
			Attack:  "a marker in path, query, headers, methods, bodies and as request id; TRACE",
			Control: "a request id in the canonical form does come back",
			Oracle:  "no header and no body holds the marker",
			Run:     errorsReflection,
		},
		{
			ID: "errors/doubled-headers", Title: "of two headers nobody knows which counts",
			Requirements: []string{"API-07"}, Threats: []string{"PUB-T2"}, Safe: true,
			Attack:  "each header that decides something, twice, with equal and with different values",
			Control: "each of them once is not refused for it",
			Oracle:  "400 invalid_request",
			Run:     errorsDoubled,
		},
		{
			ID: "errors/browser", Title: "a web page reads answers, frames them or runs them",
			Requirements: []string{"API-07", "REL-07"}, Threats: []string{"PUB-I3"}, Safe: true,
			Attack:  "requests as browsers send them for a foreign page: Origin, preflights, no-cors, with credentials",
			Control: "the plain request is answered",
			Oracle:  "no Access-Control header, no preflight of 2xx; the protecting headers are on every answer",
			Run:     errorsBrowser,
		},
		{
			ID: "errors/health", Title: "the questions that anybody may ask tell the inside",
			Requirements: []string{"API-03"}, Threats: []string{"PUB-I2"}, Safe: true,
			Attack:  "/health and /ready, with queries and headers that ask for more",
			Control: "both are answered",
			Oracle:  "the exact bytes of the answers",
			Run:     errorsHealth,
		},
		{
			ID: "errors/metrics", Title: "a stranger reads figures or a debugger",
			Requirements: []string{"ARC-02", "API-03"}, Threats: []string{"PUB-I2", "OPS-E2"},
			Attack:  "/metrics and /debug on both interfaces; the metrics' listener for anything but figures",
			Control: "the figures are served where they should be",
			Oracle:  "404; the metrics' listener is bound to loopback by the kernel's word",
			Run:     errorsMetrics,
		},
		{
			ID: "errors/no-crash", Title: "some input makes the server fail",
			Requirements: []string{"API-03", "REL-01"}, Threats: []string{"PUB-D1", "PUB-I2"}, Slow: true,
			Attack:  "1,500 requests of random methods, paths, headers and bodies made of hostile pieces",
			Control: "some of them reach their handlers: 401, 404, 405 and 400 all come",
			Oracle:  "no 5xx; no panic in the log; the same processes by the kernel's word",
			Run:     errorsNoCrash,
		},
		{
			ID: "errors/quiet-log", Title: "requests of a stranger fill the log with errors and stacks",
			Requirements: []string{"API-03", "REL-02"}, Threats: []string{"OPS-D1"}, Serial: true,
			Attack:  "the refusals of every kind",
			Control: "each request has a line in the log",
			Oracle:  "no line of level ERROR, and not more bytes than a bound for each request",
			Run:     errorsQuietLog,
		},
	},
}

// methods are all that a request may say, and some that it may not.
var methods = []string{
	"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "MKCOL", "COPY", "MOVE", "LOCK", "SEARCH", "QUERY",
	"PURGE", "LINK", "get", "Get", "FOO", "X", "DEBUG", "TRACK", strings.Repeat("M", 200),
}

// served reads the contract from the server and returns "METHOD path" of the public
// operations, and the error codes.
func served(e *harness.Env) (operations, codes []string) {
	a := e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/openapi.yaml"})
	var doc struct {
		Paths      map[string]map[string]any `yaml:"paths"`
		Components struct {
			Schemas struct {
				Error struct {
					Properties struct {
						Error struct {
							Properties struct {
								Code struct {
									Enum []string `yaml:"enum"`
								} `yaml:"code"`
							} `yaml:"properties"`
						} `yaml:"error"`
					} `yaml:"properties"`
				} `yaml:"Error"`
			} `yaml:"schemas"`
		} `yaml:"components"`
	}
	e.Must(yaml.Unmarshal(a.Body, &doc), "read the contract")
	for path, item := range doc.Paths {
		for method := range item {
			if m := strings.ToUpper(method); slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}, m) && !strings.HasPrefix(path, "/internal/") {
				operations = append(operations, m+" "+path)
			}
		}
	}
	slices.Sort(operations)
	return operations, doc.Components.Schemas.Error.Properties.Error.Properties.Code.Enum
}

func errorsContract(e *harness.Env) {
	operations, codes := served(e)
	e.Control(slices.Contains(operations, "POST /api/v1/auth/token") && len(codes) > 15, "the document names %d operations and %d codes", len(operations), len(codes))
	var known []string
	for _, r := range routes {
		known = append(known, r.name())
	}
	for _, o := range operations {
		e.Check(slices.Contains(known, o), "the contract has %s, which is not attacked", o)
	}
	for _, k := range known {
		e.Check(slices.Contains(operations, k), "%s is attacked and not in the contract", k)
	}
}

// form checks that a refusal has the one form.
func form(e *harness.Env, a harness.Answer, head bool, codes []string) {
	if a.Status < 400 {
		return
	}
	e.Check(a.Status < 500 || a.Status == http.StatusServiceUnavailable, "got %s", a.Brief())
	if head {
		e.Check(len(a.Body) == 0, "HEAD has a body: %s", a.Brief())
		return
	}
	code, message, ok := a.ErrorForm()
	e.Check(ok && message != "" && slices.Contains(codes, code), "the form is not the one: %s, %q", a.Brief(), a.Header.Get("Content-Type"))
}

func errorsMatrix(e *harness.Env) {
	token := e.Token(e.Alice())
	_, codes := served(e)
	for _, r := range routes {
		for _, method := range methods {
			for name, t := range map[string]string{"with a token": token, "without": ""} {
				if method == http.MethodDelete && r.path == "/api/v1/auth/token" && t != "" {
					continue // it would end the token
				}
				e.Input("%.20s %s %s", method, r.path, name)
				path := strings.ReplaceAll(r.path, "{id}", harness.UUID())
				a, err := onKept(e, harness.Request{Method: method, Path: path, Token: t})
				if err != nil {
					e.Check(method == "CONNECT" || len(method) > 20, "no answer: %v", err)
					continue
				}
				form(e, a, method == http.MethodHead, codes)
				if a.Status == http.StatusMethodNotAllowed {
					e.Check(a.Header.Get("Allow") != "" && !strings.Contains(a.Header.Get("Allow"), method+",") && !strings.HasSuffix(a.Header.Get("Allow"), " "+method), "405 with Allow %q", a.Header.Get("Allow"))
				}
				if method == r.method {
					e.Control(a.Status != http.StatusMethodNotAllowed, "the documented method is refused")
				} else if !documented(method, r.path) {
					e.Check(a.Status == http.StatusMethodNotAllowed || a.Status == http.StatusBadRequest || a.Status == http.StatusNotFound, "got %s", a.Brief())
				}
			}
		}
	}
}

func documented(method, path string) bool {
	return slices.ContainsFunc(routes, func(r route) bool { return r.method == method && r.path == path })
}

// onKept sends a request whose method may make it end without a body.
func onKept(e *harness.Env, r harness.Request) (harness.Answer, error) {
	if r.Method == "CONNECT" { // its answer has another framing
		return onFresh(e, r)
	}
	return e.Try(r)
}

var strangePaths = []string{
	"/", "/index.html", "/api", "/api/", "/api/v1", "/api/v1/", "/api/v2/jobs", "/v1/jobs", "/api/v1/job", "/api/v1/jobs/x/y/z", "/metrics",
	"/debug/pprof/", "/debug/pprof/heap", "/debug/vars", "/debug/requests", "/statsz", "/healthz", "/livez", "/readyz", "/status", "/info",
	"/version", "/env", "/trace",
	"/actuator", "/actuator/env", "/actuator/heapdump", "/swagger.json", "/swagger-ui/", "/openapi.json", "/api/v1/openapi.json", "/api/v1/docs",
	"/graphql", "/console", "/admin", "/phpmyadmin/", "/wp-login.php", "/.env", "/.git/config", "/.aws/credentials", "/server-status",
	"/cgi-bin/test", "/jmx-console", "/solr/",
	"/internal", "/internal/v1/jobs/claim", "/hooks/x", "/backup.zip", "/dump.sql", "/config.toml", "/%", "/%zz", "/%00", "/\u00e4",
	"/" + strings.Repeat("a", 4000), "/a//b", "/api/v1/jobs?x=%zz", "/api/v1/auth/token/", "/api/v1/auth/me/", "/health/", "/ready/x", "/HEALTH",
	"/api/v1/openapi.yaml/", "//", "/;/", "/?", "/#", "/~root/",
}

func errorsPaths(e *harness.Env) {
	_, codes := served(e)
	for _, path := range []string{"/health", "/ready"} {
		e.Control(e.Do(harness.Request{Method: http.MethodGet, Path: path}).Status == http.StatusOK, "%s", path)
	}
	for _, path := range strangePaths {
		for _, t := range []string{"", e.Token(e.Alice())} {
			e.Input("%.60s", path)
			a := e.Do(harness.Request{Method: http.MethodGet, Path: path, Token: t})
			malformed := a.Status == http.StatusBadRequest // the parser's own word
			e.Check(a.Status == http.StatusNotFound || malformed || a.Status == http.StatusUnauthorized || a.Status == http.StatusMethodNotAllowed, "got %s", a.Brief())
			if !malformed {
				form(e, a, false, codes)
			}
		}
	}
}

// inner are words of the inside; each is looked for in all that comes out.
var inner = regexp.MustCompile(`(?i)/var/|/tmp/|/etc/|/usr/|/home/|/root|/proc/|\.go:\d|goroutine|runtime\.|panic|pgx|postgres|sqlstate|pq:|select |insert |app\.|observe\.|glovebox_|podman|conmon|launcher|spare-|worker-\d|127\.0\.0\.1|localhost|\.sock|uid=|golang|go1\.\d|x509:|tls:|net/http|chi\b|0x[0-9a-f]{6,}|storage root|no such file|permission denied|connection refused|EOF`)

// tellsInside returns the first word of the inside that the answer holds.
func tellsInside(a harness.Answer) string {
	var text bytes.Buffer
	_ = a.Header.Write(&text) // a buffer does not fail
	text.Write(a.Body)
	return string(inner.Find(text.Bytes()))
}

// refusals are refused requests of every kind.
func refusals(e *harness.Env) []harness.Request {
	token := e.Token(e.Alice())
	all := []harness.Request{
		me(""), me("gbx_wrong"), me("", "Authorization: Basic x"), harness.LoginRequest("nobody", "nothing"), harness.LoginRequest("", ""),
		harness.LoginRequest(strings.Repeat("a", 300), "b"),
		{Method: "POST", Path: "/api/v1/auth/token", Header: []string{harness.JSONType}, Body: []byte("{")},
		{Method: "POST", Path: "/api/v1/auth/token", Header: []string{harness.JSONType}, Body: []byte(`{"login":1}`)},
		{Method: "POST", Path: "/api/v1/auth/token", Header: []string{"Content-Type: text/plain"}, Body: []byte("x")},
		{Method: "POST", Path: "/api/v1/auth/token", Header: []string{harness.JSONType}, Body: bytes.Repeat([]byte(" "), 70_000)},
		formRequest(token, "x"), formRequest(token, part("Content-Disposition: form-data; name=\"x\"\r\n", "y")), formRequest(token, part("", "y")),
		formRequest("", part(partHead, "y")),
		harness.SubmitRequest(token, harness.Lua(), "Idempotency-Key: ä"), harness.SubmitRequest(token, harness.Lua(), "Glovebox-File-Digest: x"),
		harness.SubmitRequest(token, harness.Lua(), "Content-Encoding: gzip"),
		harness.SubmitRequest(token, make([]byte, maxInput+1)),
		{Method: "POST", Path: "/api/v1/jobs", Token: token, Header: []string{"Content-Type: multipart/form-data"}, Body: []byte("x")},
		{Method: "GET", Path: "/api/v1/jobs/" + harness.UUID(), Token: token}, {Method: "GET", Path: "/api/v1/jobs/x", Token: token},
		{Method: "GET", Path: "/api/v1/jobs/%00", Token: token},
		{Method: "GET", Path: "/api/v1/jobs/" + harness.UUID() + "/result", Token: token, Header: []string{"Range: bytes=0-"}},
		{Method: "DELETE", Path: "/api/v1/auth/token", Token: "gbx_x"}, {Method: "PUT", Path: "/api/v1/jobs", Token: token},
		{Method: "OPTIONS", Path: "*"}, {Method: "TRACE", Path: "/health"},
	}
	for _, path := range strangePaths {
		all = append(all, harness.Request{Method: "GET", Path: path}, harness.Request{Method: "POST", Path: path, Token: token})
	}
	return all
}

func errorsLeaks(e *harness.Env) {
	sample := harness.Answer{Body: []byte("open /var/lib/glovebox/tmp/x: permission denied")}
	e.Control(tellsInside(sample) != "", "the search does not find a path")
	sample = harness.Answer{Header: http.Header{"Server": {"go1.27.3 net/http"}}}
	e.Control(tellsInside(sample) != "", "the search does not find a version in a header")
	seen := map[int]int{}
	for _, r := range refusals(e) {
		e.Input("%s %.60s", r.Method, r.Path)
		a := e.Do(r)
		seen[a.Status]++
		word := tellsInside(a)
		e.Check(word == "", "it tells %q: %s", word, a.Brief())
		for _, name := range []string{"Server", "X-Powered-By", "Via", "X-AspNet-Version", "X-Runtime", "X-Debug", "X-Backend", "X-Served-By"} {
			e.Check(a.Header.Get(name) == "", "the header %s: %s", name, a.Header.Get(name))
		}
	}
	e.Input("")
	e.Control(len(seen) >= 6, "only %v came", seen)
}

func errorsInternal(e *harness.Env) {
	worker := e.Worker(harness.Spare1)
	_, codes := served(e)
	claim := worker.Must(http.MethodPost, "/internal/v1/jobs/claim?wait=0s", []byte(`{"slots_free":0,"slots_total":0}`), harness.JSONType, "Glovebox-Request-Id: "+harness.UUID())
	e.Control(claim.Status == http.StatusNoContent || claim.Status == http.StatusOK, "a claim: %s", claim.Brief())
	if claim.Status == http.StatusOK {
		var a harness.Assignment
		e.JSON(claim, &a)
		worker.Fail(&a, "worker_shutdown", true)
	}
	id := harness.UUID()
	for _, path := range []string{
		"/internal/v1/jobs/claim", "/internal/v1/jobs/" + id + "/input", "/internal/v1/jobs/" + id + "/heartbeat",
		"/internal/v1/jobs/" + id + "/result", "/internal/v1/jobs/" + id + "/fail", "/internal/v1/jobs", "/internal/v1/jobs/" + id,
		"/internal/v1/jobs/x/input", "/internal/v1", "/", "/health", "/ready", "/metrics", "/debug/pprof/", "/api/v1/jobs", "/api/v1/auth/me",
		"/internal/v1/ingest", "/internal/v1/ingest/assets", "/internal/v1/jobs/%00/input", "/internal/v1/jobs//input",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"} {
			for name, header := range map[string][]string{"bare": nil, "fenced": {"Glovebox-Fencing-Token: 1", harness.JSONType, "Glovebox-Request-Id: x"}} {
				e.Input("%s %s %s", method, path, name)
				a, err := worker.Call(method, path, nil, header...)
				e.Must(err, "ask")
				e.Check(a.Status >= 400, "it is served: %s", a.Brief())
				form(e, a, method == http.MethodHead, codes)
				e.Check(tellsInside(a) == "", "it tells %q: %s", tellsInside(a), a.Brief())
			}
		}
	}
}

func errorsMalformed(e *harness.Env) {
	good := answersTo(e, "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	e.Control(len(good) == 1 && good[0].Status == http.StatusOK, "a good request: %s", statusLine(good))
	for name, raw := range map[string]string{
		"no line": "\r\n\r\n\r\n", "one word": "GET\r\n\r\n", "bad escape": "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
		"bad version": "GET / HTTP/x\r\n\r\n", "no host": "GET / HTTP/1.1\r\n\r\n", "bad host": "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
		"bad header": "GET / HTTP/1.1\r\nHost: x\r\na b: c\r\n\r\n", "bad length": "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
		"bad encoding": "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: x\r\n\r\n", "binary": "\x00\x01\x02\xff\xfe\r\n\r\n",
		"long line":   "GET /" + strings.Repeat("a", 60_000) + " HTTP/1.1\r\n\r\n",
		"long header": "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 60_000) + "\r\n\r\n", "another protocol": "EHLO x\r\n",
		"ssh": "SSH-2.0-x\r\n", "redis": "*1\r\n$4\r\nPING\r\n",
		"expect":           "POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nExpect: x\r\nContent-Length: 1\r\n\r\n",
		"path with spaces": "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", "absolute": "GET http:// HTTP/1.1\r\nHost: x\r\n\r\n",
		"authority": "GET x:y HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		e.Input("%s", name)
		for _, a := range answersTo(e, raw) {
			e.Check(a.Status >= 400 && a.Status < 500 || a.Status == 501 || a.Status == 505, "got %s", a.Brief())
			e.Check(len(a.Body) < 300 && tellsInside(a) == "", "it tells %q: %s", tellsInside(a), a.Brief())
		}
	}
}

func errorsReflection(e *harness.Env) {
	token := e.Token(e.Alice())
	id := harness.UUID()
	a := e.Do(me(token, "X-Request-Id: "+id))
	e.Control(a.Header.Get("X-Request-Id") == id, "a canonical request id is answered with %q", a.Header.Get("X-Request-Id"))
	mark := "reflect" + harness.RandomHex(6)
	for name, r := range map[string]harness.Request{
		"path": {Method: "GET", Path: "/" + mark}, "path behind a job": {Method: "GET", Path: "/api/v1/jobs/" + mark, Token: token},
		"query": {Method: "GET", Path: "/api/v1/auth/me?x=" + mark, Token: token}, "query name": {Method: "GET", Path: "/nothing?" + mark + "=1"},
		"method":                     {Method: strings.ToUpper(mark), Path: "/health"},
		"headers":                    {Method: "GET", Path: "/nothing", Header: []string{"X-" + mark + ": " + mark, "Origin: https://" + mark, "Referer: https://" + mark, "User-Agent: " + mark, "X-Forwarded-Host: " + mark, "Accept: " + mark + "/x", "Accept-Language: " + mark, "X-Request-Id: " + mark}},
		"request id with a line end": me(token, "X-Request-Id: "+id+" "+mark),
		"trace":                      {Method: "TRACE", Path: "/api/v1/auth/me", Header: []string{"X-Secret: " + mark}, Token: token},
		"login":                      harness.LoginRequest(mark, mark),
		"body":                       {Method: "POST", Path: "/api/v1/auth/token", Header: []string{harness.JSONType}, Body: []byte(`{"` + mark + `":1}`)},
		"syntax":                     {Method: "POST", Path: "/api/v1/auth/token", Header: []string{harness.JSONType}, Body: []byte(mark)},
		"content type":               {Method: "POST", Path: "/api/v1/auth/token", Header: []string{"Content-Type: " + mark + "/x"}, Body: []byte("x")},
		"form":                       formRequest(token, part("Content-Disposition: form-data; name=\""+mark+"\"\r\n", "x")),
		"form type":                  {Method: "POST", Path: "/api/v1/jobs", Token: token, Header: []string{"Content-Type: multipart/form-data; boundary=" + mark}, Body: []byte(mark)},
		"digest":                     harness.SubmitRequest(token, nil, "Glovebox-File-Digest: "+mark),
		"encoding":                   harness.SubmitRequest(token, nil, "Content-Encoding: "+mark), "token": me(mark),
		"expect": {Method: "GET", Path: "/health", Header: []string{"Expect: " + mark}},
	} {
		e.Input("%s", name)
		a, err := onFresh(e, r)
		e.Must(err, "ask")
		e.Check(!holds(a, mark) && !holds(a, strings.ToUpper(mark)), "it comes back: %s %v", a.Brief(), a.Header)
	}
}

func errorsDoubled(e *harness.Env) {
	token := e.Token(e.Alice())
	for _, h := range []struct{ name, value string }{
		{"Idempotency-Key", "k" + harness.RandomHex(4)}, {"Glovebox-File-Digest", harness.Digest([]byte("x"))},
		{"Content-Type", strings.TrimPrefix(harness.FormType, "Content-Type: ")}, {"Content-Encoding", "identity"}, {"Range", "bytes=0-1"},
		{"If-Range", `"x"`}, {"Repr-Digest", harness.Digest(nil)}, {"Authorization", "Bearer " + token},
		{"Glovebox-Fencing-Token", "1"}, {"Glovebox-Request-Id", harness.UUID()},
	} {
		request := func(values ...string) harness.Request {
			r := harness.Request{Method: http.MethodGet, Path: "/api/v1/auth/me", Header: []string{}}
			if h.name != "Authorization" {
				r.Token = token
			}
			for _, v := range values {
				r.Header = append(r.Header, h.name+": "+v)
			}
			return r
		}
		one := e.Do(request(h.value))
		e.Control(one.Status == http.StatusOK, "%s once: %s", h.name, one.Brief())
		for name, r := range map[string]harness.Request{
			"equal": request(h.value, h.value), "different": request(h.value, h.value+"x"), "one empty": request(h.value, ""),
		} {
			e.Input("%s, %s", h.name, name)
			a := e.Do(r)
			e.Check(refused(a, http.StatusBadRequest, "invalid_request"), "got %s", a.Brief())
		}
	}
}

func errorsBrowser(e *harness.Env) {
	token := e.Token(e.Alice())
	e.Control(e.Do(me(token)).Status == http.StatusOK, "the plain request")
	for _, r := range routes {
		if r.method == http.MethodDelete {
			continue
		}
		for name, header := range map[string][]string{
			"foreign page": {"Origin: https://evil.example", "Sec-Fetch-Mode: cors", "Sec-Fetch-Site: cross-site"}, "null origin": {"Origin: null"},
			"our own name": {"Origin: https://" + e.Public(0)}, "no origin": nil,
		} {
			e.Input("%s, %s", r.name(), name)
			a := e.Do(r.request(harness.UUID(), token, header...))
			for h := range a.Header {
				e.Check(!strings.HasPrefix(h, "Access-Control-"), "%s: %v", h, a.Header[h])
			}
			e.Check(a.Header.Get("X-Content-Type-Options") == "nosniff" && a.Header.Get("X-Frame-Options") == "DENY" && strings.Contains(a.Header.Get("Content-Security-Policy"), "default-src 'none'") &&
				a.Header.Get("Strict-Transport-Security") != "" && a.Header.Get("Referrer-Policy") == "no-referrer" && a.Header.Get("Cross-Origin-Resource-Policy") == "same-origin", "the protecting headers are %v", a.Header)
		}
		e.Input("preflight of %s", r.name())
		a := e.Do(harness.Request{Method: "OPTIONS", Path: strings.ReplaceAll(r.path, "{id}", harness.UUID()), Header: []string{"Origin: https://evil.example", "Access-Control-Request-Method: " + r.method, "Access-Control-Request-Headers: authorization, idempotency-key", "Access-Control-Request-Private-Network: true"}})
		e.Check(a.Status >= 400, "got %s", a.Brief())
		for h := range a.Header {
			e.Check(!strings.HasPrefix(h, "Access-Control-"), "%s: %v", h, a.Header[h])
		}
	}
}

func errorsHealth(e *harness.Env) {
	want := map[string]string{"/health": "{\"status\":\"ok\"}\n", "/ready": "{\"status\":\"ready\"}\n"}
	for path, body := range want {
		a := e.Do(harness.Request{Method: http.MethodGet, Path: path})
		e.Control(a.Status == http.StatusOK, "%s: %s", path, a.Brief())
		for _, query := range []string{"", "?verbose", "?full=1", "?debug=true", "?format=prometheus", "?checks=all"} {
			e.Input("%s%s", path, query)
			a := e.Do(harness.Request{Method: http.MethodGet, Path: path + query, Header: []string{"Accept: text/html", "X-Debug: 1", "Authorization: Bearer x"}})
			e.Check(string(a.Body) == body, "it says %s", a.Brief())
		}
	}
}
