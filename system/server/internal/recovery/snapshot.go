package recovery

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"
)

// namedSQL lists every file that a row names, in the order of keys. A row whose
// bytes retention took names none.
const namedSQL = `
	SELECT key, size, sum FROM (
		SELECT v.storage_key AS key, v.size, v.sha256 AS sum FROM app.asset_versions v WHERE v.purged_at IS NULL
		UNION ALL
		SELECT j.result_key, j.result_size, j.result_sha256 FROM app.jobs j WHERE j.result_key IS NOT NULL AND j.purged_at IS NULL) AS named
	ORDER BY key COLLATE "C"`

// database reads all that comes of the one snapshot: the dump, the counts, the
// rights, the list of files. When it returns the snapshot is let go.
func (b *backup) database(ctx context.Context, conn *pgx.Conn) error {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return fmt.Errorf("begin the snapshot: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	m := &b.manifest
	m.Format, m.ID = Format, uuid.NewString()
	err = tx.QueryRow(ctx, `
		SELECT pg_export_snapshot(), now(), current_setting('server_version'),
		       (SELECT coalesce(max(version_id), 0) FROM app.schema_versions WHERE is_applied)`).
		Scan(&m.Snapshot, &m.TakenAt, &m.Server, &m.SchemaVersion)
	if err != nil {
		return fmt.Errorf("take the snapshot: %w", err)
	}
	m.TakenAt = m.TakenAt.UTC()
	b.Progress(Progress{Stage: "reading the database"})
	if m.Rows, err = countRows(ctx, tx); err != nil {
		return err
	}
	if m.Jobs, err = countJobs(ctx, tx); err != nil {
		return err
	}
	lines, err := rights(ctx, tx)
	if err != nil {
		return err
	}
	m.Rights, err = b.part(rightsName, func(w io.Writer) error {
		for _, line := range lines {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := b.part(spoolName, func(w io.Writer) error { return b.spool(ctx, tx, w) }); err != nil {
		return err
	}
	m.Database, err = b.part(dumpName, func(w io.Writer) error {
		return run(ctx, b.Login, w, "pg_dump", "--format=custom", "--snapshot="+m.Snapshot, "--schema=app", "--schema=observe", "--lock-wait-timeout=10000")
	})
	if err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("let the snapshot go: %w", err)
	}
	return b.room()
}

// spool writes what the snapshot names; the rows stream, so that memory does not
// grow with their number.
func (b *backup) spool(ctx context.Context, tx pgx.Tx, w io.Writer) error {
	out := bufio.NewWriter(w)
	encode := json.NewEncoder(out)
	rows, err := tx.Query(ctx, namedSQL)
	if err != nil {
		return fmt.Errorf("list the named files: %w", err)
	}
	var (
		e   Entry
		sum []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&e.Key, &e.Size, &sum}, func() error {
		e.SHA256 = hex.EncodeToString(sum)
		b.manifest.Files++
		b.manifest.Bytes += e.Size
		return encode.Encode(e)
	})
	return errors.Join(err, out.Flush())
}

// room refuses early what cannot fit.
func (b *backup) room() error {
	var st unix.Statfs_t
	if err := unix.Statfs(b.dir, &st); err != nil {
		return fmt.Errorf("look at the free space for the backup: %w", err)
	}
	if free := int64(st.Bavail) * st.Bsize; free < b.manifest.Bytes {
		return fmt.Errorf("%d bytes of files do not fit into the %d that are free at %s: %w", b.manifest.Bytes, free, filepath.Dir(b.Out), unix.ENOSPC)
	}
	return nil
}

// countRows counts every table of ours.
func countRows(ctx context.Context, db querier) (map[string]int64, error) {
	rows, err := db.Query(ctx, `
		SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'app' AND c.relkind IN ('r', 'p') ORDER BY 1`)
	if err != nil {
		return nil, fmt.Errorf("list the tables: %w", err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list the tables: %w", err)
	}
	counts := make(map[string]int64, len(tables))
	for _, table := range tables {
		var n int64
		if err := db.QueryRow(ctx, "SELECT count(*) FROM "+pgx.Identifier{"app", table}.Sanitize()).Scan(&n); err != nil {
			return nil, fmt.Errorf("count the rows of %s: %w", table, err)
		}
		counts[table] = n
	}
	return counts, nil
}

func countJobs(ctx context.Context, db querier) (map[string]int64, error) {
	rows, err := db.Query(ctx, "SELECT status, count(*) FROM app.jobs GROUP BY status")
	if err != nil {
		return nil, fmt.Errorf("count the jobs: %w", err)
	}
	counts := map[string]int64{}
	var (
		status string
		n      int64
	)
	if _, err := pgx.ForEachRow(rows, []any{&status, &n}, func() error { counts[status] = n; return nil }); err != nil {
		return nil, fmt.Errorf("count the jobs: %w", err)
	}
	return counts, nil
}

// readLines reads a small file of the backup, line by line.
func (s *Source) readLines(name string) ([]string, error) {
	f, err := s.root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open %s of the backup: %w", name, err)
	}
	defer f.Close()
	var lines []string
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		lines = append(lines, scan.Text())
	}
	return lines, scan.Err()
}
