package recovery

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Verify is Check with every file hashed, and, where source is not nil, the
// backup compared with what stands here: each file that it names, by size and
// SHA-256, and, while the installation is still paused, the number of rows of each
// table, and roles, rights and settings line by line.
func Verify(ctx context.Context, o CheckOptions, source *Source) (Summary, error) {
	o.Hash = true
	c := &check{CheckOptions: o, summary: Summary{Findings: map[Kind]int64{}}}
	if err := c.all(ctx); err != nil {
		return c.summary, err
	}
	if source == nil {
		return c.summary, nil
	}
	if err := c.compareEntries(ctx, source); err != nil {
		return c.summary, err
	}
	var paused bool
	if err := c.Pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM app.restores WHERE resumed_at IS NULL AND backup_id = $1)", source.Manifest.ID).Scan(&paused); err != nil {
		return c.summary, fmt.Errorf("look whether the installation is paused: %w", err)
	}
	if !paused {
		return c.summary, nil // rows go on: their number says nothing any more
	}
	if err := c.compareCounts(ctx, source.Manifest); err != nil {
		return c.summary, err
	}
	return c.summary, c.compareRights(ctx, source)
}

// compareEntries looks for a row with the same facts for each file of the backup.
func (c *check) compareEntries(ctx context.Context, source *Source) error {
	batch := make(map[string]Entry, page)
	flush := func() error {
		defer clear(batch)
		return c.compareBatch(ctx, batch)
	}
	err := source.Entries(func(e Entry) error {
		batch[e.Key] = e
		if len(batch) < page {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

func (c *check) compareBatch(ctx context.Context, batch map[string]Entry) error {
	keys := make([]string, 0, len(batch))
	for key := range batch {
		keys = append(keys, key)
	}
	// What retention has taken since is no loss, so purged rows count too.
	rows, err := c.Pool.Query(ctx, `
		SELECT v.storage_key, v.size, v.sha256 FROM app.asset_versions v WHERE v.storage_key = ANY ($1)
		UNION ALL
		SELECT j.result_key, j.result_size, j.result_sha256 FROM app.jobs j WHERE j.result_key = ANY ($1)`, keys)
	if err != nil {
		return fmt.Errorf("look for the backup's files: %w", err)
	}
	var (
		e    Entry
		sum  []byte
		here = make(map[string]Entry, len(batch))
	)
	_, err = pgx.ForEachRow(rows, []any{&e.Key, &e.Size, &sum}, func() error {
		here[e.Key] = Entry{Key: e.Key, Size: e.Size, SHA256: hex.EncodeToString(sum)}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for the backup's files: %w", err)
	}
	for key, want := range batch {
		have, ok := here[key]
		detail := ""
		switch {
		case !ok:
			detail = "the backup has it, and no row here names it"
		case have.Size != want.Size || have.SHA256 != want.SHA256:
			detail = fmt.Sprintf("the backup has %d bytes with SHA-256 %s, the row here says %d and %s", want.Size, want.SHA256, have.Size, have.SHA256)
		default:
			continue
		}
		if err := c.report(ctx, found(NotRestored, key, "", detail)); err != nil {
			return err
		}
	}
	return nil
}

// changed are the tables that a restore itself changes.
var changed = map[string]bool{"restores": true, "uploads_in_flight": true, "idempotency_keys": true}

func (c *check) compareCounts(ctx context.Context, m Manifest) error {
	counts, err := countRows(ctx, c.Pool)
	if err != nil {
		return err
	}
	var takenBack int64
	if err := c.Pool.QueryRow(ctx, "SELECT coalesce(sum(jobs_taken_back), 0) FROM app.restores WHERE backup_id = $1 AND resumed_at IS NULL", m.ID).Scan(&takenBack); err != nil {
		return fmt.Errorf("read the restore's row: %w", err)
	}
	counts["job_events"] -= takenBack // one line of history each
	for _, table := range tables(m.Rows, counts) {
		if have, want := counts[table], m.Rows[table]; have != want && !changed[table] {
			if err := c.report(ctx, found(CountDiffers, "app."+table, "", fmt.Sprintf("%d rows, the backup had %d", have, want))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *check) compareRights(ctx context.Context, source *Source) error {
	before, err := source.readLines(rightsName)
	if err != nil {
		return err
	}
	after, err := rights(ctx, c.Pool)
	if err != nil {
		return err
	}
	for _, line := range differing(before, after) {
		if err := c.report(ctx, found(RightsDiffer, "roles and rights", "", line)); err != nil {
			return err
		}
	}
	return nil
}
