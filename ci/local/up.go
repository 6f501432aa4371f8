package local

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"glovebox/ci/engine"
	"glovebox/migrations"
	"glovebox/system/platform/secret"
	"glovebox/system/testdb"
)

// startTimeout bounds the whole start.
const startTimeout = 2 * time.Minute

// Up starts the system and returns when it takes jobs. What it started is taken
// down again when a step fails. Processes outlive the caller; Down ends them.
func Up(ctx context.Context, opts Options) (*System, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if os.Getuid() != 0 {
		return nil, errors.New("the local system runs each process under its own uid and needs root for it; run as root, or use the packages with a rootless engine")
	}
	overrides, err := parseOverrides(opts.Set)
	if err != nil {
		return nil, err
	}
	if opts.Image == "" {
		if opts.Image, err = opts.defaultImage(); err != nil {
			return nil, err
		}
	}
	if opts.Probe == "" {
		if opts.Probe, err = opts.builtImage("probe"); err != nil {
			return nil, err
		}
	}
	s := &System{opts: opts, state: opts.stateFolder()}
	s.LogsDir = filepath.Join(opts.runFolder(), "logs")
	if err := s.refuseSecondStart(); err != nil {
		return nil, err
	}
	if err := opts.checkPorts(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.startAll(ctx, overrides); err != nil {
		return nil, errors.Join(err, s.Down())
	}
	return s, nil
}

// refuseSecondStart clears what a start that was cut off left, and refuses to
// start beside a running system.
func (s *System) refuseSecondStart() error {
	old, err := load(s.opts.runFolder())
	if err == nil {
		for _, p := range old.Processes {
			if p.Alive() {
				return fmt.Errorf("a system is running already (%s, pid %d); stop it with make down", p.Name, p.PID)
			}
		}
		return old.Down()
	}
	if _, err := os.Stat(s.state); err == nil {
		return clearState(s.state)
	}
	return nil
}

func (s *System) startAll(ctx context.Context, overrides []override) error {
	steps := []struct {
		name string
		run  func(context.Context) error
	}{
		{"folders and programs", func(context.Context) error {
			return errors.Join(s.makeFolders(), s.copyPrograms(), s.save())
		}},
		{"certificates: a public and an internal authority", func(context.Context) error { return s.makeCertificates() }},
		{"PostgreSQL, private, over a unix socket", s.startDatabase},
		{"podman, private, own storage", s.startEngine},
		{"who calls whom", func(context.Context) error { return s.placeServers() }},
		{"configuration", func(context.Context) error { return s.writeConfigs(overrides) }},
		{"migrations", func(ctx context.Context) error { _, err := s.admin(ctx, "", "migrate", "up"); return err }},
		{"users and workers", s.makePeople},
		{"server and sweeper", s.startServers},
		{"launcher and worker", s.startWorkers},
		{"ready", func(context.Context) error { s.fillEndpoint(); return s.save() }},
	}
	for _, step := range steps {
		s.opts.Progress(step.name)
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

func (s *System) startDatabase(ctx context.Context) error {
	var err error
	if err := s.makeSocketFolder(); err != nil {
		return err
	}
	s.cluster, err = testdb.StartCluster(ctx, s.path("pg"), s.databaseOptions())
	if err != nil {
		return err
	}
	if err := s.noteDatabase(); err != nil {
		return err
	}
	admin, err := pgx.Connect(ctx, s.cluster.AdminURL("postgres").Reveal())
	if err != nil {
		return err
	}
	defer admin.Close(ctx)
	if _, err := admin.Exec(ctx, "CREATE DATABASE glovebox"); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, s.cluster.AdminURL("glovebox").Reveal())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := migrations.Bootstrap(ctx, conn); err != nil {
		return err
	}
	urls := make(map[string]secret.Text)
	for _, role := range migrations.Roles {
		password := testdb.RandomPassword()
		if err := migrations.SetPassword(ctx, conn, role, password); err != nil {
			return err
		}
		urls[role] = s.cluster.URL(role, password, "glovebox")
	}
	s.DatabaseURL = urls["glovebox_observer"].Reveal()
	tokenSecret := make([]byte, 32)
	_, _ = rand.Read(tokenSecret) // never fails
	if err := s.writeRoutedURLs(urls); err != nil {
		return err
	}
	return errors.Join(
		s.writeSecret("server.url", urls["glovebox_server"].Reveal(), uids["server"]),
		s.writeSecret("operator.url", urls["glovebox_operator"].Reveal(), 0),
		s.writeSecret("backup.url", urls["glovebox_backup"].Reveal(), 0),
		s.writeSecret("migrator.url", urls["glovebox_migrator"].Reveal(), 0),
		s.writeSecret("token-secret", hex.EncodeToString(tokenSecret), uids["server"]))
}

// makeSocketFolder makes a folder in which PostgreSQL may place its socket and
// every uid may reach it; the cluster's own folder is closed to all others.
func (s *System) makeSocketFolder() error {
	postgres, err := user.Lookup("postgres")
	if err != nil {
		return fmt.Errorf("find the database's user; run ci/setup: %w", err)
	}
	uid, err := strconv.Atoi(postgres.Uid)
	if err != nil {
		return err
	}
	if err := os.Mkdir(s.path("db"), 0o711); err != nil {
		return err
	}
	return s.giveTo(uid, s.path("db"))
}

func (s *System) startEngine(ctx context.Context) error {
	var err error
	s.engine, err = engine.Start(ctx, engine.Options{Dir: s.path("eng")})
	if err != nil {
		return err
	}
	ticks, err := startTicks(s.engine.PID)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Processes = append(s.Processes, Process{Name: "engine", PID: s.engine.PID, StartTicks: ticks, Log: filepath.Join(s.path("eng"), "log")})
	s.PIDs.Engine = s.engine.PID
	return nil
}

func (s *System) writeConfigs(overrides []override) error {
	write := func(program, name string, t tree) error {
		return errors.Join(t.apply(program, overrides), t.write(s.path("etc/"+name)))
	}
	for i := range s.opts.Servers {
		if err := write("server", fmt.Sprintf("server-%d.toml", i), s.serverConfig(i)); err != nil {
			return err
		}
	}
	for i := range s.opts.Workers {
		if err := errors.Join(
			write("launcher", fmt.Sprintf("launcher-%d.toml", i), s.launcherConfig(i)),
			write("worker", fmt.Sprintf("worker-%d.toml", i), s.workerConfig(i))); err != nil {
			return err
		}
	}
	return nil
}

func (s *System) startServers(ctx context.Context) error {
	for i := range s.opts.Servers {
		p, err := s.start(s.serverProgram(i))
		if err != nil {
			return err
		}
		s.PIDs.Server = append(s.PIDs.Server, p.PID)
	}
	for i := range s.opts.Servers {
		if err := s.awaitReady(ctx, i); err != nil {
			return err
		}
	}
	p, err := s.start(s.sweeperProgram()) // after a server has made the storage's folders
	if err != nil {
		return err
	}
	s.PIDs.Sweeper = p.PID
	return nil
}

func (s *System) serverProgram(i int) program {
	return program{
		name: fmt.Sprintf("server-%d", i), path: s.binary("glovebox-server"),
		args: []string{"serve", "--config", s.path(fmt.Sprintf("etc/server-%d.toml", i))},
		uid:  uids["server"], gid: uids["server"], also: []uint32{storageGroup},
	}
}

func (s *System) sweeperProgram() program {
	return program{
		name: "sweeper", path: s.binary("glovebox-server"), args: []string{"sweep", "--config", s.path("etc/server-0.toml")},
		uid: uids["sweeper"], gid: uids["sweeper"], also: []uint32{storageGroup},
	}
}

func (s *System) launcherProgram(i int) program {
	return program{
		name: fmt.Sprintf("launcher-%d", i), path: s.binary("glovebox-launcher"),
		args: []string{"serve", "--config", s.path(fmt.Sprintf("etc/launcher-%d.toml", i))},
	}
}

func (s *System) workerProgram(i int) program {
	return program{
		name: fmt.Sprintf("worker-%d", i), path: s.binary("glovebox-worker"),
		args: []string{"serve", "--config", s.path(fmt.Sprintf("etc/worker-%d.toml", i))},
		uid:  uids["worker"], gid: uids["worker"],
	}
}

// client trusts the public authority of this system alone.
func (s *System) client() (*http.Client, error) {
	pem, err := os.ReadFile(s.path("tls/public-bundle.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}, nil
}

// awaitReady waits until server i answers /ready.
func (s *System) awaitReady(ctx context.Context, i int) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	name := fmt.Sprintf("server-%d", i)
	return s.await(ctx, name, func() (bool, error) {
		resp, err := client.Get("https://" + loopback(s.opts.portsOf(i).public) + "/ready")
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		// Paused after a restore it serves too, as far as it may.
		up := resp.StatusCode == http.StatusOK || strings.Contains(string(body), "paused after a restore")
		return up, fmt.Errorf("answers %d: %s", resp.StatusCode, body)
	})
}

// await polls ready until it holds, the named process has died, or ctx ends.
func (s *System) await(ctx context.Context, name string, ready func() (bool, error)) error {
	for {
		ok, why := ready()
		if ok {
			return nil
		}
		for _, p := range s.Processes {
			if p.Name == name && !p.Alive() {
				return fmt.Errorf("%s ended before it was ready; the end of its log:\n%s", name, tail(p.Log, 15))
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w (%v)", name, ctx.Err(), why)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *System) startWorkers(ctx context.Context) error {
	for i := range s.opts.Workers {
		p, err := s.start(s.launcherProgram(i))
		if err != nil {
			return err
		}
		s.PIDs.Launcher = append(s.PIDs.Launcher, p.PID)
	}
	for i := range s.opts.Workers {
		name := fmt.Sprintf("launcher-%d", i)
		if err := s.await(ctx, name, func() (bool, error) {
			_, err := os.Stat(s.launcherSocket(i))
			return err == nil, err
		}); err != nil {
			return err
		}
		p, err := s.start(s.workerProgram(i))
		if err != nil {
			return err
		}
		s.PIDs.Worker = append(s.PIDs.Worker, p.PID)
	}
	return nil
}

func (s *System) fillEndpoint() {
	first := s.opts.portsOf(0)
	s.Schema = 1
	s.PublicURL = "https://" + loopback(first.public)
	s.InternalURL = "https://" + loopback(first.internal)
	s.CAFile, s.InternalCAFile = s.path("tls/public-bundle.crt"), s.path("tls/internal-bundle.crt")
	s.BinDir, s.StorageRoot = s.path("bin"), s.path("storage")
	s.AdminConfig, s.SlotsRoot = s.path("etc/server-0.toml"), s.path("slots-0")
	for _, login := range logins {
		s.Users = append(s.Users, User{login, s.path("users/" + login + ".password")})
	}
	for i := range s.opts.Workers {
		base := s.path("tls/worker/worker-" + workerID(i))
		s.Workers = append(s.Workers, Worker{workerID(i), base + ".crt", base + ".key", true})
	}
	for _, id := range append(append([]string{}, spareWorkers...), outsider) {
		base := s.path("tls/spare/worker-" + id)
		s.Workers = append(s.Workers, Worker{id, base + ".crt", base + ".key", id != outsider})
	}
	ingestCert, ingestKey := s.path("tls/spare/ingest-main.crt"), s.path("tls/spare/ingest-main.key")
	s.IngestCert, s.IngestKey = &ingestCert, &ingestKey
	s.Configs = Configs{Server: s.path("etc/server-0.toml"), Worker: s.path("etc/worker-0.toml"), Launcher: s.path("etc/launcher-0.toml")}
	s.UIDs = uids
	s.Sockets = Sockets{Launcher: s.launcherSocket(0), Engine: s.engine.Socket}
	s.Metrics = map[string]any{
		"server": "http://" + loopback(first.server) + "/metrics", "worker": "http://" + loopback(first.worker) + "/metrics",
		"launcher": "http://" + loopback(first.launcher) + "/metrics", "ingest": nil,
	}
	for i := range s.opts.Servers {
		p := s.opts.portsOf(i)
		s.Servers = append(s.Servers, ServerAddress{"https://" + loopback(p.public), "https://" + loopback(p.internal)})
	}
}
