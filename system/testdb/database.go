package testdb

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"glovebox/migrations"
	"glovebox/system/platform/secret"
)

// The roles, for Pool and URL.
const (
	Admin      = "" // the cluster's administrator
	Migrator   = "glovebox_migrator"
	ServerRole = "glovebox_server"
	Operator   = "glovebox_operator"
	Sweeper    = "glovebox_sweeper"
	Observer   = "glovebox_observer"
	Backup     = "glovebox_backup"
)

// Database is one test's own database, gone after it.
type Database struct {
	Name   string
	server *Server
}

// New makes a migrated database for the test, on the process's server.
func New(t testing.TB) *Database {
	t.Helper()
	return processServer(t).New(t)
}

// NewEmpty makes a database without schema or rights of ours, for tests of the
// migrations themselves.
func NewEmpty(t testing.TB) *Database {
	t.Helper()
	return processServer(t).create(t, "template0")
}

func processServer(t testing.TB) *Server {
	t.Helper()
	server, err := Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// New makes a migrated database for the test.
func (s *Server) New(t testing.TB) *Database {
	t.Helper()
	db := s.create(t, s.template)
	// Rights on the database itself and role settings do not travel with the template.
	ctx := context.Background()
	conn := db.connect(t)
	defer conn.Close(ctx)
	if err := migrations.Bootstrap(ctx, conn); err != nil {
		t.Fatal(err)
	}
	return db
}

func (s *Server) create(t testing.TB, template string) *Database {
	t.Helper()
	suffix := make([]byte, 8)
	_, _ = rand.Read(suffix) // crypto/rand does not fail
	db := &Database{Name: "t_" + hex.EncodeToString(suffix), server: s}
	s.exec(t, "postgres", fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", db.Name, template))
	t.Cleanup(func() { s.exec(t, "postgres", fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", db.Name)) })
	return db
}

func (s *Server) exec(t testing.TB, database, statement string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.url(Admin, database).Reveal())
	if err != nil {
		t.Fatalf("connect as the administrator: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func (db *Database) connect(t testing.TB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), db.URL(Admin).Reveal())
	if err != nil {
		t.Fatalf("connect to the test's database: %v", err)
	}
	return conn
}

// URL returns the login of role.
func (db *Database) URL(role string) secret.Text { return db.server.url(role, db.Name) }

func (s *Server) url(role, database string) secret.Text {
	config, err := s.adminConfig(database)
	if err != nil {
		return secret.Text{}
	}
	if role == Admin {
		role = config.User
	} else {
		config.Password = s.password.Reveal()
	}
	if strings.HasPrefix(config.Host, "/") {
		return socketURL(config.Host, int(config.Port), role, secret.New(config.Password), database)
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(role, config.Password), Host: config.Host + ":" + strconv.Itoa(int(config.Port)), Path: "/" + database}
	if config.TLSConfig == nil {
		u.RawQuery = "sslmode=disable"
	}
	return secret.New(u.String())
}

// Pool returns connections as role, closed with the test.
func (db *Database) Pool(t testing.TB, role string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(db.URL(role).Reveal())
	if err != nil {
		t.Fatal("the test database's URL is not usable")
	}
	config.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatalf("open a pool as %s: %v", role, err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Outside runs a statement as the administrator from outside the database, which
// some statements about a database need.
func (db *Database) Outside(t testing.TB, statement string) {
	t.Helper()
	db.server.exec(t, "postgres", statement)
}
