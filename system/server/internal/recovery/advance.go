package recovery

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// tokensASecond is how far the fencing tokens of one restore lie from those of
// another that began a second later. A job is claimed at most 110 times in its
// life (100 attempts, 10 hand-backs), so two restores, of the same backup even,
// never give out the same token; the numbers stay exact in a JSON reader's double
// until the year 280000.
const tokensASecond = 1024

// advance makes what was restored safe to go on with, in one transaction that is
// also the restore's end: without it `resume` refuses.
//
// The lost system may have given out tokens after the backup, and a worker that
// holds one may live. Every job that has not ended therefore goes on from a base
// above all of them. A job that was being processed is taken back as if its lease
// had run out, but a restore never takes a job's last attempt away: that it was
// running then is no fault of its own.
func (r *restore) advance(ctx context.Context) error {
	return pgx.BeginFunc(ctx, r.conn, func(tx pgx.Tx) error {
		if err := r.compareCounts(ctx, tx); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, `
			SELECT greatest(
				extract(epoch FROM clock_timestamp())::bigint * $1,
				(SELECT coalesce(max(token_base), 0) FROM app.restores) + $1,
				(SELECT coalesce(max(fencing_token), 0) FROM app.jobs WHERE status IN ('pending', 'processing')) + $1)`, int64(tokensASecond)).Scan(&r.report.TokenBase)
		if err != nil {
			return fmt.Errorf("find the base of the fencing tokens: %w", err)
		}
		for _, step := range []struct {
			what, sql string
			args      []any
			count     *int64
		}{
			{"record the jobs taken back", `
				INSERT INTO app.job_events (job_id, from_status, to_status, cause, attempt, fencing_token, worker_id, error_code, correlation_id)
				SELECT id, 'processing', 'pending', 'restored', attempt, fencing_token, worker_id, 'worker_lost', correlation_id
				FROM app.jobs WHERE status = 'processing'`, nil, nil},
			{"take back the jobs that were being processed", `
				UPDATE app.jobs SET status = 'pending', attempt = least(attempt, max_attempts - 1), worker_id = NULL, lease_expires_at = NULL, heartbeat_at = NULL,
					next_attempt_at = now(), error_code = 'worker_lost', error_retryable = true, error_detail = NULL, updated_at = now()
				WHERE status = 'processing'`, nil, &r.report.TakenBack},
			{"raise the fencing tokens", "UPDATE app.jobs SET fencing_token = $1 WHERE status = 'pending'", []any{r.report.TokenBase}, nil},
			{"end the uploads that were under way", "DELETE FROM app.uploads_in_flight", nil, nil},
			{"free the keys that they held", "DELETE FROM app.idempotency_keys WHERE job_id IS NULL", nil, nil},
			{"forget a restore that the backup caught half-way", "DELETE FROM app.restores WHERE completed_at IS NULL AND id <> $1", []any{r.report.RestoreID}, nil},
			{"revoke the tokens", "UPDATE app.tokens SET revoked_at = now() WHERE revoked_at IS NULL AND NOT $1", []any{r.KeepTokens}, &r.report.TokensRevoked},
		} {
			tag, err := tx.Exec(ctx, step.sql, step.args...)
			if err != nil {
				return fmt.Errorf("%s: %w", step.what, err)
			}
			if step.count != nil {
				*step.count = tag.RowsAffected()
			}
		}
		_, err = tx.Exec(ctx, "UPDATE app.restores SET completed_at = clock_timestamp(), token_base = $2, jobs_taken_back = $3 WHERE id = $1",
			r.report.RestoreID, r.report.TokenBase, r.report.TakenBack)
		if err != nil {
			return fmt.Errorf("complete the restore: %w", err)
		}
		return nil
	})
}

// compareCounts holds what was loaded to the manifest, before anything changes.
func (r *restore) compareCounts(ctx context.Context, tx pgx.Tx) error {
	counts, err := countRows(ctx, tx)
	if err != nil {
		return err
	}
	counts["restores"]-- // this one
	for _, table := range tables(r.Source.Manifest.Rows, counts) {
		if have, want := counts[table], r.Source.Manifest.Rows[table]; have != want {
			return fmt.Errorf("table app.%s has %d rows after the restore, the backup had %d", table, have, want)
		}
	}
	r.report.Rows = counts
	return nil
}

// tables returns the names that either map has, in order.
func tables(a, b map[string]int64) []string {
	var names []string
	for _, m := range []map[string]int64{a, b} {
		for name := range m {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
