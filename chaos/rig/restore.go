package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"glovebox/migrations"
)

// operator runs a command as the operator and returns what it printed.
func (r *Rig) operator(ctx context.Context, args ...string) ([]byte, error) {
	return output(ctx, r.state, nil, filepath.Join(r.BinDir, "glovebox-server"), append(args, "--config", r.AdminConfig)...)
}

// BackupDir is where Backup leaves it.
func (r *Rig) BackupDir() string { return filepath.Join(r.state, "backup") }

// Backup takes a backup of the running system.
func (r *Rig) Backup(ctx context.Context) error {
	_, err := r.operator(ctx, "backup", "--out", r.BackupDir())
	return err
}

// LoseEverything takes database and storage away, as the loss of the machine does,
// and puts an empty database and an empty storage in their place. Servers and
// sweeper must not run.
func (r *Rig) LoseEverything(ctx context.Context) error {
	maintenance, err := pgx.ParseConfig(r.Database().Reveal())
	if err != nil {
		return errors.New("the administrator's URL cannot be read") // the cause repeats it
	}
	maintenance.Database = "postgres"
	conn, err := pgx.ConnectConfig(ctx, maintenance)
	if err != nil {
		return fmt.Errorf("reach the database as its administrator: %w", err)
	}
	defer conn.Close(ctx)
	for _, statement := range []string{"DROP DATABASE glovebox WITH (FORCE)", "CREATE DATABASE glovebox"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("replace the database: %w", err)
		}
	}
	fresh, err := pgx.Connect(ctx, r.Database().Reveal())
	if err != nil {
		return fmt.Errorf("reach the new database: %w", err)
	}
	defer fresh.Close(ctx)
	if err := migrations.Bootstrap(ctx, fresh); err != nil {
		return err
	}
	if _, err := r.operator(ctx, "migrate", "up"); err != nil {
		return err
	}
	entries, err := os.ReadDir(r.StorageRoot)
	if err != nil {
		return fmt.Errorf("empty the storage: %w", err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(r.StorageRoot, e.Name())); err != nil {
			return fmt.Errorf("empty the storage: %w", err)
		}
	}
	return nil
}

// Restored is what the product says of a restore.
type Restored struct {
	TokenBase int64 `json:"token_base"`
	TakenBack int64 `json:"jobs_taken_back"`
}

// RestoreFrom sets the empty installation back to the backup; it is paused then.
func (r *Rig) RestoreFrom(ctx context.Context, dir string) (Restored, error) {
	var report Restored
	said, err := r.operator(ctx, "restore", "--json", "--keep-tokens", "--from", dir)
	if err != nil {
		return report, err
	}
	return report, json.Unmarshal(said, &report)
}

// Resume ends the pause after a restore.
func (r *Rig) Resume(ctx context.Context) error {
	_, err := r.operator(ctx, "resume")
	return err
}

// StartPaused starts the servers of a paused installation and the sweeper. They run,
// and whether they say that they take no work is the caller's to ask.
func (r *Rig) StartPaused(ctx context.Context) error {
	for i := range r.Options.Servers {
		if err := r.Restart(ctx, fmt.Sprintf("server-%d", i)); err != nil {
			return err
		}
	}
	return r.Restart(ctx, "sweeper")
}
