package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"time"
)

// Request is one HTTP/1.1 request. Method, path and header lines go onto the wire
// as they stand; only Host, Authorization and Content-Length are added, each where
// it is not given.
type Request struct {
	Method string
	Path   string
	Header []string // "Name: value"
	Token  string   // sent as a bearer token
	Body   []byte
	// NoLength leaves Content-Length out although there is a body.
	NoLength bool
	NoHost   bool
	Server   int    // which of several servers
	Address  string // in place of a server's public address
}

// Bytes is the request as it is sent to the host.
func (r Request) Bytes(host string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", r.Method, r.Path)
	if !r.NoHost {
		fmt.Fprintf(&b, "Host: %s\r\n", host)
	}
	if r.Token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", r.Token)
	}
	for _, line := range r.Header {
		b.WriteString(line + "\r\n")
	}
	if !r.NoLength && (len(r.Body) > 0 || r.Method == "POST" || r.Method == "PUT") {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(r.Body))
	}
	b.WriteString("\r\n")
	b.Write(r.Body)
	return b.Bytes()
}

// Try sends the request to the public API and returns the answer. A connection is
// used again where the last answer left it open.
func (e *Env) Try(r Request) (Answer, error) {
	address := r.Address
	if address == "" {
		address = e.Public(r.Server)
	}
	c := e.idle(address)
	reused := c != nil
	for {
		if c == nil {
			var err error
			if c, err = e.Dial(address, nil); err != nil {
				return Answer{}, err
			}
		}
		began := time.Now()
		err := c.Send(r.Bytes(address))
		var a Answer
		if err == nil || !reused {
			// The server may have answered and closed before it read all.
			a, err = c.Receive(r.Method, ioTimeout)
		}
		if err != nil {
			c.Close()
			if reused && !isTimeout(err) {
				c, reused = nil, false // it had been closed as idle
				continue
			}
			return a, err
		}
		a.Took = time.Since(began)
		if a.Close {
			c.Close()
		} else {
			e.keep(address, c)
		}
		return a, nil
	}
}

// Do is Try that ends the case where there is no answer.
func (e *Env) Do(r Request) Answer {
	a, err := e.Try(r)
	e.Must(err, "%s %s", r.Method, clip(r.Path, 80))
	return a
}

func isTimeout(err error) bool {
	t, ok := err.(net.Error) //nolint:errorlint // the deadline's own error, never wrapped
	return ok && t.Timeout()
}

func (e *Env) idle(address string) *Conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.conns[address]
	delete(e.conns, address)
	return c
}

func (e *Env) keep(address string, c *Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conns == nil || e.conns[address] != nil {
		c.Close()
		return
	}
	e.conns[address] = c
}

// ErrorForm reads the one error form: exactly {"error":{"code","message"}}.
func (a Answer) ErrorForm() (code, message string, ok bool) {
	var body struct {
		Error struct {
			Code    *string `json:"code"`
			Message *string `json:"message"`
		} `json:"error"`
	}
	dec := json.NewDecoder(bytes.NewReader(a.Body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil || dec.More() || body.Error.Code == nil || body.Error.Message == nil {
		return "", "", false
	}
	return *body.Error.Code, *body.Error.Message, a.Header.Get("Content-Type") == "application/json"
}

// JSON decodes the body into v and ends the case where it is not JSON.
func (e *Env) JSON(a Answer, v any) {
	e.Must(json.Unmarshal(a.Body, v), "read the answer %s", a.Brief())
}
