package attacks

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"glovebox/attacks/harness"
)

// uploadSizes are bodies of another size than they say or than is permitted.
var uploadSizes = []harness.Case{
	{
		ID: "upload/declared-too-large", Title: "a body that says it is too large is read all the same",
		Requirements: []string{"UPL-01", "API-06"}, Threats: []string{"PUB-D2"},
		Attack:  "an upload that declares more than is permitted, and sends only its beginning",
		Control: "a permitted one that sends its beginning is waited for",
		Oracle:  "413 comes before the body does, and nothing is on disk",
		Run:     uploadDeclared,
	},
	{
		ID: "upload/chunked-too-large", Title: "a body without a length fills the disk",
		Requirements: []string{"UPL-01"}, Threats: []string{"PUB-D2"},
		Attack:  "chunked uploads of one byte and of four times more than is permitted",
		Control: "a chunked upload of exactly the permitted size is taken",
		Oracle:  "413, and nothing on disk",
		Run:     uploadChunked,
	},
	{
		ID: "upload/exact-limit", Title: "the limit is off by one",
		Requirements: []string{"UPL-01"}, Threats: []string{"PUB-D2"},
		Attack:  "files of the greatest size and of one byte more, with and without a length",
		Control: "the greatest size is taken",
		Oracle:  "413 for one byte more, and nothing on disk",
		Run:     uploadExact,
	},
	{
		ID: "upload/length-too-long", Title: "a body that breaks off before its length becomes a job",
		Requirements: []string{"UPL-01", "API-04", "UPL-08"}, Threats: []string{"PUB-T3", "STO-D1"},
		Attack:  "whole and half forms under a greater Content-Length, the connection then closed in every way",
		Control: "the same form under its own length is taken, and while it is on its way its bytes are on disk",
		Oracle:  "no 2xx, and nothing on disk once the connection is gone",
		Run:     uploadTooLong,
	},
	{
		ID: "upload/odd-lengths", Title: "a length that is no number is guessed at",
		Requirements: []string{"API-07", "API-06"}, Threats: []string{"PUB-T2"},
		Attack:  "Content-Length negative, signed, hexadecimal, fractional, of many digits, as a list, doubled, empty",
		Control: "the right length is taken",
		Oracle:  "400, the connection closed, nothing on disk",
		Run:     uploadOddLengths,
	},
	{
		ID: "upload/expect", Title: "a client is asked for a body that will be refused",
		Requirements: []string{"UPL-01", "API-07"}, Threats: []string{"PUB-D2"},
		Attack:  "Expect: 100-continue without a token, too large, under a wrong type; Expect of other things",
		Control: "a good request is told 100 Continue",
		Oracle:  "the final answer comes without a 100 before it",
		Run:     uploadExpect,
	},
	{
		ID: "upload/refused-leaves-nothing", Title: "refused uploads use up a user's allowance or the disk",
		Requirements: []string{"UPL-01", "UPL-10", "UPL-08", "UPL-03"}, Threats: []string{"PUB-D3", "STO-D2"},
		Attack:  "60 uploads that are refused at their end: too large, without a closing delimiter, under a wrong digest",
		Control: "one upload is taken before",
		Oracle:  "storage has not grown by their bytes; a fresh allowance is still whole: many small uploads are taken",
		Run:     uploadRefusedMany,
	},
}

// maxInput is limits.max_input_bytes of the worlds.
const maxInput = 262144

// chunked writes content in chunks of at most size bytes.
func chunked(content []byte, size int) string {
	var b strings.Builder
	for len(content) > 0 {
		n := min(size, len(content))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, content[:n])
		content = content[n:]
	}
	b.WriteString("0\r\n\r\n")
	return b.String()
}

// chunkedRequest uploads a form without a length.
func chunkedRequest(token string, form []byte, size int) harness.Request {
	return harness.Request{
		Method: http.MethodPost, Path: "/api/v1/jobs", Token: token, NoLength: true,
		Header: []string{harness.FormType, "Transfer-Encoding: chunked"}, Body: []byte(chunked(form, size)),
	}
}

// sized is a marked file of n bytes.
func sized(n int) (marker string, content []byte) {
	marker, content = harness.Marked()
	return marker, append(content, make([]byte, n-len(content))...)
}

func uploadDeclared(e *harness.Env) {
	bob := e.Bob()
	for name, length := range map[string]string{"a little more": itoa(maxInput + 100_000), "a gigabyte": "1073741824", "63 bits": "9223372036854775807"} {
		e.Input("%s", name)
		marker, content := harness.Marked()
		c := e.MustDial(e.Public(0), nil)
		r := formRequest(e.Token(bob), part(partHead, string(content))[:120])
		r.NoLength, r.Header = true, append(r.Header, "Content-Length: "+length)
		e.Must(c.Send(r.Bytes(e.Public(0))), "send the beginning")
		a, err := c.Receive(http.MethodPost, time.Second)
		e.Check(err == nil && refused(a, http.StatusRequestEntityTooLarge, "too_large") && a.Close, "got %s (%v)", a.Brief(), err)
		gone(e, marker)
	}
	e.Input("")
	c := e.MustDial(e.Public(0), nil)
	r := formRequest(e.Token(bob), part(partHead, "return 1")[:100])
	r.NoLength, r.Header = true, append(r.Header, "Content-Length: 5000")
	e.Must(c.Send(r.Bytes(e.Public(0))), "send the beginning")
	_, err := c.Receive(http.MethodPost, 500*time.Millisecond)
	e.Control(isTimeout(err), "a permitted one is not waited for: %v", err)
}

// isTimeout reports whether nothing came within the limit.
func isTimeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool }) //nolint:errorlint // the deadline's own error, never wrapped
	return ok && t.Timeout()
}

func uploadChunked(e *harness.Env) {
	bob := e.Bob()
	_, content := sized(maxInput)
	a := e.Do(chunkedRequest(e.Token(bob), harness.Form("a.lua", content), 10_000))
	e.Control(a.Status == http.StatusCreated, "the permitted size: %s", a.Brief())
	for _, n := range []int{maxInput + 1, 4 * maxInput} {
		for _, piece := range []int{1000, 1 << 20} {
			e.Input("%d bytes in chunks of %d", n, piece)
			marker, content := sized(n)
			a, err := e.Try(chunkedRequest(e.Token(bob), harness.Form("a.lua", content), piece))
			e.Check(err != nil || refused(a, http.StatusRequestEntityTooLarge, "too_large"), "got %s", a.Brief())
			gone(e, marker)
		}
	}
}

func uploadExact(e *harness.Env) {
	bob := e.Bob()
	for i := range e.Servers() {
		_, content := sized(maxInput)
		r := harness.SubmitRequest(e.Token(bob), content)
		r.Server = i
		a := e.Do(r)
		e.Control(a.Status == http.StatusCreated, "the greatest size on server %d: %s", i, a.Brief())
		marker, content := sized(maxInput + 1)
		r = harness.SubmitRequest(e.Token(bob), content)
		r.Server = i
		e.Input("server %d", i)
		a = e.Do(r)
		e.Check(refused(a, http.StatusRequestEntityTooLarge, "too_large"), "got %s", a.Brief())
		gone(e, marker)
	}
}

func uploadTooLong(e *harness.Env) {
	bob := e.Bob()
	for name, end := range map[string]func(c *harness.Conn) error{
		"closed":        func(c *harness.Conn) error { c.Close(); return nil },
		"half-closed":   func(c *harness.Conn) error { return c.CloseWrite() },
		"cut below TLS": func(c *harness.Conn) error { return c.Raw.Close() },
	} {
		for what, whole := range map[string]bool{"the whole form": true, "half of it": false} {
			e.Input("%s, %s", what, name)
			marker, content := sized(150_000)
			body := string(harness.Form("a.lua", content))
			if !whole {
				body = body[:100_000]
			}
			c := e.MustDial(e.Public(0), nil)
			r := formRequest(e.Token(bob), body)
			r.NoLength, r.Header = true, append(r.Header, "Content-Length: "+itoa(len(harness.Form("a.lua", content))+50))
			e.Must(c.Send(r.Bytes(e.Public(0))), "send the form")
			e.Control(e.Await(1500*time.Millisecond, func() bool { return len(e.OnDisk(marker)) == 1 }), "its bytes are not on disk while it is on its way")
			e.Must(end(c), "end the connection")
			if name == "half-closed" {
				a, err := c.Receive(http.MethodPost, harness.Patience)
				e.Check(err != nil || a.Status >= 400, "got %s", a.Brief())
			}
			gone(e, marker)
		}
	}
	e.Input("")
	a := e.Do(harness.SubmitRequest(e.Token(bob), harness.Lua()))
	e.Control(a.Status == http.StatusCreated, "under its own length: %s", a.Brief())
}

func uploadOddLengths(e *harness.Env) {
	bob := e.Bob()
	a := e.Do(harness.SubmitRequest(e.Token(bob), harness.Lua()))
	e.Control(a.Status == http.StatusCreated, "the right length: %s", a.Brief())
	for _, length := range []string{
		"-1", "+N", "0xN", "N.0", "N,N", "N, N", "N N", "N;", "18446744073709551616", "99999999999999999999999999999", "", " ", "N\t1", "ten", "1e3",
		"00x", "N\x0b", "N\x00", "٣",
	} {
		e.Input("%q", length)
		marker, content := harness.Marked()
		r := harness.SubmitRequest(e.Token(bob), content)
		r.NoLength = true
		r.Header = append(r.Header, "Content-Length: "+strings.ReplaceAll(length, "N", itoa(len(r.Body))))
		a, err := onFresh(e, r)
		e.Check(err == nil && a.Status >= 400 && a.Status < 500, "got %s (%v)", a.Brief(), err)
		gone(e, marker)
	}
	for name, other := range map[string]string{"doubled, one shorter": "10", "doubled, one longer": "100000", "doubled, zero": "0"} {
		e.Input("%s", name)
		marker, content := harness.Marked()
		r := harness.SubmitRequest(e.Token(bob), content)
		r.Header = append(r.Header, "Content-Length: "+other)
		a, err := onFresh(e, r)
		e.Check(err == nil && a.Status == http.StatusBadRequest && a.Close, "got %s (%v)", a.Brief(), err)
		gone(e, marker)
	}
}

// onFresh sends the request on a connection of its own.
func onFresh(e *harness.Env, r harness.Request) (harness.Answer, error) {
	c := e.MustDial(e.Public(r.Server), nil)
	a, err := exchange(c, r, e.Public(r.Server))
	c.Close()
	return a, err
}

func uploadExpect(e *harness.Env) {
	bob := e.Bob()
	// first reads the first line of an answer to a request whose body is held back.
	first := func(r harness.Request, length int) string {
		c := e.MustDial(e.Public(0), nil)
		r.NoLength, r.Body, r.Method, r.Path = true, nil, http.MethodPost, "/api/v1/jobs"
		r.Header = append(r.Header, "Content-Length: "+itoa(length))
		e.Must(c.Send(r.Bytes(e.Public(0))), "send the head")
		e.Must(c.SetReadDeadline(time.Now().Add(1500*time.Millisecond)), "wait")
		line := make([]byte, 13)
		n, _ := c.Read(line) // what has come by then is what there is
		c.Close()
		return string(line[:n])
	}
	good := harness.Request{Token: e.Token(bob), Header: []string{harness.FormType, "Expect: 100-continue"}}
	e.Control(strings.Contains(first(good, 500), " 100"), "a good request is not told to go on")
	for name, try := range map[string]struct {
		r      harness.Request
		length int
		want   string
	}{
		"no token":      {harness.Request{Header: good.Header}, 500, " 401"},
		"too large":     {good, 1 << 30, " 413"},
		"a wrong type":  {harness.Request{Token: good.Token, Header: []string{"Content-Type: text/plain", "Expect: 100-continue"}}, 500, " 415"},
		"encoded":       {harness.Request{Token: good.Token, Header: append([]string{"Content-Encoding: gzip"}, good.Header...)}, 500, " 415"},
		"a bad digest":  {harness.Request{Token: good.Token, Header: append([]string{"Glovebox-File-Digest: x"}, good.Header...)}, 500, " 400"},
		"another thing": {harness.Request{Token: good.Token, Header: []string{harness.FormType, "Expect: 200-ok"}}, 500, " 417"},
	} {
		e.Input("%s", name)
		got := first(try.r, try.length)
		e.Check(strings.Contains(got, try.want), "the first thing that comes is %q, not %s", got, try.want)
	}
}

func uploadRefusedMany(e *harness.Env) {
	u := e.NewUser()
	token := e.Token(u)
	a := e.Do(harness.SubmitRequest(token, harness.Lua()))
	e.Control(a.Status == http.StatusCreated, "one upload before: %s", a.Brief())
	const large = 200_000
	common, _ := harness.Marked()
	for i := range 60 {
		content := append([]byte("-- "+common+"\n"), make([]byte, large)...)
		r := harness.SubmitRequest(token, content)
		want := http.StatusBadRequest
		switch i % 3 {
		case 0:
			r, want = harness.SubmitRequest(token, append(content, make([]byte, 100_000)...)), http.StatusRequestEntityTooLarge
		case 1:
			r.Body = r.Body[:len(r.Body)-20]
		case 2:
			r.Header = append(r.Header, "Glovebox-File-Digest: "+harness.Digest([]byte("another")))
		}
		r.Server = i
		a, err := e.Try(r)
		e.Check(err == nil && a.Status == want, "upload %d: %s (%v)", i, a.Brief(), err)
	}
	gone(e, common)
	// 60 times 200 KB are three quarters of what one user may have stored.
	for i := range 20 {
		_, content := sized(large)
		a := e.Do(harness.SubmitRequest(token, content))
		e.Check(a.Status == http.StatusCreated, "afterwards, upload %d: %s", i, a.Brief())
	}
}
