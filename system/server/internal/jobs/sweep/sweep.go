// Package sweep removes what is over: bytes past their retention, files that no
// row names, temporary files of dead servers, and rows that only said something
// for a while. It runs as a process of its own, whose database role can mark and
// delete but moves no job, and which alone may delete from storage.
//
// Two rules keep it from ever taking what somebody needs. Bytes past retention go
// after their row says so in a committed transaction, never before. A file that
// no row names goes only when it is old, and when a second look, under the lock
// that a committing server holds on the same key, still finds no row (STO-03).
//
// And no file goes while a backup copies what its snapshot names, or while the
// installation is paused after a restore.
package sweep

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"glovebox/system/platform/clock"
	"glovebox/system/server/internal/jobs/crashpoint"
)

// Ledger is the database as the sweeper may use it.
type Ledger interface {
	// Purge marks at most limit jobs that ended longer ago than retention as
	// purged, with their inputs, and returns the keys whose bytes may go. An input
	// that a live job needs is never among them (STO-05).
	Purge(ctx context.Context, retention time.Duration, limit int) (keys []string, jobs int, err error)
	// Unnamed returns those of keys that no row names at this moment.
	Unnamed(ctx context.Context, keys []string) ([]string, error)
	// HoldUnnamed takes the key's lock alone, looks again, and calls remove if
	// still no row names the key; removed tells whether it did. It does not wait for
	// a lock that a committing server holds.
	HoldUnnamed(ctx context.Context, key string, remove func(context.Context) error) (removed bool, err error)
	// DeleteOver deletes at most limit rows of each kind that have lost their
	// meaning, and returns how many in all.
	DeleteOver(ctx context.Context, limit int) (rows int64, err error)
	// DeleteRecords deletes the rows of at most limit ended jobs whose bytes have been
	// gone for longer than age, with their history, and returns how many jobs.
	DeleteRecords(ctx context.Context, age time.Duration, limit int) (jobs int, err error)
	// WhileDeletable calls do and keeps backups from beginning until it returns. It
	// does not call it while one is being taken or while the installation is paused;
	// heldBack says which.
	WhileDeletable(ctx context.Context, do func(context.Context) error) (heldBack string, err error)
}

// Storage is the place of the bytes as the sweeper may use it.
type Storage interface {
	// List returns at most limit objects after the cursor, and the next cursor,
	// "" after the last.
	List(ctx context.Context, after string, limit int) (page []Object, next string, err error)
	// Remove deletes an object; one that is not there is no error, and one that
	// somebody is reading is read to its end.
	Remove(ctx context.Context, key string) error
	// SweepStaged removes temporary files that nobody has written to for age.
	SweepStaged(ctx context.Context, age time.Duration) (removed int, err error)
}

// Object is a stored file.
type Object struct {
	Key      string
	Modified time.Time
}

// Settings of a Sweeper.
type Settings struct {
	Retention time.Duration
	Records   time.Duration // after the bytes have gone; zero keeps records for ever
	OrphanAge time.Duration
	StagedAge time.Duration
	Page      int
	Log       *slog.Logger
}

// Report counts what one round removed.
type Report struct {
	JobsPurged     int   `json:"jobs_purged"`
	ObjectsRemoved int   `json:"objects_removed"`
	OrphansRemoved int   `json:"orphans_removed"`
	StagedRemoved  int   `json:"staged_removed"`
	RowsDeleted    int64 `json:"rows_deleted"`
	RecordsDeleted int   `json:"records_deleted"` // of jobs, each with its history
	// HeldBack says why nothing of files and records was removed, "" where it was.
	HeldBack string `json:"held_back,omitempty"`
}

// Sweeper removes what is over. Several may run at once.
type Sweeper struct {
	ledger   Ledger
	storage  Storage
	settings Settings
	now      func() time.Time
}

// New returns a Sweeper.
func New(ledger Ledger, storage Storage, settings Settings) *Sweeper {
	return &Sweeper{ledger: ledger, storage: storage, settings: settings, now: clock.Now}
}

// Round does everything once. A step that fails does not keep the others from
// being done; the first error is returned.
func (s *Sweeper) Round(ctx context.Context) (Report, error) {
	var report Report
	heldBack, err := s.ledger.WhileDeletable(ctx, func(ctx context.Context) error {
		return each(ctx, &report, []step{
			{"purge what is past retention", s.purge},
			{"remove orphans", s.orphans},
			{"delete the records of old jobs", s.records},
		})
	})
	report.HeldBack = heldBack
	rest := each(ctx, &report, []step{
		{"remove temporary files", s.staged},
		{"delete rows", s.rows},
	})
	if err == nil {
		err = rest
	}
	return report, err
}

// step is one part of a round.
type step struct {
	name string
	do   func(context.Context, *Report) error
}

// each does every step and returns the first error.
func each(ctx context.Context, report *Report, steps []step) (first error) {
	for _, step := range steps {
		if err := step.do(ctx, report); err != nil && first == nil {
			first = fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return first
}

func (s *Sweeper) purge(ctx context.Context, report *Report) error {
	for {
		keys, jobs, err := s.ledger.Purge(ctx, s.settings.Retention, s.settings.Page)
		if err != nil {
			return err
		}
		crashpoint.Reached(crashpoint.SweepMarked)
		for _, key := range keys {
			if err := s.storage.Remove(ctx, key); err != nil {
				return err // marked as purged: it is an orphan now, and goes as one
			}
			report.ObjectsRemoved++
		}
		report.JobsPurged += jobs
		if jobs < s.settings.Page {
			return nil
		}
	}
}

// prefixes of the keys this version knows the rows of. What is named otherwise
// may be a newer version's and is left alone.
var prefixes = []string{"input/", "result/"}

func known(key string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

func (s *Sweeper) orphans(ctx context.Context, report *Report) error {
	for after := ""; ; {
		page, next, err := s.storage.List(ctx, after, s.settings.Page)
		if err != nil {
			return err
		}
		if err := s.orphansOf(ctx, page, report); err != nil {
			return err
		}
		if next == "" {
			return nil
		}
		after = next
	}
}

func (s *Sweeper) orphansOf(ctx context.Context, page []Object, report *Report) error {
	horizon := s.now().Add(-s.settings.OrphanAge)
	var old []string
	for _, object := range page {
		if object.Modified.Before(horizon) && known(object.Key) {
			old = append(old, object.Key)
		}
	}
	if len(old) == 0 {
		return nil
	}
	unnamed, err := s.ledger.Unnamed(ctx, old)
	if err != nil {
		return err
	}
	for _, key := range unnamed {
		removed, err := s.ledger.HoldUnnamed(ctx, key, func(ctx context.Context) error {
			crashpoint.Reached(crashpoint.SweepHeld)
			return s.storage.Remove(ctx, key)
		})
		if err != nil {
			return err
		}
		if removed {
			report.OrphansRemoved++
		}
	}
	return nil
}

func (s *Sweeper) staged(ctx context.Context, report *Report) (err error) {
	report.StagedRemoved, err = s.storage.SweepStaged(ctx, s.settings.StagedAge)
	return err
}

func (s *Sweeper) rows(ctx context.Context, report *Report) error {
	for {
		rows, err := s.ledger.DeleteOver(ctx, s.settings.Page)
		report.RowsDeleted += rows
		if err != nil || rows == 0 {
			return err
		}
	}
}

// records deletes page by page, so that no transaction holds many rows.
func (s *Sweeper) records(ctx context.Context, report *Report) error {
	for s.settings.Records > 0 {
		jobs, err := s.ledger.DeleteRecords(ctx, s.settings.Records, s.settings.Page)
		report.RecordsDeleted += jobs
		if err != nil || jobs < s.settings.Page {
			return err
		}
	}
	return nil
}

// Run does a round every interval until ctx ends.
func (s *Sweeper) Run(ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		report, err := s.Round(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			s.settings.Log.ErrorContext(ctx, "a round of sweeping ended early", "error", err, "report", report)
		case report != (Report{}):
			s.settings.Log.InfoContext(ctx, "swept", "report", report)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
