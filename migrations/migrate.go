package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// lockKey is the advisory lock of everything that changes the schema ("glovebox").
const lockKey int64 = 0x676c6f7665626f78

// lockPoll is how often a second runner asks for the lock. It must not wait
// inside pg_advisory_lock: a waiting statement holds a snapshot, and CREATE INDEX
// CONCURRENTLY of the first runner would wait for it in turn.
const lockPoll = 50 * time.Millisecond

// Report is what Up did.
type Report struct {
	Applied []int64 // in order; empty when there was nothing to do
	Version int64   // the version the database now has
}

// Up applies what is missing as glovebox_owner. conn must log in as
// glovebox_migrator or an administrator; the schemas must exist (Bootstrap). It
// may be started any number of times at once. An index left invalid is an error,
// also when nothing had to be applied.
func Up(ctx context.Context, conn *pgx.ConnConfig) (Report, error) {
	return UpFrom(ctx, conn, files)
}

// UpFrom is Up with the numbered files of a folder in place of this binary's own:
// how a test stands for the release that comes next.
func UpFrom(ctx context.Context, conn *pgx.ConnConfig, folder fs.FS) (Report, error) {
	admin, err := pgx.ConnectConfig(ctx, conn)
	if err != nil {
		return Report{}, fmt.Errorf("connect to the database to migrate it: %w", err)
	}
	defer admin.Close(context.WithoutCancel(ctx))
	release, err := lock(ctx, admin)
	if err != nil {
		return Report{}, err
	}
	defer release()

	if err := hasSchemas(ctx, admin); err != nil {
		return Report{}, err
	}
	db := stdlib.OpenDB(*conn, stdlib.OptionAfterConnect(asOwner))
	defer db.Close()
	report, err := apply(ctx, admin, db, folder)
	if err != nil {
		return report, err
	}
	invalid, err := InvalidIndexes(ctx, admin)
	if err != nil {
		return report, err
	}
	if len(invalid) > 0 {
		return report, fmt.Errorf("the schema is at version %d, but index %s is invalid and is not used; drop it and build it again with CREATE INDEX CONCURRENTLY", report.Version, invalid[0])
	}
	return report, nil
}

func asOwner(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "SET ROLE glovebox_owner"); err != nil {
		return fmt.Errorf("become glovebox_owner; log in as glovebox_migrator or an administrator: %w", err)
	}
	return nil
}

// apply applies one file after another, so that each that ends the work of older
// binaries is judged at its own moment.
func apply(ctx context.Context, conn *pgx.Conn, db *sql.DB, folder fs.FS) (report Report, err error) {
	oldest, err := oldestBinaries(folder)
	if err != nil {
		return Report{}, err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, folder,
		goose.WithTableName(VersionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return Report{}, fmt.Errorf("read the migrations of this binary: %w", err)
	}
	status, err := provider.Status(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("read which migrations are applied: %w", err)
	}
	for _, file := range status {
		if file.State == goose.StateApplied {
			continue
		}
		version := file.Source.Version
		if least, ok := oldest[version]; ok {
			if err := retire(ctx, conn, db, version, least); err != nil {
				return report, err
			}
		}
		if _, err := provider.ApplyVersion(ctx, version, true); err != nil {
			return report, fmt.Errorf("apply migration %d: %w", version, err)
		}
		report.Applied = append(report.Applied, version)
	}
	report.Version, err = provider.GetDBVersion(ctx)
	if err != nil {
		return report, fmt.Errorf("read the schema's version: %w", err)
	}
	return report, nil
}

// lock takes the schema's advisory lock on conn's session.
func lock(ctx context.Context, conn *pgx.Conn) (release func(), err error) {
	for {
		var got bool
		err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", lockKey).Scan(&got)
		if err != nil {
			return nil, fmt.Errorf("ask for the migration lock: %w", err)
		}
		if got {
			break
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another migration to end: %w", ctx.Err())
		case <-time.After(lockPoll):
		}
	}
	return func() {
		// The session's end frees the lock too; this is only sooner.
		_, _ = conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", lockKey)
	}, nil
}

func hasSchemas(ctx context.Context, conn *pgx.Conn) error {
	var n int
	err := conn.QueryRow(ctx, "SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname IN ('app', 'observe')").Scan(&n)
	if err != nil {
		return fmt.Errorf("look for the schemas: %w", err)
	}
	if n != 2 {
		return errors.New("the schemas app and observe are missing; run migrate up once with --admin-url-file, or bootstrap.sql as an administrator")
	}
	return nil
}
