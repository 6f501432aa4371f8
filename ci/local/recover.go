package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"glovebox/migrations"
)

// Admin runs a subcommand of glovebox-server as the operator, with the first
// server's configuration, and returns what it printed.
func (s *System) Admin(ctx context.Context, args ...string) (string, error) {
	return s.admin(ctx, "", args...)
}

// LoseData makes the system a new machine: the database is a new one with roles
// and schema and no row, the storage is empty. Servers and sweeper must be stopped;
// roles, keys and configuration stay, as an operator would have kept them apart.
func (s *System) LoseData(ctx context.Context) error {
	for _, p := range s.Processes {
		if (p.Name == "sweeper" || len(p.Name) > 6 && p.Name[:6] == "server") && p.Alive() {
			return fmt.Errorf("%s runs; stop it before its data are lost", p.Name)
		}
	}
	admin, err := pgx.Connect(ctx, s.cluster.AdminURL("postgres").Reveal())
	if err != nil {
		return err
	}
	defer admin.Close(ctx)
	for _, statement := range []string{"DROP DATABASE IF EXISTS glovebox WITH (FORCE)", "CREATE DATABASE glovebox"} {
		if _, err := admin.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	conn, err := pgx.Connect(ctx, s.cluster.AdminURL("glovebox").Reveal())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := migrations.Bootstrap(ctx, conn); err != nil {
		return err
	}
	if _, err := s.admin(ctx, "", "migrate", "up"); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.path("storage"))
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(s.path("storage"), e.Name())))
	}
	return err
}
