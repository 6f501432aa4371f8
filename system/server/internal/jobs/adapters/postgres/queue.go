package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"glovebox/system/server/internal/jobs/domain"
)

// Expired implements jobs.Queue.
func (s *Store) Expired(ctx context.Context, after string, limit int) ([]string, error) {
	if after == "" {
		after = uuid.Nil.String()
	}
	rows, err := s.pool.Query(ctx, `
		SELECT j.id FROM app.jobs j
		WHERE j.status = 'processing' AND j.lease_expires_at <= clock_timestamp() AND j.id > $1
		ORDER BY j.id LIMIT $2`, after, limit)
	if err != nil {
		return nil, fault("look for leases that ran out", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return ids, fault("look for leases that ran out", err)
}

// AnsweredFailure implements jobs.Queue.
func (s *Store) AnsweredFailure(ctx context.Context, fence domain.Fence, code string) (domain.Status, bool, error) {
	if !isID(fence.JobID) {
		return "", false, nil
	}
	var status domain.Status
	err := s.pool.QueryRow(ctx, `
		SELECT e.to_status FROM app.job_events e
		WHERE e.job_id = $1 AND e.fencing_token = $2 AND e.from_status = 'processing'
		  AND e.worker_id = $3 AND e.error_code = $4 AND e.cause IN ('failed', 'retry', 'handed_back')`,
		fence.JobID, fence.FencingToken, fence.WorkerID, code).Scan(&status)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fault("look for an earlier failure report", err)
	}
	return status, true, nil
}

// Depth is what waits and runs now.
type Depth struct {
	Pending    int64
	Processing int64
	// OldestPending is how long the oldest waiting job has waited, zero without one.
	OldestPending time.Duration
}

// Depth returns the queue's depth, from the partial indexes: finished jobs cost
// nothing.
func (s *Store) Depth(ctx context.Context) (Depth, error) {
	var (
		d       Depth
		seconds float64
	)
	err := s.pool.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE status = 'pending'), count(*) FILTER (WHERE status = 'processing'),
		       coalesce(extract(epoch FROM clock_timestamp() - min(created_at) FILTER (WHERE status = 'pending')), 0)::float8
		FROM app.jobs WHERE status IN ('pending', 'processing')`).Scan(&d.Pending, &d.Processing, &seconds)
	d.OldestPending = time.Duration(seconds * float64(time.Second))
	return d, fault("count the queue", err)
}

// DeadRows returns how many rows of the jobs table are dead and not yet cleared
// away, as the database counts them. It grows without end while some session,
// whoever's, holds an old snapshot open: then each claim walks over them.
func (s *Store) DeadRows(ctx context.Context) (int64, error) {
	var rows int64
	err := s.pool.QueryRow(ctx, "SELECT coalesce(pg_stat_get_dead_tuples('app.jobs'::regclass), 0)").Scan(&rows)
	return rows, fault("count dead rows", err)
}
