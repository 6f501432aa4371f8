package recovery

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	iofs "io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"glovebox/system/server/internal/storage/fs"
)

// CheckOptions say how closely to look.
type CheckOptions struct {
	Pool    *pgxpool.Pool // role glovebox_backup
	Storage *fs.Store
	// Hash reads every file and compares its digest; without it only what the file
	// system says is looked at.
	Hash bool
	// OrphanAge is the age below which a file that no row names may be on its way
	// into a row; TemporaryAge the same for a body on its way in.
	OrphanAge    time.Duration
	TemporaryAge time.Duration
	// Overdue is how long after its end a lease is late to be taken back.
	Overdue time.Duration
	// Mend, where not nil, is offered each mismatch before it is reported and tells
	// whether it is one no more.
	Mend func(context.Context, Finding) (bool, error)
	// Found is told each mismatch as it is found.
	Found    func(Finding)
	Progress func(Progress)
}

// Summary counts what was looked at.
type Summary struct {
	Jobs      map[string]int64 `json:"jobs"`  // of each status
	Named     int64            `json:"named"` // files that rows name
	Bytes     int64            `json:"bytes"` // of them, as their rows say
	Hashed    int64            `json:"hashed"`
	Stored    int64            `json:"stored"` // entries below the storage root
	Findings  map[Kind]int64   `json:"findings"`
	Remaining int64            `json:"remaining"` // findings that were not mended
}

// page is how many rows or files are looked at together; memory is bounded by it.
const page = 500

// check is one run.
type check struct {
	CheckOptions
	summary Summary
}

// Check compares rows with files, files with rows, and rows with one another. The
// system may run meanwhile: what differs is looked at again before it is reported,
// because a row may have gone on between two looks.
func Check(ctx context.Context, o CheckOptions) (Summary, error) {
	c := &check{CheckOptions: o, summary: Summary{Findings: map[Kind]int64{}}}
	err := c.all(ctx)
	return c.summary, err
}

func (c *check) all(ctx context.Context) (err error) {
	if c.summary.Jobs, err = countJobs(ctx, c.Pool); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{c.rows, c.files, c.contradictions} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *check) report(ctx context.Context, f Finding) error {
	c.summary.Findings[f.Kind]++
	if c.Mend != nil {
		mended, err := c.Mend(ctx, f)
		if err != nil {
			return fmt.Errorf("mend %s: %w", f.Subject, err)
		}
		f.Mended = mended
	}
	if !f.Mended {
		c.summary.Remaining++
	}
	c.Found(f)
	return nil
}

// named is a file that a row names.
type named struct {
	Entry
	job    string
	result bool
}

// namedPageSQL is namedSQL by pages, with the job beside each file.
const namedPageSQL = `
	SELECT key, size, sum, job, result FROM (
		SELECT v.storage_key AS key, v.size, v.sha256 AS sum, coalesce(j.id::text, '') AS job, false AS result
		FROM app.asset_versions v LEFT JOIN app.jobs j ON j.asset_id = v.asset_id AND j.asset_version = v.version
		WHERE v.purged_at IS NULL AND v.storage_key COLLATE "C" > $1
		UNION ALL
		SELECT j.result_key, j.result_size, j.result_sha256, j.id::text, true
		FROM app.jobs j WHERE j.result_key IS NOT NULL AND j.purged_at IS NULL AND j.result_key COLLATE "C" > $1) AS named
	ORDER BY key COLLATE "C" LIMIT $2`

func (c *check) namedPage(ctx context.Context, after string) ([]named, error) {
	rows, err := c.Pool.Query(ctx, namedPageSQL, after, page)
	if err != nil {
		return nil, fmt.Errorf("list the named files: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (n named, err error) {
		var sum []byte
		err = row.Scan(&n.Key, &n.Size, &sum, &n.job, &n.result)
		n.SHA256 = hex.EncodeToString(sum)
		return n, err
	})
	if err != nil {
		return nil, fmt.Errorf("list the named files: %w", err)
	}
	return list, nil
}

// rows looks at each file that a row names.
func (c *check) rows(ctx context.Context) error {
	for after := ""; ; {
		list, err := c.namedPage(ctx, after)
		if err != nil {
			return err
		}
		for _, n := range list {
			if err := c.row(ctx, n); err != nil {
				return err
			}
			after = n.Key
		}
		if len(list) < page {
			return nil
		}
	}
}

func (c *check) row(ctx context.Context, n named) error {
	c.summary.Named++
	c.summary.Bytes += n.Size
	kind, detail, err := difference(ctx, c.Storage, n.Entry, c.Hash)
	if errors.Is(err, iofs.ErrPermission) {
		kind, detail, err = Unreadable, "this user may not read it", nil
	}
	if err != nil {
		return fmt.Errorf("look at the file of %s: %w", n.Key, err)
	}
	if c.Hash && kind != MissingFile && kind != WrongSize {
		c.summary.Hashed++
	}
	if kind != "" {
		// The row first, then the file: retention may have come between.
		still, err := c.named(ctx, n.Key)
		if err != nil || !still {
			return err
		}
		what := "the input"
		if n.result {
			what = "the result"
		}
		f := found(kind, n.Key, n.job, fmt.Sprintf("%s of the job: %s", what, detail))
		f.result = n.result
		if err := c.report(ctx, f); err != nil {
			return err
		}
	}
	c.Progress(Progress{Stage: "comparing rows with files", Files: c.summary.Named, Bytes: c.summary.Bytes})
	return nil
}

// named reports whether a row names the key now.
func (c *check) named(ctx context.Context, key string) (bool, error) {
	unnamed, err := c.unnamed(ctx, []string{key})
	return len(unnamed) == 0, err
}

// unnamed returns those of keys that no row names now.
func (c *check) unnamed(ctx context.Context, keys []string) ([]string, error) {
	rows, err := c.Pool.Query(ctx, `
		SELECT k.key FROM unnest($1::text[]) AS k (key)
		WHERE NOT EXISTS (SELECT FROM app.asset_versions v WHERE v.storage_key = k.key AND v.purged_at IS NULL)
		  AND NOT EXISTS (SELECT FROM app.jobs j WHERE j.result_key = k.key AND j.purged_at IS NULL)`, keys)
	if err != nil {
		return nil, fmt.Errorf("look which files no row names: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look which files no row names: %w", err)
	}
	return list, nil
}

// files looks at each entry below the storage root.
func (c *check) files(ctx context.Context) error {
	now := time.Now() // of the file system: ages of files are its own times
	waiting := make([]fs.Facts, 0, page)
	err := c.Storage.Walk(ctx, func(f fs.Facts) error {
		c.summary.Stored++
		switch {
		case f.Temporary():
			if age := now.Sub(f.Modified); age >= c.TemporaryAge {
				return c.report(ctx, found(Temporary, f.Place, "", fmt.Sprintf("a body on its way in, %d bytes, not written to for %s", f.Size, age.Round(time.Second))))
			}
			return nil
		case f.Key == "":
			return c.report(ctx, found(Foreign, f.Place, "", fmt.Sprintf("%s, %d bytes", f.Mode, f.Size)))
		}
		waiting = append(waiting, f)
		if len(waiting) < page {
			return nil
		}
		defer func() { waiting = waiting[:0] }()
		return c.stored(ctx, waiting, now)
	})
	if err != nil {
		return err
	}
	return c.stored(ctx, waiting, now)
}

func (c *check) stored(ctx context.Context, list []fs.Facts, now time.Time) error {
	keys := make([]string, len(list))
	for i, f := range list {
		keys[i] = f.Key
	}
	unnamed, err := c.unnamed(ctx, keys)
	if err != nil {
		return err
	}
	orphans := make(map[string]bool, len(unnamed))
	for _, key := range unnamed {
		orphans[key] = true
	}
	for _, f := range list {
		finding, wrong := c.judge(f, orphans[f.Key], now)
		if !wrong {
			continue
		}
		if err := c.report(ctx, finding); err != nil {
			return err
		}
	}
	return nil
}

// judge says what is wrong with one stored object, without looking at its bytes.
func (c *check) judge(f fs.Facts, orphan bool, now time.Time) (Finding, bool) {
	switch age := now.Sub(f.Modified); {
	case orphan:
		return found(Orphan, f.Key, "", fmt.Sprintf("no row names it, %d bytes, %s old", f.Size, age.Round(time.Second))), age >= c.OrphanAge
	case !f.Mode.IsRegular():
		return Finding{}, false // said with the row that names it
	case f.Mode != fs.FileMode:
		return found(WrongMode, f.Key, "", fmt.Sprintf("its mode is %s, wanted %s", f.Mode, fs.FileMode)), true
	case f.Owner != c.Storage.Owner():
		return found(WrongOwner, f.Key, "", fmt.Sprintf("it belongs to uid %d, the root to %d", f.Owner, c.Storage.Owner())), true
	}
	return Finding{}, false
}
