package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"glovebox/system/platform/lifecycle"
	"glovebox/system/platform/logging"
)

// stopGrace is what a stop may take: killing and removing every attempt.
const stopGrace = 60 * time.Second

func newServeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "remove leftovers, try the walls, then serve the worker until told to stop",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return serve(cmd) },
	}
}

func serve(cmd *cobra.Command) error {
	s, err := settingsOf(cmd)
	if err != nil {
		return err
	}
	level, err := logging.ParseLevel(s.Log.Level)
	if err != nil {
		return usageError{err}
	}
	log := logging.New(cmd.ErrOrStderr(), "launcher", level)
	unix.Umask(0o077)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := os.MkdirAll(s.Slots.Root, 0o711); err != nil {
		return fmt.Errorf("make slots.root: %w", err)
	}
	service, err := build(cmd.Context(), s, log, registry)
	if err != nil {
		return err
	}
	parts := []lifecycle.Part{{Name: "launcher", Run: service.Run}}
	if s.Metrics.Listen != "" {
		listener, err := net.Listen("tcp", s.Metrics.Listen)
		if err != nil {
			return fmt.Errorf("listen for metrics (metrics.listen): %w", err)
		}
		parts = append(parts, lifecycle.Part{Name: "metrics", Run: func(ctx context.Context) error { return serveMetrics(ctx, listener, registry) }})
	}
	return lifecycle.Run(cmd.Context(), log, stopGrace, parts...)
}

func serveMetrics(ctx context.Context, listener net.Listener, registry *prometheus.Registry) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: 10 * time.Second}))
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 20 * time.Second,
		IdleTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10,
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}
