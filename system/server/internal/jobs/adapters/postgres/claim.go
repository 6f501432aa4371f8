package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
)

// claimSQL is the whole claim: the first free job of the pending index, locked,
// changed and recorded in one statement, which is one transaction (JOB-02). A job
// that another claim holds is passed, not waited for. A request that led to an
// assignment before takes nothing, and nobody does while the installation is paused.
// Nor does a worker that was taken off the list while its claim waited (MTL-02).
const claimSQL = `
	WITH candidate AS MATERIALIZED (
		SELECT p.id FROM app.jobs p
		WHERE p.status = 'pending' AND p.next_attempt_at <= now() AND NOT ` + paused + `
		  AND NOT EXISTS (SELECT FROM app.job_events e WHERE e.worker_id = $1 AND e.request_id = $2 AND e.cause = 'claimed')
		  AND NOT EXISTS (SELECT FROM app.workers w WHERE w.id = $1 AND NOT w.allowed)
		ORDER BY p.fair_key, p.id
		LIMIT 1 FOR UPDATE SKIP LOCKED
	), claimed AS (
		UPDATE app.jobs j SET
			status = 'processing', attempt = j.attempt + 1, fencing_token = j.fencing_token + 1, worker_id = $1,
			lease_expires_at = now() + make_interval(secs => $3), heartbeat_at = now(), updated_at = now()
		FROM candidate c
		WHERE j.id = c.id AND j.status = 'pending'
		RETURNING j.*
	), recorded AS (
		INSERT INTO app.job_events (job_id, from_status, to_status, cause, attempt, fencing_token, worker_id, request_id, correlation_id)
		SELECT c.id, 'pending', 'processing', 'claimed', c.attempt, c.fencing_token, c.worker_id, $2, c.correlation_id FROM claimed c
	)
	SELECT ` + recordColumns + ` FROM claimed j` + recordJoin

// Claim implements jobs.Queue.
func (s *Store) Claim(ctx context.Context, claim jobs.Claim) (jobs.Record, bool, error) {
	record, err := scanRecord(s.pool.QueryRow(ctx, claimSQL, claim.WorkerID, claim.RequestID, claim.Lease.Seconds()))
	if err == nil {
		return record, true, nil
	}
	// No row: nothing to do, or this request was answered before. The index on
	// requests refuses the second of two that came at the same instant.
	if errors.Is(err, pgx.ErrNoRows) || violates(err, "job_events_claim_request") {
		return s.claimedBefore(ctx, claim)
	}
	return jobs.Record{}, false, fault("claim a job", err)
}

// claimedBefore returns what the same request led to before (JOB-04).
func (s *Store) claimedBefore(ctx context.Context, claim jobs.Claim) (jobs.Record, bool, error) {
	var fence domain.Fence
	err := s.pool.QueryRow(ctx, `
		SELECT e.job_id, e.worker_id, e.fencing_token FROM app.job_events e
		WHERE e.worker_id = $1 AND e.request_id = $2 AND e.cause = 'claimed'`, claim.WorkerID, claim.RequestID).
		Scan(&fence.JobID, &fence.WorkerID, &fence.FencingToken)
	if errors.Is(err, pgx.ErrNoRows) {
		return jobs.Record{}, false, nil
	}
	if err != nil {
		return jobs.Record{}, false, fault("look for an earlier claim", err)
	}
	record, err := s.Look(ctx, fence.JobID)
	if err != nil {
		return jobs.Record{}, false, err
	}
	if !record.Job.HoldsLease(fence, record.Now) {
		return jobs.Record{}, false, domain.Refuse(domain.CodeConflict, "the assignment of this request is over; claim with a new request id")
	}
	return record, true, nil
}
