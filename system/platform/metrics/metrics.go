// Package metrics serves a process's figures for Prometheus, on a listener of their
// own that the configuration keeps to loopback.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Bounds of one scrape. Figures may ask the database, so few are made at once.
const (
	scrapesAtOnce = 2
	scrapeTimeout = 10 * time.Second
	writeTimeout  = 2 * scrapeTimeout
)

// NewRegistry returns a registry that tells of the process and its runtime.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// Server answers GET /metrics.
type Server struct {
	listener net.Listener
	server   *http.Server
}

// Listen opens the listener at address, which the caller has seen to be loopback.
// Run serves it; Close ends it where Run never comes.
func Listen(address string, registry *prometheus.Registry) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics (metrics.listen): %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapesAtOnce, Timeout: scrapeTimeout}))
	return &Server{listener: listener, server: &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: scrapeTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10,
	}}, nil
}

// Addr is the listener's address, with the port the system chose for port 0.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Run serves until ctx ends, and then returns nil.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve metrics: %w", err)
	case <-ctx.Done():
		err := s.server.Close()
		<-served
		return err
	}
}

// Close releases the listener and every connection. It may be called after Run, and
// on a nil Server.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	if err := errors.Join(s.server.Close(), s.listener.Close()); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the metrics listener: %w", err)
	}
	return nil
}
