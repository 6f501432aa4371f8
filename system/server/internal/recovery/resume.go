package recovery

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrNotPaused is Resume's answer where there is nothing to resume.
var ErrNotPaused = errors.New("the installation is not paused")

// Resume ends the pause after a restore: from its commit on jobs are claimed and
// taken in, and the sweeper deletes. A restore that broke off cannot be resumed.
// pool logs in as glovebox_operator. It returns the jobs that now go on.
func Resume(ctx context.Context, pool *pgxpool.Pool) (jobs map[string]int64, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var paused, broken int
		err := tx.QueryRow(ctx, `
			SELECT count(*) FILTER (WHERE resumed_at IS NULL), count(*) FILTER (WHERE completed_at IS NULL) FROM app.restores`).Scan(&paused, &broken)
		if err != nil {
			return fmt.Errorf("look whether the installation is paused: %w", err)
		}
		if broken > 0 {
			return errors.New("the restore has not come to its end; wait for it, or empty the database and storage.root and restore again")
		}
		if paused == 0 {
			return ErrNotPaused
		}
		if jobs, err = countJobs(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE app.restores SET resumed_at = now() WHERE resumed_at IS NULL"); err != nil {
			return fmt.Errorf("resume: %w", err)
		}
		return nil
	})
	return jobs, err
}
