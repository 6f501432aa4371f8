package tlsconf

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// Dial limits of RoundTripper.
const (
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 90 * time.Second
	maxAnswerHeader  = 32 << 10
)

var errRetired = errors.New("this connection's certificates are out of date; a new one takes its place")

// Client returns the settings of one connection to serverName as the files are
// now. Ask again for each connection.
func (s *Source) Client(serverName string, protocols ...string) *tls.Config {
	return s.client(s.material(), serverName, protocols...)
}

func (s *Source) client(m *material, serverName string, protocols ...string) *tls.Config {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, CipherSuites: suites, NextProtos: protocols, Time: s.now,
		ServerName: serverName, RootCAs: m.trusted,
		VerifyConnection: func(state tls.ConnectionState) error {
			return requireUse(state, x509.ExtKeyUsageServerAuth)
		},
	}
	if m.pair != nil {
		// The pair is shown whatever authorities the server lists: "unknown
		// authority" tells an operator more than "no certificate".
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return m.pair, nil }
	}
	return config
}

// RoundTripper returns an HTTP/1.1 client transport over connections of this
// Source, which must have a bundle. A request never goes out on a connection
// that was made with an older pair or bundle, or whose server's certificate has
// ended: such a connection is retired and the request goes over a new one, body
// included where the request has GetBody. maxPerHost bounds the connections.
func (s *Source) RoundTripper(maxPerHost int) *RoundTripper {
	rt := &RoundTripper{source: s}
	rt.transport = &http.Transport{
		DialTLSContext:         rt.dial,
		DialContext:            refusePlain,
		Proxy:                  nil, // the internal network is reached directly or not at all
		DisableCompression:     true,
		MaxConnsPerHost:        maxPerHost,
		MaxIdleConnsPerHost:    maxPerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxAnswerHeader,
		ExpectContinueTimeout:  2 * time.Second,
	}
	return rt
}

// RoundTripper is an http.RoundTripper; see Source.RoundTripper.
type RoundTripper struct {
	source    *Source
	transport *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (rt *RoundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if c, ok := got.Conn.(*checkedConn); ok && got.Reused && !c.fresh() {
			c.retired.Store(true)
		}
	}}
	return rt.transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
}

// CloseIdleConnections closes what is not in use.
func (rt *RoundTripper) CloseIdleConnections() { rt.transport.CloseIdleConnections() }

func refusePlain(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("refused to speak plain HTTP; use an https address")
}

// dial makes a connection whose handshake is done.
func (rt *RoundTripper) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	m := rt.source.material()
	raw, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, rt.source.client(m, host, "http/1.1"))
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the handshake's error is the one that tells
		return nil, fmt.Errorf("TLS handshake with %s: %w", address, err)
	}
	return &checkedConn{Conn: conn, source: rt.source, generation: m.generation, state: conn.ConnectionState()}, nil
}

// checkedConn is a connection that can be retired. Its first Write after that
// fails before any byte is sent, which is what lets the transport send the
// request over another connection.
type checkedConn struct {
	*tls.Conn
	source     *Source
	generation uint64
	state      tls.ConnectionState
	retired    atomic.Bool
}

func (c *checkedConn) fresh() bool {
	return c.generation == c.source.material().generation && c.source.CheckPeer(&c.state) == nil
}

// Write implements net.Conn.
func (c *checkedConn) Write(b []byte) (int, error) {
	if c.retired.Load() {
		return 0, errRetired
	}
	return c.Conn.Write(b)
}

// Probe meets the server at address (host:port) and reports whether both sides
// take each other's certificate. In TLS 1.3 a refusal of ours arrives after the
// handshake, so it sends one request that names no resource; status is that of
// the answer.
func (s *Source) Probe(ctx context.Context, address string) (status int, err error) {
	rt := s.RoundTripper(1)
	defer rt.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodOptions, "https://"+address+"/", nil)
	if err != nil {
		return 0, fmt.Errorf("form the probe: %w", err)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
