package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// GiveUp marks a completed job whose result is lost as one that retention has
// taken, together with its input: its owner is told 410 instead of an internal
// error, and what is left of its files goes as orphans. It does what Purge does, to
// one job before its time; done is false where the job is not completed or already
// marked.
func (l *Ledger) GiveUp(ctx context.Context, jobID string) (done bool, err error) {
	rows, err := l.pool.Query(ctx, `
		WITH lost AS MATERIALIZED (
			SELECT j.id, j.asset_id, j.asset_version FROM app.jobs j
			WHERE j.id = $1 AND j.status = 'completed' AND j.purged_at IS NULL FOR UPDATE
		), marked AS (
			UPDATE app.jobs j SET purged_at = now() FROM lost WHERE j.id = lost.id RETURNING j.id
		), inputs AS (
			UPDATE app.asset_versions v SET purged_at = now() FROM lost
			WHERE v.asset_id = lost.asset_id AND v.version = lost.asset_version AND v.purged_at IS NULL RETURNING v.asset_id
		)
		SELECT id FROM marked`, jobID)
	if err != nil {
		return false, fault("give up a lost result", err)
	}
	marked, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return len(marked) == 1, fault("give up a lost result", err)
}
