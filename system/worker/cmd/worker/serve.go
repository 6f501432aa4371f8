package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"glovebox/system/platform/clock"
	"glovebox/system/platform/lifecycle"
	"glovebox/system/platform/logging"
	"glovebox/system/platform/metrics"
	"glovebox/system/platform/pki"
	"glovebox/system/platform/tlsconf"
	"glovebox/system/worker/internal/config"
	"glovebox/system/worker/internal/executor"
	"glovebox/system/worker/internal/jobs"
)

// stopMargin is what a stop may take beyond the grace: reporting, and giving
// slots back.
const stopMargin = 60 * time.Second

// Main is the worker process. Tests start the same object as the binary.
type Main struct {
	ConfigFile string
	Environ    []string
	ErrOut     io.Writer // the log

	config    *config.Config
	log       *slog.Logger
	id        string
	transport *tlsconf.RoundTripper
	loop      *jobs.Loop
	metrics   *metrics.Server
}

// ParseFlags reads a command line of serve.
func (m *Main) ParseFlags(args []string) error {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	m.flags(flags)
	if err := flags.Parse(args); err != nil {
		return usageError{err}
	}
	return nil
}

func (m *Main) flags(flags *pflag.FlagSet) {
	flags.StringVar(&m.ConfigFile, "config", "", "the TOML `file` with the settings")
}

// Open reads configuration and certificates and opens the metrics listener.
// Close undoes it, also when it failed.
func (m *Main) Open() (err error) {
	if m.config, err = config.Load(m.ConfigFile, m.Environ); err != nil {
		return err
	}
	level, err := logging.ParseLevel(m.config.Log.Level)
	if err != nil {
		return err
	}
	m.log = logging.New(m.ErrOut, "worker", level)
	source, err := openTLS(m.config, m.log)
	if err != nil {
		return err
	}
	if m.id, err = workerID(source); err != nil {
		return err
	}
	m.log = m.log.With("worker_id", m.id)
	// For each slot a claim or a transfer, and a heartbeat beside it.
	m.transport = source.RoundTripper(2*m.config.Worker.Slots + 2)
	client, err := jobs.NewClient(m.config.Server.URL, m.transport, jobs.DefaultTiming)
	if err != nil {
		return err
	}
	figures := newFigures(m.config.Worker.Slots, source.NotAfter)
	if m.metrics, err = metrics.Listen(m.config.Metrics.Listen, figures.registry); err != nil {
		return err
	}
	sandboxes := executor.NewSandboxes(m.config.Launcher.Socket, m.config.Worker.Slots)
	m.loop = jobs.NewLoop(client, executor.New(sandboxes, m.log), figures, m.log, m.config.Worker.Slots, m.config.Worker.Grace.Std())
	return nil
}

// Run works until ctx is done and nothing is left running.
func (m *Main) Run(ctx context.Context) error {
	m.log.InfoContext(ctx, "worker started", "server", m.config.Server.URL, "slots", m.config.Worker.Slots, "version", version())
	return lifecycle.Run(ctx, m.log, m.config.Worker.Grace.Std()+stopMargin,
		lifecycle.Part{Name: "jobs", Run: m.loop.Run},
		lifecycle.Part{Name: "metrics", Run: m.metrics.Run},
	)
}

// Close releases what Open took. It can be called more than once.
func (m *Main) Close() {
	if m.transport != nil {
		m.transport.CloseIdleConnections()
	}
	if err := m.metrics.Close(); err != nil {
		m.log.Warn("cannot close a listener", "error", err)
	}
}

func openTLS(c *config.Config, log *slog.Logger) (*tlsconf.Source, error) {
	return tlsconf.Open(tlsconf.Files{Cert: c.TLS.CertFile, Key: c.TLS.KeyFile, CA: c.TLS.CAFile}, log)
}

// workerID is the id in this worker's own certificate: the one the server will
// see. It serves the log; nothing is asked or decided by it.
func workerID(source *tlsconf.Source) (string, error) {
	id, kind, ok := tlsconf.LeafID(source.Leaf())
	if !ok || kind != pki.Worker {
		return "", errors.New("tls.cert_file is no worker's certificate; issue one with glovebox-server pki issue worker ID")
	}
	if end := source.NotAfter(); clock.Now().After(end) {
		return "", fmt.Errorf("tls.cert_file ended on %s; renew it with glovebox-server pki renew", end.UTC().Format(time.RFC3339))
	}
	return id, nil
}
