package recovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"glovebox/migrations"
	"glovebox/system/platform/secret"
	"glovebox/system/server/internal/storage/fs"
)

// RestoreOptions say what to restore, and into what.
type RestoreOptions struct {
	Login   secret.Text // role glovebox_migrator: a tampered dump gains no more than its rights
	Storage *fs.Store   // empty
	Source  *Source
	// KeepTokens leaves users logged in. Without it every token is revoked, because
	// one that was revoked after the backup would be valid again.
	KeepTokens bool
	Progress   func(Progress)
}

// Report is what a restore did.
type Report struct {
	RestoreID string           `json:"restore_id"`
	BackupID  string           `json:"backup_id"`
	BackupAt  time.Time        `json:"backup_at"`
	Rows      map[string]int64 `json:"rows"`
	Files     int64            `json:"files"`
	Bytes     int64            `json:"bytes"`
	Damaged   int64            `json:"damaged"` // that the backup holds no copy of
	TokenBase int64            `json:"token_base"`
	// TakenBack are the jobs that were being processed.
	TakenBack     int64         `json:"jobs_taken_back"`
	TokensRevoked int64         `json:"tokens_revoked"`
	RightsDiffer  []string      `json:"rights_differ"` // "- " in the backup alone, "+ " here alone
	Pending       bool          `json:"migrations_pending"`
	Took          time.Duration `json:"took_ns"`
}

// restore is one in the making.
type restore struct {
	RestoreOptions
	conn   *pgx.Conn
	report Report
	placed bool // something was changed, and has to be taken away when the rest fails
}

// Restore sets an empty installation back to a backup and leaves it paused. It
// verifies every byte of the backup before it changes anything, refuses a database
// that has rows, a storage that has files, and an installation that is at work.
// When it fails it leaves the installation as empty as it was.
func Restore(ctx context.Context, o RestoreOptions) (Report, error) {
	began := time.Now()
	conn, err := connect(ctx, o.Login)
	if err != nil {
		return Report{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	r := &restore{RestoreOptions: o, conn: conn}
	if err := r.judge(ctx); err != nil {
		return Report{}, err
	}
	if err := r.apply(ctx); err != nil {
		return Report{}, errors.Join(err, r.undo(context.WithoutCancel(ctx)))
	}
	r.report.Took = time.Since(began)
	return r.report, nil
}

// judge looks at everything that could be in the way.
func (r *restore) judge(ctx context.Context) error {
	m := r.Source.Manifest
	if m.SchemaVersion > migrations.Latest() {
		return fmt.Errorf("the backup has schema version %d and this binary knows %d; restore with the release that made it, or a later one", m.SchemaVersion, migrations.Latest())
	}
	if m.SchemaVersion < firstRestorable {
		return fmt.Errorf("the backup has schema version %d, which cannot be paused; it was not made by this program", m.SchemaVersion)
	}
	if err := r.empty(ctx); err != nil {
		return err
	}
	if err := holdSweepers(ctx, r.conn, 0); err != nil {
		return err
	}
	told := Progress{Stage: "verifying the backup", OfFiles: m.Files, OfBytes: m.Bytes}
	r.Progress(told)
	err := r.Source.Verify(func(e Entry) {
		told.Files++
		told.Bytes += e.Size
		r.Progress(told)
	})
	if err != nil {
		return err
	}
	// To read a large backup takes hours, in which somebody may have begun to use
	// the place: what he has put there must not be dropped.
	return r.empty(ctx)
}

// empty refuses an installation that has anything to lose.
func (r *restore) empty(ctx context.Context) error {
	if _, err := r.conn.Exec(ctx, "SET ROLE glovebox_owner"); err != nil {
		return fmt.Errorf("become glovebox_owner; roles and schemas must be there first: run migrate up --admin-url-file, then migrate set-password for each role: %w", err)
	}
	var schemas int
	if err := r.conn.QueryRow(ctx, "SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname IN ('app', 'observe')").Scan(&schemas); err != nil {
		return fmt.Errorf("look for the schemas: %w", err)
	}
	if schemas != 2 {
		return errors.New("the schemas app and observe are missing; run migrate up --admin-url-file first")
	}
	rows, err := r.conn.Query(ctx, `
		SELECT DISTINCT application_name FROM pg_catalog.pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE 'glovebox%'`)
	if err != nil {
		return fmt.Errorf("look who is connected: %w", err)
	}
	connected, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("look who is connected: %w", err)
	}
	if len(connected) > 0 {
		return fmt.Errorf("%v is connected to this database; stop every server, sweeper and backup first", connected)
	}
	counts, err := countRows(ctx, r.conn)
	if err != nil {
		return err
	}
	for table, n := range counts {
		if n > 0 && !slices.Contains(ownTables, table) {
			return fmt.Errorf("the database is not empty: table app.%s has %d rows; restore into a new database", table, n)
		}
	}
	nothing, err := r.Storage.Empty(ctx)
	if err != nil {
		return fmt.Errorf("look at the storage: %w", err)
	}
	if !nothing {
		return errors.New("storage.root is not empty; move what is in it away, or name another folder")
	}
	return nil
}

// ownTables have rows in an installation that nobody has used.
var ownTables = []string{"schema_versions", "compatibility"}

func (r *restore) apply(ctx context.Context) error {
	r.placed = true
	if err := r.clear(ctx); err != nil {
		return err
	}
	r.Progress(Progress{Stage: "restoring the database"})
	if err := r.section(ctx, "pre-data"); err != nil {
		return err
	}
	// Before the first row is there: whatever is started from here on is paused.
	m := r.Source.Manifest
	r.report.RestoreID, r.report.BackupID, r.report.BackupAt = uuid.NewString(), m.ID, m.TakenAt
	if _, err := r.conn.Exec(ctx, "INSERT INTO app.restores (id, backup_id, backup_at) VALUES ($1, $2, $3)", r.report.RestoreID, m.ID, m.TakenAt); err != nil {
		return fmt.Errorf("pause the installation: %w", err)
	}
	if err := r.files(ctx); err != nil {
		return err
	}
	for _, section := range []string{"data", "post-data"} {
		if err := r.section(ctx, section); err != nil {
			return err
		}
	}
	if err := r.advance(ctx); err != nil {
		return err
	}
	return r.compareRights(ctx)
}

// schemaEntry matches the lines of pg_restore's list that make or grant the
// schemas, which are there already and belong to the administrator's bootstrap.
var schemaEntry = regexp.MustCompile(`^[0-9]+; [0-9]+ [0-9]+ (SCHEMA - |ACL - SCHEMA |COMMENT - SCHEMA )`)

// section runs one section of the dump, in one transaction.
func (r *restore) section(ctx context.Context, name string) error {
	dump := r.Source.dir + "/" + dumpName
	list, err := listOf(ctx, dump)
	if err != nil {
		return err
	}
	defer os.Remove(list)
	if err := run(ctx, r.Login, nil, "pg_restore", "--role=glovebox_owner", "--no-owner", "--exit-on-error", "--single-transaction",
		"--section="+name, "--use-list="+list, dump); err != nil {
		return fmt.Errorf("restore the %s of the database: %w", name, err)
	}
	return nil
}

// listOf writes the dump's contents, but for the schemas, to a file.
func listOf(ctx context.Context, dump string) (path string, err error) {
	var contents bytes.Buffer
	if err := runPlain(ctx, &contents, "pg_restore", "--list", dump); err != nil {
		return "", err
	}
	f, err := os.CreateTemp("", "glovebox-restore-")
	if err != nil {
		return "", fmt.Errorf("make the list of what to restore: %w", err)
	}
	defer f.Close()
	for line := range bytes.Lines(contents.Bytes()) {
		if schemaEntry.Match(line) {
			continue
		}
		if _, err := f.Write(line); err != nil {
			return "", errors.Join(fmt.Errorf("write the list of what to restore: %w", err), os.Remove(f.Name()))
		}
	}
	return f.Name(), f.Close()
}

// files copies the backup's files into the storage; each is hashed once more on
// its way.
func (r *restore) files(ctx context.Context) error {
	m := r.Source.Manifest
	told := Progress{Stage: "restoring files", OfFiles: m.Files, OfBytes: m.Bytes}
	return r.Source.Entries(func(e Entry) error {
		if e.Damaged != "" {
			r.report.Damaged++
			return nil
		}
		why, err := transfer(ctx, r.Storage, r.Source.files, e)
		if err == nil && why != "" {
			err = errors.New(why)
		}
		if err != nil {
			return fmt.Errorf("restore %s: %w", e.Key, err)
		}
		r.report.Files++
		r.report.Bytes += e.Size
		told.Files, told.Bytes = r.report.Files, r.report.Bytes
		r.Progress(told)
		return nil
	})
}

func (r *restore) compareRights(ctx context.Context) error {
	before, err := r.Source.readLines(rightsName)
	if err != nil {
		return err
	}
	after, err := rights(ctx, r.conn)
	if err != nil {
		return err
	}
	r.report.RightsDiffer = differing(before, after)
	pending, err := migrations.Pending(ctx, r.conn)
	r.report.Pending = len(pending) > 0
	return err
}

// undo takes away what a restore that failed has brought.
func (r *restore) undo(ctx context.Context) error {
	if !r.placed {
		return nil
	}
	err := r.clear(ctx)
	removed := r.Source.Entries(func(e Entry) error { return r.Storage.Remove(ctx, e.Key) })
	if err = errors.Join(err, removed); err != nil {
		return fmt.Errorf("take away what was restored before it failed; empty the database and storage.root before the next try: %w", err)
	}
	return nil
}

// clear drops everything in our two schemas, which judge found to be empty or
// which this restore has filled. The schemas themselves stay: they are the
// administrator's to make.
func (r *restore) clear(ctx context.Context) error {
	return pgx.BeginFunc(ctx, r.conn, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT statement FROM (
				SELECT CASE c.relkind WHEN 'S' THEN 1 ELSE 0 END AS turn, -- a table takes its own sequences along
				       format('DROP %s IF EXISTS %I.%I CASCADE', CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, n.nspname, c.relname) AS statement
				FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
				WHERE n.nspname IN ('app', 'observe') AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
				UNION ALL
				SELECT 2, format('DROP ROUTINE IF EXISTS %s CASCADE', p.oid::regprocedure)
				FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname IN ('app', 'observe')) AS all_of_it
			ORDER BY turn`)
		if err != nil {
			return fmt.Errorf("list what to drop: %w", err)
		}
		statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("list what to drop: %w", err)
		}
		for _, statement := range statements {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return fmt.Errorf("drop the empty schema: %w", err)
			}
		}
		return nil
	})
}
