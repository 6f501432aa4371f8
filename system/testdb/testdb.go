// Package testdb gives tests a real PostgreSQL: one cluster for a test process,
// one database for a test, each a copy of a template that was migrated once.
//
// Where the cluster comes from, in this order: the administrator's URL in
// GLOVEBOX_TEST_DSN; local binaries, as a private cluster on a unix socket that
// dies with the process; testcontainers-go. GLOVEBOX_TEST_BACKEND (dsn, local or
// container) forces one. Where none is to be had, the test fails: it is not
// skipped.
package testdb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/jackc/pgx/v5"

	"glovebox/migrations"
	"glovebox/system/platform/secret"
)

// The environment variables of this package.
const (
	DSNEnv     = "GLOVEBOX_TEST_DSN"
	BackendEnv = "GLOVEBOX_TEST_BACKEND"
	ImageEnv   = "GLOVEBOX_TEST_PG_IMAGE"
)

// Server is a PostgreSQL that tests may make databases in.
type Server struct {
	Backend  string // "dsn", "local" or "container"
	admin    secret.Text
	password secret.Text // of every role of ours
	template string
	dir      string // of a private cluster
	stop     func(context.Context) error
}

var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Start returns the process's server; the first call starts it.
func Start(ctx context.Context) (*Server, error) {
	shared.once.Do(func() { shared.server, shared.err = StartBackend(ctx, os.Getenv(BackendEnv)) })
	return shared.server, shared.err
}

// StartBackend starts a server of its own from the named backend ("" for the
// first that is there). Stop it when done.
func StartBackend(ctx context.Context, backend string) (*Server, error) {
	s := &Server{stop: func(context.Context) error { return nil }}
	var err error
	switch {
	case backend == "dsn" || backend == "" && os.Getenv(DSNEnv) != "":
		s.Backend, s.admin = "dsn", secret.New(os.Getenv(DSNEnv))
		if s.admin.IsZero() {
			err = errors.New(DSNEnv + " is not set")
		}
	case backend == "local" || backend == "" && haveBinaries():
		s.Backend = "local"
		var c *Cluster
		if c, err = startPrivate(ctx); err == nil {
			s.admin, s.dir = c.AdminURL("postgres"), c.Dir
		}
	case backend == "container" || backend == "":
		s.Backend = "container"
		s.admin, s.stop, err = startContainer(ctx)
	default:
		err = fmt.Errorf("%s is %q; wanted: dsn, local or container", BackendEnv, backend)
	}
	if err != nil {
		return nil, fmt.Errorf("no PostgreSQL for tests: %w; set %s, install the package postgresql, or run a container engine", err, DSNEnv)
	}
	// Derived, not random: several test processes may share one server.
	sum := sha256.Sum256([]byte("glovebox test roles\x00" + s.admin.Reveal()))
	s.password = secret.New(hex.EncodeToString(sum[:16]))
	return s, s.prepare(ctx)
}

// Dir is a private cluster's folder, else empty.
func (s *Server) Dir() string { return s.dir }

// AdminURL is the administrator's login to the maintenance database.
func (s *Server) AdminURL() secret.Text { return s.admin }

// Stop ends a server that this process started in a container; a private cluster
// ends with the process.
func (s *Server) Stop(ctx context.Context) error { return s.stop(ctx) }

func haveBinaries() bool {
	_, err := binaries()
	return err == nil
}

// templateLock serialises the making of templates and roles on a shared server.
const templateLock = 0x676c6f7674706c

func (s *Server) prepare(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.admin.Reveal())
	if err != nil {
		return fmt.Errorf("connect as the administrator: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", templateLock); err != nil {
		return fmt.Errorf("lock the making of the template: %w", err)
	}
	s.template = "glovebox_template_" + migrations.Digest()[:12]
	var exists bool
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)", s.template).Scan(&exists)
	if err != nil || exists {
		return err
	}
	quoted := pgx.Identifier{s.template}.Sanitize()
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + quoted, "CREATE DATABASE " + quoted} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("make the template database: %w", err)
		}
	}
	if err := s.fillTemplate(ctx); err != nil {
		return err
	}
	// Marked last: a template that is marked is whole.
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+quoted+" WITH IS_TEMPLATE true"); err != nil {
		return fmt.Errorf("mark the template database: %w", err)
	}
	return nil
}

func (s *Server) fillTemplate(ctx context.Context) error {
	config, err := s.adminConfig(s.template)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect to the template database: %w", err)
	}
	defer conn.Close(ctx)
	if err := migrations.Bootstrap(ctx, conn); err != nil {
		return err
	}
	for _, role := range migrations.Roles {
		if err := migrations.SetPassword(ctx, conn, role, s.password); err != nil {
			return err
		}
	}
	_, err = migrations.Up(ctx, config)
	return err
}

func (s *Server) adminConfig(database string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(s.admin.Reveal())
	if err != nil {
		return nil, errors.New("the administrator's URL is not a PostgreSQL URL") // the cause repeats it
	}
	config.Database = database
	return config, nil
}
