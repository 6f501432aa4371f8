package attacks

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"glovebox/attacks/harness"
)

// framing attacks where one request ends and the next begins.
var framing = harness.Family{
	Name: "framing", About: "request smuggling: lengths, chunks, headers, versions, frames",
	Cases: join(framingOne, framingTwo),
}

// framingOne are shapes of HTTP/1.1.
var framingOne = []harness.Case{
	{
		ID: "framing/length-and-chunks", Title: "a request hidden behind two lengths is executed",
		Requirements: []string{"API-06", "API-07"}, Threats: []string{"PUB-T2"},
		Attack:  "Content-Length and Transfer-Encoding together, in both orders, with a whole second request in the difference",
		Control: "the same second request, sent openly, is executed: it revokes its token",
		Oracle:  "the hidden request's token still works, and at most one answer comes",
		Run:     framingLengthAndChunks,
	},
	{
		ID: "framing/odd-encodings", Title: "a Transfer-Encoding that only some readers know hides a request",
		Requirements: []string{"API-06", "API-07"}, Threats: []string{"PUB-T2"},
		Attack:  "spellings, lists, doubled and decorated Transfer-Encoding headers around a hidden request",
		Control: "the plain spelling is understood",
		Oracle:  "the hidden request's token still works",
		Run:     framingOddEncodings,
	},
	{
		ID: "framing/odd-chunks", Title: "a chunk whose size is read differently hides a request or breaks the server",
		Requirements: []string{"API-06", "UPL-01"}, Threats: []string{"PUB-T2", "PUB-D2"},
		Attack:  "chunk sizes negative, beyond 64 bits, signed, spaced, with huge extensions, without line ends, longer or shorter than their data",
		Control: "plain chunks make a job, in capitals and with leading zeros too",
		Oracle:  "no job and no file for the broken ones, no second answer, the hidden request's token still works",
		Run:     framingOddChunks,
	},
	{
		ID: "framing/odd-headers", Title: "a header that only some readers see changes a request's meaning",
		Requirements: []string{"API-07", "API-06"}, Threats: []string{"PUB-T2"}, Safe: true,
		Attack:  "header lines with spaces before the colon, folding, NUL, bare line ends, control characters, no name, no colon",
		Control: "the same lines in good form are taken",
		Oracle:  "400 for each, and the connection is closed",
		Run:     framingOddHeaders,
	},
	{
		ID: "framing/refused-body", Title: "the body of a refused request is executed as the next request",
		Requirements: []string{"API-06", "API-07"}, Threats: []string{"PUB-T2"},
		Attack:  "requests that are refused before their body is read, with a whole request as their body",
		Control: "the same request, sent openly, is executed",
		Oracle:  "the body's token still works; each connection gives one answer for one request",
		Run:     framingRefusedBody,
	},
	{
		ID: "framing/body-on-get", Title: "a body where none is expected is executed as the next request",
		Requirements: []string{"API-06"}, Threats: []string{"PUB-T2"},
		Attack:  "GET, HEAD and DELETE with a body that is a request, with a length and chunked",
		Control: "the next open request on the connection is answered",
		Oracle:  "the hidden request's token still works, and the answers are those to the open requests",
		Run:     framingBodyOnGet,
	},
	{
		ID: "framing/trailers", Title: "headers that come after the body are believed",
		Requirements: []string{"AUT-01", "API-04", "API-07"}, Threats: []string{"PUB-T2", "PUB-S1"},
		Attack:  "chunked uploads with Authorization, Idempotency-Key, Content-Encoding and thousands of lines as trailers",
		Control: "the same headers before the body count",
		Oracle:  "no token in the head: 401; a key in the trailer makes two jobs of two uploads; memory stays",
		Run:     framingTrailers,
	},
	{
		ID: "framing/versions", Title: "a request of another protocol passes the rules of this one",
		Requirements: []string{"API-06", "API-07"}, Threats: []string{"PUB-T2"}, Safe: true,
		Attack:  "request lines of HTTP/0.9, 1.2, 2.0, 9.9, with spaces, tabs, without a version, with a method of odd characters",
		Control: "HTTP/1.0 and 1.1 are answered",
		Oracle:  "400 or 505, or the connection ends; never the user's data",
		Run:     framingVersions,
	},
	{
		ID: "framing/host", Title: "a request for another host, or for two, is answered as ours",
		Requirements: []string{"API-07"}, Threats: []string{"PUB-T2"}, Safe: true,
		Attack:  "no Host, two, an invalid one, one that disagrees with the request line",
		Control: "the right Host is answered",
		Oracle:  "400 without or with two or a malformed one; another host's name is not repeated in the answer",
		Run:     framingHost,
	},
	{
		ID: "framing/upgrade", Title: "a connection is turned into one that nobody watches",
		Requirements: []string{"API-06", "API-07"}, Threats: []string{"PUB-T2", "PUB-E1"}, Safe: true,
		Attack:  "Upgrade to h2c, websocket and TLS, CONNECT to the internal port, the HTTP/2 preface without ALPN",
		Control: "a plain request on such a connection is answered",
		Oracle:  "never 101 or 200 to them; bytes sent afterwards have no effect",
		Run:     framingUpgrade,
	},
	{
		ID: "framing/large-headers", Title: "headers without end burn memory",
		Requirements: []string{"API-06", "API-07"}, Threats: []string{"PUB-D2"}, Serial: true,
		Attack:  "48 connections, each with a megabyte in one header, in thousands of headers, in the path, in the query",
		Control: "headers of 4 KB are taken",
		Oracle:  "431, 400 or 414, or the end of the connection; the servers' memory by the kernel's word",
		Run:     framingLarge,
	},
}

// hiddenRequest is a request that leaves a trace if it is executed: it revokes a token.
type hiddenRequest struct {
	e     *harness.Env
	token string
}

func newHidden(e *harness.Env) *hiddenRequest { return &hiddenRequest{e, e.FreshToken(e.Bob())} }

// request is the hidden request's bytes.
func (v *hiddenRequest) request() string {
	return string(harness.Request{Method: http.MethodDelete, Path: "/api/v1/auth/token", Token: v.token}.Bytes(v.e.Public(0)))
}

// alive reports whether the token still works, so that the request was not run.
func (v *hiddenRequest) alive() bool { return whoami(v.e.Do(me(v.token))) == v.e.Bob().Login }

// provesItself has the request executed openly, which shows that the trace is seen.
func (v *hiddenRequest) provesItself() {
	v.e.Input("")
	c := v.e.MustDial(v.e.Public(0), nil)
	v.e.Must(c.Send([]byte(v.request())), "send the request openly")
	a, err := c.Receive(http.MethodDelete, harness.Patience)
	v.e.Control(err == nil && a.Status == http.StatusNoContent && !v.alive(), "sent openly, it leaves no trace: %s (%v)", a.Brief(), err)
}

// answersTo sends raw bytes on a connection of their own and returns the answers
// that come until it ends or nothing comes for a moment.
func answersTo(e *harness.Env, raw string) []harness.Answer {
	c := e.MustDial(e.Public(0), nil)
	defer c.Close()
	if err := c.Send([]byte(raw)); err != nil {
		e.Note("the server ended the connection while we sent: %v", err)
	}
	var all []harness.Answer
	const moment = 700 * time.Millisecond
	for {
		a, err := c.Receive(http.MethodPost, moment)
		if err != nil {
			return all
		}
		if all = append(all, a); a.Close || len(all) > 20 {
			return all
		}
	}
}

// statusLine is the answers in one line.
func statusLine(all []harness.Answer) string {
	var b strings.Builder
	for _, a := range all {
		fmt.Fprintf(&b, "%d ", a.Status)
	}
	return strings.TrimSpace(b.String())
}

// head begins a request with a token that may do everything but is not the victim's.
func head(e *harness.Env, method, path string, lines ...string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: " + e.Public(0) + "\r\nAuthorization: Bearer " + e.Token(e.Alice()) + "\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
}

func framingLengthAndChunks(e *harness.Env) {
	v := newHidden(e)
	hidden := v.request()
	for name, raw := range map[string]string{
		"chunked body ends early": head(e, "POST", "/api/v1/jobs", harness.FormType, "Content-Length: "+itoa(len("0\r\n\r\n"+hidden)), "Transfer-Encoding: chunked") + "0\r\n\r\n" + hidden,
		"the other order":         head(e, "POST", "/api/v1/jobs", harness.FormType, "Transfer-Encoding: chunked", "Content-Length: "+itoa(len("0\r\n\r\n"+hidden))) + "0\r\n\r\n" + hidden,
		"length ends early":       head(e, "POST", "/api/v1/jobs", harness.FormType, "Content-Length: 4", "Transfer-Encoding: chunked") + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden),
		"length zero":             head(e, "POST", "/api/v1/auth/token", harness.JSONType, "Content-Length: 0", "Transfer-Encoding: chunked") + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden),
		"in an HTTP/1.0 request":  strings.Replace(head(e, "POST", "/api/v1/jobs", harness.FormType, "Connection: keep-alive", "Transfer-Encoding: chunked", "Content-Length: "+itoa(5+len(hidden))), "HTTP/1.1", "HTTP/1.0", 1) + "0\r\n\r\n" + hidden,
	} {
		e.Input("%s", name)
		all := answersTo(e, raw)
		e.Check(len(all) <= 1, "%d answers came: %s", len(all), statusLine(all))
		e.Check(v.alive(), "the hidden request was executed")
	}
	v.provesItself()
}

func framingOddEncodings(e *harness.Env) {
	v := newHidden(e)
	hidden := v.request()
	chunkedForm := chunked(harness.Form("a.lua", harness.Lua()), 1000)
	all := answersTo(e, head(e, "POST", "/api/v1/jobs", harness.FormType, "Transfer-Encoding: chunked")+chunkedForm)
	e.Control(len(all) == 1 && all[0].Status == http.StatusCreated, "the plain spelling: %s", statusLine(all))
	for _, line := range []string{
		"Transfer-Encoding: xchunked", "Transfer-Encoding : chunked", "Transfer-Encoding: chunked, identity", "Transfer-Encoding: identity, chunked",
		"Transfer-Encoding: identity", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding:\x0bchunked",
		"Transfer-Encoding: chunked\x00", "Transfer-Encoding: \"chunked\"", "Transfer-Encoding: chunked;q=1",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "Transfer-Encoding: x\r\nTransfer-Encoding: chunked",
		"Transfer_Encoding: chunked",
		"X: y\nTransfer-Encoding: chunked", " Transfer-Encoding: chunked", "Transfer-Encoding\r\n : chunked", "Transfer-Encoding:\r\n chunked",
		"Transfer-Encoding: cHuNkEd\r\nTransfer-encoding: x", "Transfer-Encoding: chunkedchunked", "Transfer-Encoding: c\u0068unked\u00a0",
	} {
		for _, length := range []int{5, 5 + len(hidden)} {
			e.Input("%q, length %d", line, length)
			all := answersTo(e, head(e, "POST", "/api/v1/jobs", harness.FormType, "Content-Length: "+itoa(length), line)+"0\r\n\r\n"+hidden)
			// A header that is none to this reader leaves the length: what follows five
			// bytes is then an open second request, which its sender may send anyway.
			open := length == 5 && len(all) == 2 && all[0].Status < 500
			if open {
				v = newHidden(e)
				hidden = v.request()
				continue
			}
			e.Check(len(all) <= 1, "%d answers came: %s", len(all), statusLine(all))
			e.Check(v.alive(), "the hidden request was executed")
		}
	}
	v.provesItself()
}

func framingOddChunks(e *harness.Env) {
	v := newHidden(e)
	hidden := v.request()
	headers := head(e, "POST", "/api/v1/jobs", harness.FormType, "Transfer-Encoding: chunked")
	whole := func(size func(n int) string) (raw, marker string) {
		marker, content := harness.Marked()
		form := string(harness.Form("a.lua", content))
		return headers + size(len(form)) + "\r\n" + form + "\r\n0\r\n\r\n", marker
	}
	for _, size := range []func(int) string{
		func(n int) string { return fmt.Sprintf("%x", n) }, func(n int) string { return fmt.Sprintf("%X", n) },
		func(n int) string { return fmt.Sprintf("000%x", n) }, func(n int) string { return fmt.Sprintf("%x;ext=1", n) },
	} {
		raw, _ := whole(size)
		all := answersTo(e, raw)
		e.Control(len(all) == 1 && all[0].Status == http.StatusCreated, "a good chunk: %s", statusLine(all))
	}
	for name, size := range map[string]func(int) string{
		"negative": func(n int) string { return fmt.Sprintf("-%x", n) }, "plus": func(n int) string { return fmt.Sprintf("+%x", n) },
		"prefix": func(n int) string { return fmt.Sprintf("0x%x", n) }, "space before": func(n int) string { return fmt.Sprintf(" %x", n) },
		"underscore":     func(n int) string { return fmt.Sprintf("%x_0", n) },
		"beyond 64 bits": func(n int) string { return fmt.Sprintf("10000000000000000%x", n) },
		"sixteen f":      func(int) string { return "ffffffffffffffff" }, "letters": func(int) string { return "xyz" },
		"empty":        func(int) string { return "" },
		"one too many": func(n int) string { return fmt.Sprintf("%x", n+1) }, "one too few": func(n int) string { return fmt.Sprintf("%x", n-1) },
		"NUL":                         func(n int) string { return fmt.Sprintf("%x\x00", n) },
		"a huge extension":            func(n int) string { return fmt.Sprintf("%x;%s", n, strings.Repeat("e", 300_000)) },
		"a line end in the extension": func(n int) string { return fmt.Sprintf("%x;a\nb", n) }, "full width": func(int) string { return "\uff11\uff10" },
	} {
		e.Input("%s", name)
		raw, marker := whole(size)
		all := answersTo(e, raw)
		e.Check(len(all) <= 1 && (len(all) == 0 || all[0].Status >= 400 && all[0].Status < 500), "got %s", statusLine(all))
		gone(e, marker)
	}
	for name, raw := range map[string]string{
		"a request behind the data":     headers + "5\r\nhello" + hidden,
		"a request after the last size": headers + "0\r\n" + hidden,
		"bare line feeds":               headers + "5\nhello\n0\n\n" + hidden,
		"no end of the last chunk":      headers + "5\r\nhello\r\n0\r\nX" + hidden,
	} {
		e.Input("%s", name)
		all := answersTo(e, raw)
		e.Check(v.alive(), "the hidden request was executed")
		e.Check(len(all) <= 1, "%d answers came: %s", len(all), statusLine(all))
	}
	v.provesItself()
}

func framingOddHeaders(e *harness.Env) {
	base := "GET /api/v1/auth/me HTTP/1.1\r\nHost: " + e.Public(0) + "\r\nAuthorization: Bearer " + e.Token(e.Alice()) + "\r\nX-Before: 1\r\n"
	send := func(line string) (harness.Answer, error) {
		c := e.MustDial(e.Public(0), nil)
		defer c.Close()
		if err := c.Send([]byte(base + line + "\r\n\r\n")); err != nil {
			return harness.Answer{}, err
		}
		return c.Receive(http.MethodGet, 3*time.Second)
	}
	for _, line := range []string{"X-Good: yes", "x-good:yes", "X-Good:   yes   ", "X-Empty:"} {
		a, err := send(line)
		e.Control(err == nil && a.Status == http.StatusOK, "%q: %s (%v)", line, a.Brief(), err)
	}
	for _, line := range []string{
		"X-Bad : yes", "X-Bad\t: yes", " X-Bad: yes", "\tX-Bad: yes", "X Bad: yes", ": yes", "X-Bad", "X-Bad\x00: yes", "X-Bad: y\x00es",
		"X-Bad: y\x01es", "X-Bad: y\x7fes", "X(Bad): yes", "X-Bäd: yes", "X-Bad;: yes", "X@Bad: yes", "\x00", "X-Bad: a\rX-Worse: b",
		"Content-Length: x",
	} {
		e.Input("%q", line)
		a, err := send(line)
		// Folded lines are obsolete (RFC 9112 §5.2): a server refuses them or reads
		// them as spaces; the header before is then longer, and nothing else.
		folded := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		e.Check(err != nil || a.Status == http.StatusBadRequest && a.Close || folded && a.Status == http.StatusOK, "got %s", a.Brief())
	}
}

func framingRefusedBody(e *harness.Env) {
	v := newHidden(e)
	hidden := v.request()
	n := itoa(len(hidden))
	plain := func(method, path string, lines ...string) string {
		return method + " " + path + " HTTP/1.1\r\nHost: " + e.Public(0) + "\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
	}
	for name, raw := range map[string]string{
		"no token":     plain("POST", "/api/v1/jobs", harness.FormType, "Content-Length: "+n),
		"no such path": plain("POST", "/nothing", "Content-Length: "+n), "wrong method": plain("PUT", "/api/v1/jobs", "Content-Length: "+n),
		"wrong type":          head(e, "POST", "/api/v1/jobs", "Content-Type: text/plain", "Content-Length: "+n),
		"encoded":             head(e, "POST", "/api/v1/jobs", harness.FormType, "Content-Encoding: gzip", "Content-Length: "+n),
		"bad digest":          head(e, "POST", "/api/v1/jobs", harness.FormType, "Glovebox-File-Digest: x", "Content-Length: "+n),
		"two keys":            head(e, "POST", "/api/v1/jobs", harness.FormType, "Idempotency-Key: a", "Idempotency-Key: b", "Content-Length: "+n),
		"malformed form":      head(e, "POST", "/api/v1/jobs", harness.FormType, "Content-Length: "+n),
		"login":               plain("POST", "/api/v1/auth/token", harness.JSONType, "Content-Length: "+n),
		"too large":           head(e, "POST", "/api/v1/jobs", harness.FormType, "Content-Length: 9999999"),
		"expect":              head(e, "POST", "/api/v1/jobs", harness.FormType, "Expect: 100-continue", "Content-Length: "+n),
		"another expectation": head(e, "POST", "/api/v1/jobs", harness.FormType, "Expect: nothing", "Content-Length: "+n),
		"options":             plain("OPTIONS", "*", "Content-Length: "+n),
	} {
		e.Input("%s", name)
		all := answersTo(e, raw+hidden)
		e.Check(len(all) == 1 && all[0].Status >= 400, "the answers are %s", statusLine(all))
		e.Check(v.alive(), "the body was executed as a request")
	}
	v.provesItself()
}

func framingBodyOnGet(e *harness.Env) {
	v := newHidden(e)
	hidden := v.request()
	next := string(me(e.Token(e.Alice())).Bytes(e.Public(0)))
	for name, raw := range map[string]string{
		"GET with a length": head(e, "GET", "/api/v1/auth/me", "Content-Length: "+itoa(len(hidden))) + hidden,
		"GET in chunks":     head(e, "GET", "/api/v1/auth/me", "Transfer-Encoding: chunked") + chunked([]byte(hidden), 4000),
		"GET of health":     head(e, "GET", "/health", "Content-Length: "+itoa(len(hidden))) + hidden,
		"a missing job":     head(e, "GET", "/api/v1/jobs/"+harness.UUID(), "Content-Length: "+itoa(len(hidden))) + hidden,
	} {
		e.Input("%s", name)
		all := answersTo(e, raw+next)
		e.Check(v.alive(), "the body was executed as a request")
		e.Check(len(all) == 1 || len(all) == 2 && whoami(all[1]) == e.Alice().Login, "the answers are %s", statusLine(all))
	}
	e.Input("")
	all := answersTo(e, next+next)
	e.Control(len(all) == 2 && whoami(all[1]) == e.Alice().Login, "two open requests: %s", statusLine(all))
	v.provesItself()
}

func framingTrailers(e *harness.Env) {
	bob := e.Bob()
	form := func() string {
		return strings.TrimSuffix(chunked(harness.Form("a.lua", harness.Lua()), 1000), "\r\n")
	}
	base := "POST /api/v1/jobs HTTP/1.1\r\nHost: " + e.Public(0) + "\r\n" + harness.FormType + "\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization, Idempotency-Key\r\n"
	token := "Authorization: Bearer " + e.Token(bob) + "\r\n"
	e.Input("token in the trailer")
	all := answersTo(e, base+"\r\n"+form()+token+"\r\n")
	e.Check(len(all) == 1 && all[0].Status == http.StatusUnauthorized, "got %s", statusLine(all))
	e.Input("another token in the trailer")
	all = answersTo(e, base+token+"\r\n"+form()+"Authorization: Bearer "+e.Token(e.Alice())+"\r\n\r\n")
	e.Check(len(all) == 1, "got %s", statusLine(all))
	if len(all) == 1 && all[0].Status == http.StatusCreated {
		var job harness.Job
		e.JSON(all[0], &job)
		e.Check(e.Status(bob, job.ID).ID == job.ID, "the job is not the sender's")
	}
	e.Input("key in the trailer")
	key := "Idempotency-Key: " + harness.RandomHex(8) + "\r\n"
	body := form()
	var ids []string
	for range 2 {
		if all := answersTo(e, base+token+"\r\n"+body+key+"\r\n"); len(all) == 1 && all[0].Status == http.StatusCreated {
			var job harness.Job
			e.JSON(all[0], &job)
			ids = append(ids, job.ID)
		}
	}
	e.Check(len(ids) == 2 && ids[0] != ids[1] || len(ids) == 0, "the key of the trailer counts: %v", ids)
	var again []harness.Answer
	for range 2 {
		again = answersTo(e, base+token+key+"\r\n"+body+"\r\n")
	}
	e.Control(len(again) == 1 && again[0].Status == http.StatusOK, "the key before the body: %s", statusLine(again))
	e.Input("thousands of lines")
	all = answersTo(e, base+token+"\r\n"+form()+strings.Repeat("X-Trailer: "+strings.Repeat("y", 100)+"\r\n", 20_000)+"\r\n")
	e.Check(len(all) == 0 || len(all) == 1 && all[0].Status >= 400, "got %s", statusLine(all))
}

func framingVersions(e *harness.Env) {
	token := e.Token(e.Alice())
	send := func(line string) []harness.Answer {
		return answersTo(e, line+"\r\nHost: "+e.Public(0)+"\r\nAuthorization: Bearer "+token+"\r\nConnection: close\r\n\r\n")
	}
	for _, line := range []string{"GET /api/v1/auth/me HTTP/1.1", "GET /api/v1/auth/me HTTP/1.0"} {
		all := send(line)
		e.Control(len(all) == 1 && whoami(all[0]) == e.Alice().Login, "%s: %s", line, statusLine(all))
	}
	for _, line := range []string{
		"GET /api/v1/auth/me", "GET /api/v1/auth/me HTTP/0.9", "GET /api/v1/auth/me HTTP/1.2", "GET /api/v1/auth/me HTTP/2.0",
		"GET /api/v1/auth/me HTTP/9.9", "GET /api/v1/auth/me http/1.1", "GET /api/v1/auth/me HTTP/1.1 ", "GET  /api/v1/auth/me HTTP/1.1",
		" GET /api/v1/auth/me HTTP/1.1", "GET\t/api/v1/auth/me\tHTTP/1.1", "GET /api/v1/auth/me HTTP/11", "GET /api/v1/auth/me HTTP/1.10",
		"GET /api/v1/auth/me XTTP/1.1", "G\x00ET /api/v1/auth/me HTTP/1.1", "G(ET /api/v1/auth/me HTTP/1.1", "/api/v1/auth/me GET HTTP/1.1",
		"get /api/v1/auth/me HTTP/1.1", "GET /api/v1/auth/me\x00 HTTP/1.1", "GET /api/v1/auth/me x HTTP/1.1", "GET /api/v1/\rauth/me HTTP/1.1", "GET",
		"", "PRI * HTTP/2.0", "GET api/v1/auth/me HTTP/1.1", "GET ?/api/v1/auth/me HTTP/1.1", "\xff\xfe",
	} {
		e.Input("%q", line)
		all := send(line)
		// The server's parser takes HTTP/1.2 to 1.9 for 1.1, as RFC 9112 §2.3 asks.
		minor := line == "GET /api/v1/auth/me HTTP/1.2" || line == "GET /api/v1/auth/me HTTP/1.10"
		for _, a := range all {
			e.Check(a.Status >= 400 && a.Status != 500 || minor, "got %s", a.Brief())
		}
		e.Check(len(all) <= 1, "%d answers", len(all))
	}
}

func framingHost(e *harness.Env) {
	get := func(lines ...string) []harness.Answer {
		return answersTo(e, "GET /nothing HTTP/1.1\r\n"+strings.Join(append(lines, "Connection: close"), "\r\n")+"\r\n\r\n")
	}
	right := "Host: " + e.Public(0)
	all := get(right)
	e.Control(len(all) == 1 && all[0].Status == http.StatusNotFound && all[0].Code() == "not_found", "the right Host: %s", statusLine(all))
	for name, lines := range map[string][]string{
		"none": nil, "two": {right, right}, "two different": {right, "Host: evil.example"}, "space": {"Host: a b"}, "control": {"Host: a\x01b"},
		"line end": {"Host: a\r\n b"}, "slash": {"Host: evil.example/x"}, "user": {"Host: x@evil.example"}, "quote": {`Host: "evil"`},
	} {
		e.Input("%s", name)
		all := get(lines...)
		odd := name == "line end" || name == "slash" || name == "user" || name == "quote" // names of no host, that no answer depends on
		e.Check(len(all) == 1 && (all[0].Status == http.StatusBadRequest || odd && all[0].Status == http.StatusNotFound && !holds(all[0], "evil")), "got %s", statusLine(all))
	}
	for _, line := range []string{
		"GET https://evil.example/api/v1/jobs HTTP/1.1", "GET http://evil.example/ HTTP/1.1", "GET //evil.example/ HTTP/1.1",
		"OPTIONS https://evil.example HTTP/1.1",
	} {
		e.Input("%s", line)
		all := answersTo(e, line+"\r\n"+right+"\r\nX-Forwarded-Host: evil.example\r\nConnection: close\r\n\r\n")
		e.Check(len(all) == 1 && all[0].Status >= 400 && !holds(all[0], "evil.example"), "got %s", statusLine(all))
	}
}

func framingUpgrade(e *harness.Env) {
	token := e.Token(e.Alice())
	auth := "Host: " + e.Public(0) + "\r\nAuthorization: Bearer " + token + "\r\n"
	all := answersTo(e, "GET /api/v1/auth/me HTTP/1.1\r\n"+auth+"\r\n")
	e.Control(len(all) == 1 && whoami(all[0]) == e.Alice().Login, "a plain request: %s", statusLine(all))
	for name, raw := range map[string]string{
		"h2c":         "GET /api/v1/auth/me HTTP/1.1\r\n" + auth + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"websocket":   "GET /api/v1/auth/me HTTP/1.1\r\n" + auth + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
		"tls":         "OPTIONS * HTTP/1.1\r\n" + auth + "Connection: Upgrade\r\nUpgrade: TLS/1.2\r\n\r\n",
		"tunnel":      "CONNECT 127.0.0.1:9443 HTTP/1.1\r\n" + auth + "\r\n",
		"tunnel self": "CONNECT " + e.Public(0) + " HTTP/1.1\r\n" + auth + "\r\n",
		"preface":     "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	} {
		e.Input("%s", name)
		for _, a := range answersTo(e, raw) {
			plain := whoami(a) == e.Alice().Login // the upgrade was passed over, as it may be
			e.Check(a.Status != http.StatusSwitchingProtocols && (a.Status >= 400 || plain), "got %s", a.Brief())
		}
	}
}

func framingLarge(e *harness.Env) {
	ok := answersTo(e, "GET /health HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("y", 4000)+"\r\nConnection: close\r\n\r\n")
	e.Control(len(ok) == 1 && ok[0].Status == http.StatusOK, "4 KB: %s", statusLine(ok))
	watch := e.WatchServers()
	const mega = 1 << 20
	for name, raw := range map[string]string{
		"one header":   "GET /health HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", mega) + "\r\n\r\n",
		"many headers": "GET /health HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X: y\r\n", mega/6) + "\r\n",
		"path":         "GET /" + strings.Repeat("a", mega) + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"query":        "GET /health?" + strings.Repeat("a=b&", mega/4) + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"method":       strings.Repeat("G", mega) + " / HTTP/1.1\r\nHost: x\r\n\r\n",
		"cookies":      "GET /health HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("Cookie: a=b\r\n", mega/13) + "\r\n",
	} {
		e.Input("%s", name)
		conns := make([]*harness.Conn, 48)
		for i := range conns {
			conns[i] = e.MustDial(e.Public(i), nil)
		}
		e.Parallel(len(conns), func(i int) {
			if conns[i].Send([]byte(raw)) != nil {
				return // the server would not read that much
			}
			a, err := conns[i].Receive(http.MethodGet, 5*time.Second)
			e.Check(err != nil || a.Status == 431 || a.Status == 400 || a.Status == 414, "got %s", a.Brief())
		})
		for _, c := range conns {
			c.Close()
		}
	}
	e.Input("")
	const most = 64 << 20
	e.Check(watch() < most, "a server's memory grew by %d MiB", watch()>>20)
}
