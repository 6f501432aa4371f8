// Package recovery takes a backup of an installation while it runs, sets an empty
// one back to a backup, and compares rows with files (DBS-03).
//
// A backup is consistent between database and storage because of one order and one
// lock. The lock, jobs/adapters/postgres.BackupLock, is held from before the
// snapshot to the last copied file, and a sweeper deletes files only while it
// shares it. The order: first the snapshot, then the files that its rows name. A
// file that a row names was complete before the row was committed, never changes,
// and goes only after a mark in its row; that mark would come after the snapshot,
// and waits for the lock. So each file the snapshot names is there to be copied,
// however long that takes, and the snapshot itself is let go as soon as the dump
// is written: a long copy keeps no dead row alive.
//
// A restore begins by marking the installation as paused, before any row is there.
// At its end, in one transaction, every job that was being processed is taken back
// and every job that has not ended goes on from a fencing token above all that the
// lost system can have given out: a worker of that system, which may live and
// work on, is refused whatever it brings.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"glovebox/system/platform/secret"
	"glovebox/system/server/internal/jobs/adapters/postgres"
)

// applicationName is how this package's connections call themselves. It is not a
// serving binary's name: migrations count only those.
const applicationName = "glovebox-recovery"

func connect(ctx context.Context, login secret.Text) (*pgx.Conn, error) {
	settings, err := pgx.ParseConfig(login.Reveal())
	if err != nil {
		return nil, errors.New("the database URL is not a PostgreSQL URL") // the cause repeats it
	}
	settings.RuntimeParams["application_name"] = applicationName
	conn, err := pgx.ConnectConfig(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("reach the database as %s: %w", settings.User, err)
	}
	return conn, nil
}

// lockPoll is how often a lock that another holds is asked for again. Waiting
// inside the database would hold a snapshot meanwhile.
const lockPoll = 100 * time.Millisecond

// holdSweepers takes the backup lock on conn's session, alone; it ends with it.
func holdSweepers(ctx context.Context, conn *pgx.Conn, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for {
		var got bool
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", postgres.BackupLock).Scan(&got); err != nil {
			return fmt.Errorf("ask for the backup lock: %w", err)
		}
		if got {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("another backup, or a sweeper's round, has gone on for %s; wait for its end and try again", patience)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for another backup or a sweeper's round: %w", ctx.Err())
		case <-time.After(lockPoll):
		}
	}
}
