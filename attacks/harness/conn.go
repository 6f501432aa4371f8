package harness

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Conn is a TLS connection on which a case writes the bytes it chooses.
type Conn struct {
	*tls.Conn
	Raw    net.Conn // below TLS
	reader *bufio.Reader
	tape   *tape
	to     string
}

// ioTimeout bounds one read or write; a system that says nothing for so long has
// not answered.
const ioTimeout = 20 * time.Second

// DialTCP connects to address from the case's own source address.
func (e *Env) DialTCP(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: ioTimeout}
	if e.source != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(e.source)}
	}
	return d.DialContext(ctx, "tcp", address)
}

// From has the case connect from another loopback address from now on; on a target
// the host's own address is all there is.
func (e *Env) From(address string) {
	if !e.target {
		e.mu.Lock()
		e.source = address
		for _, c := range e.conns {
			c.Close()
		}
		e.conns = map[string]*Conn{}
		e.mu.Unlock()
	}
}

// Dial opens a TLS connection; nil means the public API's configuration.
func (e *Env) Dial(address string, config *tls.Config) (*Conn, error) {
	if config == nil {
		config = e.TLS()
		config.NextProtos = []string{"http/1.1"}
	}
	ctx, cancel := context.WithTimeout(e.ctx, ioTimeout)
	defer cancel()
	raw, err := e.DialTCP(ctx, address)
	if err != nil {
		return nil, err
	}
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return &Conn{Conn: conn, Raw: raw, reader: bufio.NewReader(conn), tape: e.tape, to: address}, nil
}

// MustDial is Dial that ends the case where it fails; the connection is closed
// when the case is over.
func (e *Env) MustDial(address string, config *tls.Config) *Conn {
	c, err := e.Dial(address, config)
	e.Must(err, "connect to %s", address)
	e.Cleanup(func(context.Context) error { c.Close(); return nil })
	return c
}

// Close ends the connection; that it was ended before is no fault.
func (c *Conn) Close() { _ = c.Conn.Close() }

// Send writes the bytes as they are.
func (c *Conn) Send(content []byte) error {
	c.tape.record("> " + clip(strings.ReplaceAll(string(content), "\n", "\n> "), tapeEntry))
	if err := c.SetWriteDeadline(time.Now().Add(ioTimeout)); err != nil {
		return err
	}
	_, err := c.Write(content)
	return err
}

// Answer is a response as it came.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Proto  string
	Close  bool // the server ends the connection after it
	Took   time.Duration
}

// Code returns the error code of the one error form, "" where the body is not in it.
func (a Answer) Code() string {
	code, _, _ := a.ErrorForm()
	return code
}

// Brief is one line for a detail text.
func (a Answer) Brief() string {
	return fmt.Sprintf("%d %s", a.Status, clip(strings.TrimSpace(string(a.Body)), 200))
}

// maxAnswer bounds what is kept of a body.
const maxAnswer = 64 << 20

// errNoAnswer tells that the connection ended instead of an answer.
var errNoAnswer = errors.New("the connection ended without an answer")

// Receive reads one response to a request of the given method, within limit.
func (c *Conn) Receive(method string, limit time.Duration) (Answer, error) {
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return Answer{}, err
	}
	began := time.Now()
	for {
		resp, err := http.ReadResponse(c.reader, &http.Request{Method: method})
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = errNoAnswer
			}
			c.tape.record("< " + err.Error())
			return Answer{}, err
		}
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		a := Answer{resp.StatusCode, resp.Header, body, resp.Proto, resp.Close, time.Since(began)}
		c.tape.record("< " + a.transcript())
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return a, err
		}
	}
}

func (a Answer) transcript() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %d\n", a.Proto, a.Status)
	_ = a.Header.Write(&b) // a buffer does not fail
	b.WriteString("\n")
	b.Write(a.Body)
	return clip(strings.ReplaceAll(strings.ReplaceAll(b.String(), "\r", ""), "\n", "\n< "), tapeEntry)
}
