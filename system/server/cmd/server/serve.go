package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"glovebox/docs"
	"glovebox/migrations"
	"glovebox/system/platform/lifecycle"
	"glovebox/system/platform/logging"
	"glovebox/system/platform/metrics"
	"glovebox/system/platform/notify"
	"glovebox/system/platform/tlsconf"
	"glovebox/system/server/internal/auth"
	authhttp "glovebox/system/server/internal/auth/adapters/http"
	authstore "glovebox/system/server/internal/auth/adapters/postgres"
	"glovebox/system/server/internal/config"
	"glovebox/system/server/internal/httpapi"
	"glovebox/system/server/internal/httpapi/pace"
	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/adapters/http/client"
	"glovebox/system/server/internal/jobs/adapters/http/worker"
	jobstore "glovebox/system/server/internal/jobs/adapters/postgres"
	"glovebox/system/server/internal/platform/httperr"
	"glovebox/system/server/internal/storage/fs"
	workerstore "glovebox/system/server/internal/workers/adapters/postgres"
)

func newServeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "serve both APIs",
		Long: `Serve the public and the internal API until the first SIGINT or SIGTERM; requests in
flight then have http.shutdown_grace to end. Any number of servers may run on one
database and one storage. Certificates are taken up anew when their files change.

Deleting is not done here: run glovebox-server sweep beside it, under its own login.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m := NewMain(cmd.ErrOrStderr())
			if err := m.ParseFlags(cmd); err != nil {
				return err
			}
			if err := m.Open(cmd.Context()); err != nil {
				return errors.Join(err, m.Close())
			}
			return errors.Join(m.Run(cmd.Context()), m.Close())
		},
	}
}

// Main is a serving process: ParseFlags or a Config, then Open, Run, Close. Tests
// start the same.
type Main struct {
	Config *config.Config
	Log    *slog.Logger

	logTo    io.Writer
	pool     *pgxpool.Pool
	storage  *fs.Store
	service  *jobs.Service
	public   *httpapi.Server
	internal *httpapi.Server
	figures  *figures
	metrics  *metrics.Server
	parts    []lifecycle.Part
	stopping chan struct{}
}

// NewMain returns a Main that logs to w.
func NewMain(w io.Writer) *Main { return &Main{logTo: w, stopping: make(chan struct{})} }

// ParseFlags reads the configuration that the command line and the environment name.
func (m *Main) ParseFlags(cmd *cobra.Command) error {
	c, err := loadConfig(cmd)
	m.Config = c
	return err
}

// Open connects, checks and listens; nothing is served before Run.
func (m *Main) Open(ctx context.Context) error {
	c := m.Config
	secrets, err := c.ForServe()
	if err != nil {
		return usageError{err}
	}
	level, err := logging.ParseLevel(c.Log.Level)
	if err != nil {
		return usageError{err}
	}
	if m.Log == nil {
		m.Log = logging.New(m.logTo, "server", level)
	}
	if m.pool, err = openWorkingPool(ctx, secrets.DatabaseURL, c.Database.MaxConns); err != nil {
		return err
	}
	if m.storage, err = fs.New(c.Storage.Root, fs.Options{MinFree: c.Limits.MinFreeBytes.Int64()}); err != nil {
		return fmt.Errorf("storage.root: %w", err)
	}
	notifier, err := notify.New(notify.Options{
		Component: "server", URL: secrets.NotificationURL, Interval: c.SecurityNotification.Interval.Std(), Log: m.Log,
	})
	if err != nil {
		return usageError{fmt.Errorf("security_notification.url: %w", err)}
	}
	m.figures = newFigures()
	store := jobstore.New(m.pool)
	m.figures.registry.MustRegister(newQueueCollector(store, m.storage.Free, m.Log))
	m.service = jobs.New(jobs.Parts{Store: store, Queue: store, Uploads: store, Blobs: m.storage, Roster: workerstore.New(m.pool)}, m.jobSettings())
	logins := authstore.New(m.pool)
	login := auth.NewService(logins, logins,
		auth.NewHasher(hashParams(c), c.Auth.HashConcurrency, hashWait), auth.NewMinter(secrets.TokenSecret),
		loginPolicy(c), alarm{notifier}, m.Log)

	if err := m.listenPublic(login); err != nil {
		return err
	}
	if err := m.listenInternal(); err != nil {
		return err
	}
	if m.metrics, err = metrics.Listen(c.Metrics.Listen, m.figures.registry); err != nil {
		return err
	}
	listener := jobstore.NewListener(m.pool, m.service.Wake, m.Log)
	m.parts = []lifecycle.Part{
		{Name: "public API", Run: m.public.Run},
		{Name: "internal API", Run: m.internal.Run},
		{Name: "metrics", Run: m.metrics.Run},
		{Name: "notifications of jobs", Run: listener.Run},
		{Name: "lease expiry", Run: func(ctx context.Context) error { return m.service.RunExpiry(ctx, c.Jobs.ExpiryInterval.Std()) }},
		{Name: "temporary files", Run: m.sweepTemporary},
		{Name: "security notifications", Run: notifier.Run},
		{Name: "end of waiting claims", Run: func(ctx context.Context) error { <-ctx.Done(); close(m.stopping); return nil }},
	}
	return nil
}

// Temporary files that a crashed server left are found by their free lock.
const (
	temporaryAge   = 5 * time.Second
	temporaryEvery = 5 * time.Second
)

// sweepTemporary removes what bodies left behind when their server died (UPL-08).
// Servers do it themselves, because only they may open the files whose lock tells
// the living from the dead; the sweeper's process goes by age alone.
func (m *Main) sweepTemporary(ctx context.Context) error {
	tick := time.NewTicker(temporaryEvery)
	defer tick.Stop()
	for {
		if removed, err := m.storage.SweepTemp(ctx, temporaryAge); err != nil && ctx.Err() == nil {
			m.Log.WarnContext(ctx, "temporary files could not be swept", "error", err)
		} else if removed > 0 {
			m.Log.InfoContext(ctx, "temporary files of a crash removed", "files", removed)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// hashWait is how long a login waits for its turn at hashing.
const hashWait = 5 * time.Second

func (m *Main) jobSettings() jobs.Settings {
	c := m.Config
	return jobs.Settings{
		MaxInputBytes: c.Limits.MaxInputBytes.Int64(), MaxResultBytes: c.Limits.MaxResultBytes.Int64(), MaxAttempts: c.Jobs.MaxAttempts,
		Limits: jobs.Limits{Uploads: c.Limits.UploadsPerUser, ActiveJobs: c.Limits.ActiveJobsPerUser, StoredBytes: c.Limits.StoredBytesPerUser.Int64()},
		Lease:  c.Lease.Duration.Std(), Heartbeat: c.Lease.Heartbeat.Std(), Timeout: c.Jobs.Timeout.Std(),
		ClaimPoll: c.Jobs.ClaimPoll.Std(), Retention: c.Retention.Duration.Std(), Log: m.Log,
	}
}

func loginPolicy(c *config.Config) auth.Policy {
	return auth.Policy{
		TokenLifetime: c.Auth.TokenLifetime.Std(), Window: c.Auth.LoginWindow.Std(),
		AttemptsPerAddress: c.Auth.LoginAttemptsPerAddress, FailuresPerLogin: c.Auth.LoginFailuresPerLogin,
		SpikeThreshold: c.SecurityNotification.Threshold, SpikeWindow: c.SecurityNotification.Window.Std(),
	}
}

// alarm turns a spike of failed logins into a Security notification (AUT-07).
type alarm struct{ notifier *notify.Notifier }

// FailedLogins implements auth.Alarm.
func (a alarm) FailedLogins(ctx context.Context, count int, window time.Duration) {
	a.notifier.Notify(ctx, notify.Event{
		Kind:    "failed_logins",
		Summary: "unusually many logins failed; see the server's log for logins and addresses",
		Facts:   map[string]string{"failures": strconv.Itoa(count), "window": window.String()},
	})
}

func (m *Main) listenPublic(login *auth.Service) error {
	c := m.Config
	source, err := tlsconf.Open(tlsconf.Files{Cert: c.TLS.PublicCert, Key: c.TLS.PublicKey}, m.Log)
	if err != nil {
		return fmt.Errorf("tls.public_cert, tls.public_key: %w", err)
	}
	proxies, err := httpapi.ParseProxies(c.HTTP.TrustedProxies)
	if err != nil {
		return usageError{fmt.Errorf("http.trusted_proxies: %w", err)}
	}
	errs := httperr.Responder{Log: m.Log}
	handler, _ := httpapi.Public(httpapi.PublicParts{
		Log: m.Log, Errors: errs, Proxies: proxies, Observe: m.figures.observe("public"), OpenAPI: docs.OpenAPI,
		Auth:   authhttp.Handlers{Service: login, Errors: errs, Address: httpapi.AddressFrom},
		Jobs:   client.Handlers{Service: m.service, Errors: errs, MaxInput: c.Limits.MaxInputBytes.Int64()},
		Health: httpapi.NewHealth(m.Log, errs, m.readiness()...),
	})
	options := m.serverOptions("public")
	options.TLS, options.Handler, options.Trusted = source.Server("h2", "http/1.1"), handler, proxies.Contains
	options.Client = proxies.ClientAddress
	m.public, err = httpapi.Listen(c.Listen.Public, options)
	return named(err, "listen.public")
}

func (m *Main) listenInternal() error {
	c := m.Config
	source, err := tlsconf.Open(tlsconf.Files{Cert: c.TLS.InternalCert, Key: c.TLS.InternalKey, CA: c.TLS.InternalClientCA}, m.Log)
	if err != nil {
		return fmt.Errorf("tls.internal_cert, tls.internal_key, tls.internal_client_ca: %w", err)
	}
	errs := httperr.Responder{Log: m.Log}
	registry := workerstore.New(m.pool)
	handler, _ := httpapi.Internal(httpapi.InternalParts{
		Log: m.Log, Errors: errs, Observe: m.figures.observe("internal"),
		Jobs:      worker.Handlers{Service: m.service, Errors: errs, MaxResult: c.Limits.MaxResultBytes.Int64(), Stopping: m.stopping},
		CheckPeer: source.CheckPeer,
		Allowed:   registry.Allowed,
	})
	options := m.serverOptions("internal")
	options.TLS, options.Handler = source.MutualServer("http/1.1"), handler
	// Every worker has a certificate of ours: one address may hold all of them, once
	// they have shown it.
	options.MaxConnectionsPeer, options.MaxRequestsPeer = c.HTTP.MaxConnections, c.HTTP.MaxConcurrentRequests
	if m.internal, err = httpapi.Listen(c.Listen.Internal, options); err == nil {
		err = c.Listen.JudgeInternal(m.internal.Addr())
	}
	return named(err, "listen.internal")
}

func named(err error, key string) error {
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

func (m *Main) serverOptions(name string) httpapi.ServerOptions {
	h := m.Config.HTTP
	return httpapi.ServerOptions{
		Name: name, Log: m.Log,
		Pace:              pace.Limits{Stall: h.StallTimeout.Std(), Window: h.RateWindow.Std(), MinRate: h.MinBytesPerSecond.Int64()},
		ReadHeaderTimeout: h.ReadHeaderTimeout.Std(), IdleTimeout: h.IdleTimeout.Std(), MaxHeaderBytes: int(h.MaxHeaderBytes),
		MaxConnections: h.MaxConnections, MaxConnectionsPeer: max(h.MaxConnections/4, 1), MaxUnprovenPeer: max(h.MaxConnections/4, 1), MaxConcurrentStreams: h.MaxConcurrentStreams,
		MaxRequests: h.MaxConcurrentRequests, MaxRequestsPeer: max(h.MaxConcurrentRequests/4, 1), Observe: m.figures.observe(name),
		Grace: h.ShutdownGrace.Std(),
	}
}

// readiness is what /ready looks at.
func (m *Main) readiness() []httpapi.Check {
	return []httpapi.Check{
		{Name: "database", Run: m.pool.Ping},
		{Name: "migrations", Run: func(ctx context.Context) error {
			pending, err := migrations.Pending(ctx, m.pool)
			if err == nil && len(pending) > 0 {
				err = fmt.Errorf("migrations %v are not applied; run glovebox-server migrate up", pending)
			}
			return err
		}},
		{Name: "binary", Run: func(ctx context.Context) error { return migrations.Compatible(ctx, m.pool) }},
		{Name: "storage", Run: m.storage.Check},
		{Name: "pause", Run: jobstore.New(m.pool).Running},
	}
}

// PublicAddr and InternalAddr are where Open listened.
func (m *Main) PublicAddr() net.Addr   { return m.public.Addr() }
func (m *Main) InternalAddr() net.Addr { return m.internal.Addr() }

// MetricsAddr is where Open listened for scrapes.
func (m *Main) MetricsAddr() net.Addr { return m.metrics.Addr() }

// Run serves until ctx ends, then lets requests in flight end within the grace.
func (m *Main) Run(ctx context.Context) error {
	m.Log.Info("serving", "public", m.PublicAddr().String(), "internal", m.InternalAddr().String(),
		"metrics", m.MetricsAddr().String(), "pid", os.Getpid())
	const beyond = 5 * time.Second // the parts' own grace comes first
	return lifecycle.Run(ctx, m.Log, m.Config.HTTP.ShutdownGrace.Std()+beyond, m.parts...)
}

// Close lets everything go that Open took. It may be called after a failed Open.
func (m *Main) Close() error {
	var errs []error
	for _, server := range []*httpapi.Server{m.public, m.internal} {
		if server != nil {
			errs = append(errs, server.Close())
		}
	}
	errs = append(errs, m.metrics.Close())
	if m.storage != nil {
		errs = append(errs, m.storage.Close())
	}
	if m.pool != nil {
		m.pool.Close()
	}
	return errors.Join(errs...)
}
