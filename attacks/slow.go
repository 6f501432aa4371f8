package attacks

import (
	"errors"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"glovebox/attacks/harness"
)

// slow attacks by waiting: peers that send little, or nothing, and keep what they
// hold. The worlds cut off a header after 2 s, a stalled body after 2 s, one below
// 1 KiB/s over 3 s, an idle connection after 4 s.
var slow = harness.Family{
	Name: "slow", About: "slow and stalled peers",
	Cases: []harness.Case{
		{
			ID: "slow/headers", Title: "a header that never ends holds a connection",
			Requirements: []string{"API-06"}, Threats: []string{"PUB-D1"}, Safe: true,
			Attack:  "header lines at one every half second, on both listeners' protocol",
			Control: "a header sent at once is answered",
			Oracle:  "when the server ends the connection",
			Run:     slowHeaders,
		},
		{
			ID: "slow/silent-body", Title: "a body that stops holds a connection and a place on disk",
			Requirements: []string{"API-06", "UPL-08"}, Threats: []string{"PUB-D1", "STO-D2"},
			Attack:  "an upload that stops in the middle and keeps its connection",
			Control: "it is on disk before",
			Oracle:  "when the server ends it, with 408 or by closing; nothing left on disk",
			Run:     slowSilent,
		},
		{
			ID: "slow/trickle", Title: "a body of one byte now and then is never cut off", Slow: true,
			Requirements: []string{"API-06"}, Threats: []string{"PUB-D1"},
			Attack:  "an upload of one byte every 300 ms, by a length and in chunks",
			Control: "the same upload above the least rate is taken",
			Oracle:  "when the server ends it",
			Run:     slowTrickle,
		},
		{
			ID: "slow/handshake", Title: "a connection that never becomes TLS is kept", Slow: true,
			Requirements: []string{"API-06", "MTL-01"}, Threats: []string{"PUB-D1", "INT-D1"},
			Attack:  "connections that send nothing, one byte, and half a greeting, to every listener",
			Control: "a whole greeting is answered on the same listener",
			Oracle:  "when the server ends the connection",
			Run:     slowHandshake,
		},
		{
			ID: "slow/idle", Title: "connections that do nothing are kept",
			Requirements: []string{"API-06"}, Threats: []string{"PUB-D1"},
			Attack:  "a connection that asked once and is silent since, over HTTP/1.1",
			Control: "within the idle time a second request is answered",
			Oracle:  "when the server ends the connection",
			Run:     slowIdle,
		},
		{
			ID: "slow/h2-stream", Title: "a stream that stops keeps its place among the others",
			Requirements: []string{"API-06"}, Threats: []string{"PUB-D1"},
			Attack:  "an upload in an HTTP/2 stream that stops in the middle",
			Control: "another stream of the connection is answered meanwhile",
			Oracle:  "when the stream ends, with 408 or a reset; nothing left on disk",
			Run:     slowStream,
		},
		{
			ID: "slow/crowd", Title: "a crowd of slow peers shuts everybody else out",
			Requirements: []string{"API-06", "REL-01"}, Threats: []string{"PUB-D1"}, Serial: true,
			Attack:  "150 connections from one address, half in their header, half in a body, held as long as the server lets them",
			Control: "they do connect",
			Oracle:  "a user elsewhere logs in, uploads and is answered throughout, each within two seconds",
			Run:     slowCrowd,
		},
	},
}

// endsWithin reads until the peer ends the connection and reports whether it does
// before limit. What comes in between is an answer to what was refused.
func endsWithin(e *harness.Env, c *harness.Conn, limit time.Duration) (took time.Duration, ended bool) {
	began := time.Now()
	e.Must(c.SetReadDeadline(began.Add(limit)), "wait")
	buf := make([]byte, 4096)
	for {
		if _, err := c.Read(buf); err != nil {
			return time.Since(began), !errors.Is(err, os.ErrDeadlineExceeded)
		}
	}
}

// grace is what is added to a server's own limit before it counts as missed: the
// host may be busy.
const grace = 4 * time.Second

func slowHeaders(e *harness.Env) {
	quick := answersTo(e, "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	e.Control(len(quick) == 1 && quick[0].Status == http.StatusOK, "sent at once: %s", statusLine(quick))
	c := e.MustDial(e.Public(0), nil)
	e.Must(c.Send([]byte("GET /health HTTP/1.1\r\nHost: x\r\n")), "begin")
	began := time.Now()
	const limit = 40 * time.Second // a deployed server may be configured to 10 s and more
	cut := e.Await(limit, func() bool {
		_, err := c.Write([]byte("X: y\r\n"))
		if err != nil {
			return true
		}
		_, ended := endsWithin(e, c, 500*time.Millisecond)
		return ended
	})
	e.Check(cut, "it is still open after %s", time.Since(began))
	if e.Endpoint.BinDir != "" {
		e.Check(time.Since(began) < 2*time.Second+grace, "it was cut off after %s", time.Since(began))
	}
}

// stalledUpload sends an upload's beginning, of which 150,000 bytes are still to come.
func stalledUpload(e *harness.Env, marker string) *harness.Conn {
	c := e.MustDial(e.Public(0), nil)
	raw := harness.SubmitRequest(e.Token(e.NewUser()), append([]byte("-- "+marker+"\n"), make([]byte, 250_000)...)).Bytes(e.Public(0))
	e.Must(c.Send(raw[:100_000]), "begin an upload")
	return c
}

func slowSilent(e *harness.Env) {
	marker, _ := harness.Marked()
	c := stalledUpload(e, marker)
	e.Control(e.Await(1500*time.Millisecond, func() bool { return len(e.OnDisk(marker)) == 1 }), "it is not on disk")
	took, ended := endsWithin(e, c, 2*time.Second+grace+5*time.Second)
	e.Check(ended, "it is still open after %s", took)
	gone(e, marker)
}

func slowTrickle(e *harness.Env) {
	a := e.Do(harness.SubmitRequest(e.Token(e.Alice()), harness.Lua()))
	e.Control(a.Status == http.StatusCreated, "above the least rate: %s", a.Brief())
	for name, piece := range map[string]string{"by a length": "x", "in chunks": "1\r\nx\r\n"} {
		e.Input("%s", name)
		token := e.Token(e.NewUser())
		c := e.MustDial(e.Public(0), nil)
		r := harness.Request{Method: http.MethodPost, Path: "/api/v1/jobs", Token: token, Header: []string{harness.FormType, "Content-Length: 100000"}, NoLength: true}
		form := delim + "\r\n" + partHead + "\r\n"
		if name == "in chunks" {
			r.Header[1] = "Transfer-Encoding: chunked"
			form = chunked([]byte(form), 5000)
			form = form[:len(form)-5]
		}
		e.Must(c.Send(append(r.Bytes(e.Public(0)), form...)), "begin")
		began := time.Now()
		cut := e.Await(20*time.Second, func() bool {
			if _, err := c.Write([]byte(piece)); err != nil {
				return true
			}
			_, ended := endsWithin(e, c, 300*time.Millisecond)
			return ended
		})
		e.Check(cut && time.Since(began) < 3*time.Second+2*grace, "cut off: %v, after %s", cut, time.Since(began))
	}
}

func slowHandshake(e *harness.Env) {
	for listener, address := range map[string]string{"public": e.Public(0), "internal": e.Internal(0)} {
		greeting := clientHello{version: 0x0303, suites: []uint16{0xc02b, 0xc02f}}.record()
		e.Control(askHello(e, address, greeting).kind != "", "%s: a whole greeting is not answered", listener)
		for name, sent := range map[string][]byte{"nothing": nil, "one byte": {0x16}, "half a greeting": greeting[:len(greeting)/2]} {
			e.Input("%s, %s", listener, name)
			raw, err := e.DialTCP(e.Context(), address)
			e.Must(err, "connect")
			_, err = raw.Write(sent)
			e.Must(err, "send")
			began := time.Now()
			e.Must(raw.SetReadDeadline(began.Add(2*time.Second+2*grace)), "wait")
			_, err = raw.Read(make([]byte, 100))
			e.Check(err != nil && !errors.Is(err, os.ErrDeadlineExceeded), "it is still open after %s (%v)", time.Since(began), err)
			_ = raw.Close()
		}
	}
}

func slowIdle(e *harness.Env) {
	c := e.MustDial(e.Public(0), nil)
	ask := harness.Request{Method: http.MethodGet, Path: "/health"}
	for range 2 {
		a, err := exchange(c, ask, e.Public(0))
		e.Control(err == nil && a.Status == http.StatusOK, "a request: %s (%v)", a.Brief(), err)
	}
	took, ended := endsWithin(e, c, 4*time.Second+2*grace)
	e.Check(ended, "it is still open after %s", took)
}

func slowStream(e *harness.Env) {
	marker, content := sized(14_000)
	h := e.H2(e.Public(0))
	token := [2]string{"authorization", "Bearer " + e.Token(e.NewUser())}
	id, err := h.Open(append(harness.Fields("POST", e.Public(0), "/api/v1/jobs", token), [2]string{"content-type", "multipart/form-data; boundary=" + harness.Boundary}), false)
	e.Must(err, "open a stream")
	e.Must(h.WriteData(id, false, harness.Form("a.lua", content)[:12_000]), "send a part")
	other, err := h.Open(harness.Fields("GET", e.Public(0), "/health"), true)
	e.Must(err, "open another stream")
	s, err := h.Await(other, 5*time.Second)
	e.Control(err == nil && s.Status == "200", "another stream: %+v (%v)", s, err)
	began := time.Now()
	s, err = h.Await(id, 2*time.Second+2*grace)
	// The connection's own end is an end of the stream too.
	e.Check(!isTimeout(err) && (err != nil || s.Reset != nil || s.Status == "408"), "after %s: %+v (%v)", time.Since(began), s, err)
	gone(e, marker)
}

func slowCrowd(e *harness.Env) {
	u := e.NewUser()
	token := e.Token(u)
	crowd, elsewhere := address(e), address(e)
	victimToken := e.Token(e.Alice())
	e.From(crowd)
	var connected atomic.Int64
	conns := make([]*harness.Conn, 150)
	for i := range conns {
		c, err := e.Dial(e.Public(0), nil)
		if err != nil {
			continue // one address may not have as many
		}
		conns[i] = c
		connected.Add(1)
		if i%2 == 0 {
			_ = c.Send([]byte("GET /health HTTP/1.1\r\nHost: x\r\nX: "))
		} else {
			_, _ = hold(e, c, token, e.Public(0), "crowd-"+harness.RandomHex(4))
		}
	}
	e.Control(connected.Load() > 50, "%d connected", connected.Load())
	e.From(elsewhere)
	for i := range 6 {
		for name, r := range map[string]harness.Request{
			"me": me(victimToken), "upload": harness.SubmitRequest(victimToken, harness.Lua()), "health": {Method: http.MethodGet, Path: "/health"},
		} {
			e.Input("%s, round %d", name, i)
			a, err := e.Try(r)
			e.Check(err == nil && a.Status < 300 && a.Took < 2*time.Second, "%s after %s (%v)", a.Brief(), a.Took, err)
		}
	}
	for _, c := range conns {
		if c != nil {
			c.Close()
		}
	}
}
