// Package httpapi is the HTTP ground both APIs stand on: listeners with their
// caps, the middleware every request passes, the routes that belong to no module,
// and the two routers.
package httpapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"glovebox/system/server/internal/httpapi/pace"
)

// ServerOptions are the caps of one listener.
type ServerOptions struct {
	Name string // for the log: "public", "internal"
	// TLS has the protocols in NextProtos: "h2" there switches HTTP/2 on.
	TLS                  *tls.Config
	Handler              http.Handler
	Pace                 pace.Limits
	ReadHeaderTimeout    time.Duration
	IdleTimeout          time.Duration
	MaxHeaderBytes       int
	MaxConnections       int
	MaxConnectionsPeer   int // from one address that is no trusted proxy
	MaxUnprovenPeer      int // of those, such as have made no request yet
	MaxConcurrentStreams int
	MaxRequests          int                   // in work at once
	MaxRequestsPeer      int                   // of one client
	Trusted              func(netip.Addr) bool // nil: no proxy is trusted
	// Client tells who asks, proxies considered; nil: the peer of the connection.
	Client  func(*http.Request) netip.Addr
	Observe Observe       // is told of requests that were refused as too many; may be nil
	Grace   time.Duration // for requests in flight at shutdown
	Log     *slog.Logger
}

// Server is one listener with its HTTP server.
type Server struct {
	options  ServerOptions
	listener net.Listener
	http     *http.Server
}

// Listen opens the address and prepares the server; Run serves.
func Listen(address string, o ServerOptions) (*Server, error) {
	inner, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for the %s API: %w", o.Name, err)
	}
	if o.Trusted == nil {
		o.Trusted = func(netip.Addr) bool { return false }
	}
	if o.Client == nil {
		o.Client = peerAddress
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	for _, p := range o.TLS.NextProtos {
		if p == "h2" {
			protocols.SetHTTP2(true)
		}
	}
	s := &Server{options: o, listener: newLimitListener(inner, o.MaxConnections, o.MaxConnectionsPeer, o.MaxUnprovenPeer, o.Trusted)}
	s.http = &http.Server{
		Handler:           limitRequests(o, pace.Handler(o.Pace, o.Handler)),
		TLSConfig:         o.TLS,
		ReadHeaderTimeout: o.ReadHeaderTimeout, // also bounds the TLS handshake
		IdleTimeout:       o.IdleTimeout,
		MaxHeaderBytes:    o.MaxHeaderBytes,
		Protocols:         protocols,
		ConnState:         notice,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          o.MaxConcurrentStreams,
			MaxReadFrameSize:              64 << 10,
			MaxReceiveBufferPerConnection: 2 << 20,
			MaxReceiveBufferPerStream:     1 << 20,
			SendPingTimeout:               30 * time.Second,
			PingTimeout:                   15 * time.Second,
			WriteByteTimeout:              o.Pace.Stall,
		},
		// "OPTIONS *" goes to the handler, which answers in the one error form.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(&lineLogger{o.Log.With("listener", o.Name)}, "", 0),
	}
	return s, nil
}

// Addr returns the address that is listened on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Run serves until ctx is done, then lets requests in flight end within the grace
// and cuts off the rest.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.http.ServeTLS(s.listener, "", "") }()
	select {
	case err := <-served:
		return fmt.Errorf("serve the %s API: %w", s.options.Name, err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Grace)
	defer cancel()
	err := s.http.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		s.options.Log.Warn("requests were cut off at shutdown", "listener", s.options.Name, "grace", s.options.Grace.String())
		err = s.http.Close()
	}
	<-served
	return err
}

// Close lets the listener go if Run was never called; after Run it does nothing.
func (s *Server) Close() error {
	err := s.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return errors.Join(err, s.http.Close())
}

// lineLogger takes the HTTP server's own complaints (broken handshakes, malformed
// requests). Peers cause them at will, so they are debug lines.
type lineLogger struct{ log *slog.Logger }

// Write implements io.Writer.
func (l *lineLogger) Write(p []byte) (int, error) {
	l.log.Debug("http server", "line", string(bytes.TrimSpace(p)))
	return len(p), nil
}
