package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The three-state rule lets old binaries run on a newer schema. A migration that
// breaks it on purpose (the last step of a removal) says so in a line of its own,
// and then two things hold: it is not applied while an older binary is connected,
// and an older binary refuses to work on the result.

var oldestLine = regexp.MustCompile(`(?m)^-- glovebox: oldest-binary ([0-9]+)$`)

// appName begins the application name of every connection of a binary of ours;
// the version it carries follows.
const appName = "glovebox-server"

// ApplicationName is what a binary's connections call themselves, so that a
// migration sees which versions are at work.
func ApplicationName() string { return appName + "/" + strconv.FormatInt(Latest(), 10) }

// oldestBinaries returns, of the files that have the line, the version named there.
func oldestBinaries(folder fs.FS) (map[int64]int64, error) {
	names, err := fs.Glob(folder, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("list the migrations: %w", err)
	}
	oldest := make(map[int64]int64)
	for _, name := range names {
		content, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", name, err)
		}
		found := oldestLine.FindSubmatch(content)
		if found == nil {
			continue
		}
		number, _, _ := strings.Cut(name, "_")
		version, errVersion := strconv.ParseInt(number, 10, 64)
		least, errLeast := strconv.ParseInt(string(found[1]), 10, 64)
		if errVersion != nil || errLeast != nil || least > version {
			return nil, fmt.Errorf("migration %s: its oldest-binary line does not name a version up to its own", name)
		}
		oldest[version] = least
	}
	return oldest, nil
}

// retire refuses while a binary that carries less than least is connected, and
// else writes down that none may come any more. The mark is set before the look:
// whoever connects after it finds the mark (servers and sweepers ask Compatible of
// each new connection), and it is taken back where the look refuses, for what runs
// keeps working on the schema as it is.
func retire(ctx context.Context, conn *pgx.Conn, db *sql.DB, version, least int64) error {
	var before int64
	if err := db.QueryRowContext(ctx, "SELECT oldest_binary FROM app.compatibility").Scan(&before); err != nil {
		return fmt.Errorf("read which binaries the schema takes: %w", err)
	}
	mark := func(ctx context.Context, oldest int64) error {
		_, err := db.ExecContext(ctx, "UPDATE app.compatibility SET oldest_binary = $1", oldest)
		return err
	}
	if err := mark(ctx, max(before, least)); err != nil {
		return fmt.Errorf("write down which binaries migration %d retires: %w", version, err)
	}
	older, err := connectedBelow(ctx, conn, least)
	if err == nil && older != "" {
		err = fmt.Errorf("migration %d ends the work of binaries that carry less than version %d, and %s is connected; upgrade or stop it, then run migrate up again", version, least, older)
	}
	if err != nil {
		return errors.Join(err, mark(context.WithoutCancel(ctx), before))
	}
	return nil
}

// connectedBelow returns the application name of a connected binary that carries
// less than least, "" where there is none. One that does not say its version is
// older than this rule.
func connectedBelow(ctx context.Context, conn *pgx.Conn, least int64) (string, error) {
	rows, err := conn.Query(ctx, `
		SELECT DISTINCT application_name FROM pg_catalog.pg_stat_activity
		WHERE datname = current_database() AND (application_name = $1 OR application_name LIKE $1 || '/%')`, appName)
	if err != nil {
		return "", fmt.Errorf("look which binaries are connected: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", fmt.Errorf("look which binaries are connected: %w", err)
	}
	for _, name := range names {
		carried, err := strconv.ParseInt(strings.TrimPrefix(name, appName+"/"), 10, 64)
		if err != nil || carried < least {
			return name, nil
		}
	}
	return "", nil
}

// ErrRetired is what the error of Compatible wraps where the answer is no.
var ErrRetired = errors.New("upgrade the binary")

// Compatible returns an error where this binary carries less than the schema
// requires. Any role that may log in for serving can ask.
func Compatible(ctx context.Context, db Querier) error {
	rows, err := db.Query(ctx, "SELECT oldest_binary FROM app.compatibility")
	if err != nil {
		return fmt.Errorf("read which binaries the schema takes: %w", err)
	}
	oldest, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64]) // a missing table is said here, not above
	var answer *pgconn.PgError
	if errors.As(err, &answer) && answer.Code == "42P01" {
		return nil // a schema without the table is older than this binary: Pending says so
	}
	if err != nil {
		return fmt.Errorf("read which binaries the schema takes: %w", err)
	}
	if Latest() < oldest {
		return fmt.Errorf("this binary carries schema version %d, and the database takes binaries from version %d on; %w", Latest(), oldest, ErrRetired)
	}
	return nil
}
