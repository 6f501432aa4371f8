package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
)

// maxTurns bounds how often a change is decided again because another
// transaction came first. Each turn means that somebody else got on.
const maxTurns = 20

// Transition implements jobs.Store. Nothing is locked while Decide thinks: the
// job is read, judged, and changed only if it is still what was read. For work
// that a worker's lease covers, the lease must live at the instant of the change
// too, not only at the reading.
func (s *Store) Transition(ctx context.Context, change jobs.Change) (domain.Job, error) {
	for range maxTurns {
		record, err := s.Look(ctx, change.JobID)
		if err != nil {
			return domain.Job{}, err
		}
		next, event, err := change.Decide(record.Job, record.Now)
		if err != nil {
			return record.Job, err
		}
		if event == nil && next == record.Job {
			return next, nil
		}
		changed, err := s.change(ctx, change, record.Job, next, event)
		if err != nil {
			return domain.Job{}, err
		}
		if changed {
			return next, nil
		}
		if change.SkipLocked {
			return record.Job, domain.Refuse(domain.CodeConflict, "another transaction holds the job")
		}
	}
	return domain.Job{}, domain.Refuse(domain.CodeUnavailable, "the job is changed by others all the time; try again later")
}

// change applies next if the job is still what was seen; false when it is not.
func (s *Store) change(ctx context.Context, change jobs.Change, seen, next domain.Job, event *domain.Event) (changed bool, err error) {
	if change.Pin == nil {
		changed, err = apply(ctx, s.pool, change.SkipLocked, seen, next, event)
		return changed, fault("change the job", err)
	}
	err = s.inTx(ctx, "change the job", func(tx pgx.Tx) error {
		if change.StoredBytes > 0 && next.Result != nil && seen.Result == nil {
			if err := s.resultFits(ctx, tx, seen.UserID, next.Result.Size, change.StoredBytes); err != nil {
				return err
			}
		}
		changed, err = apply(ctx, tx, change.SkipLocked, seen, next, event)
		if err != nil || !changed {
			return err
		}
		return hold(ctx, tx, *change.Pin)
	})
	return changed && err == nil, err
}

// The conditional part, the same for each change. $1 to $5 are what was seen, $6
// whether the lease must live now.
const (
	unchanged = `
		WHERE j.id = $1 AND j.status = $2 AND j.fencing_token = $3
		  AND j.worker_id IS NOT DISTINCT FROM $4 AND j.lease_expires_at IS NOT DISTINCT FROM $5
		  AND (NOT $6 OR j.lease_expires_at > clock_timestamp())`

	renewSQL = `UPDATE app.jobs j SET lease_expires_at = $7, heartbeat_at = $8` + unchanged

	transitionSet = `
		UPDATE app.jobs j SET
			status = $7, attempt = $8, hand_backs = $9, worker_id = $10, lease_expires_at = $11, heartbeat_at = $12,
			next_attempt_at = $13, error_code = $14, error_retryable = $15, error_detail = $16,
			result_key = $17, result_size = $18, result_sha256 = $19, result_worker_id = $20, result_fencing_token = $21,
			updated_at = $22, terminal_at = $23`

	// The event is written beside the change, or neither is; a pending job is
	// announced by the commit itself.
	transitionEvent = `
		RETURNING j.id, j.status
	), recorded AS (
		INSERT INTO app.job_events (job_id, from_status, to_status, cause, attempt, fencing_token, worker_id, error_code, correlation_id, provenance)
		SELECT c.id, $2, $7, $24, $25::int, $26::bigint, $27, $28, $29, $30 FROM changed c
	)
	SELECT c.id, CASE c.status WHEN 'pending' THEN pg_notify('` + channel + `', '') END FROM changed c`

	transitionSQL = `WITH changed AS (` + transitionSet + unchanged + transitionEvent

	transitionFreeSQL = `
	WITH free AS MATERIALIZED (
		SELECT f.id FROM app.jobs f WHERE f.id = $1 FOR UPDATE SKIP LOCKED
	), changed AS (` + transitionSet + ` FROM free` + unchanged + ` AND j.id = free.id` + transitionEvent
)

func apply(ctx context.Context, db querier, skipLocked bool, seen, next domain.Job, event *domain.Event) (bool, error) {
	args := []any{seen.ID, seen.Status, seen.FencingToken, orNull(seen.WorkerID), nullTime(seen.LeaseExpires), needsLease(event)}
	if event == nil {
		tag, err := db.Exec(ctx, renewSQL, append(args, next.LeaseExpires, next.HeartbeatAt)...)
		return tag.RowsAffected() == 1, err
	}
	var result domain.Result
	var sum []byte
	if next.Result != nil {
		result = *next.Result
		sum = result.SHA256[:]
	}
	var retryable *bool
	if next.ErrorCode != "" {
		retryable = &next.ErrorRetryable
	}
	var size, token *int64
	if next.Result != nil {
		size, token = &result.Size, &result.FencingToken
	}
	args = append(args,
		next.Status, next.Attempt, next.HandBacks, orNull(next.WorkerID), nullTime(next.LeaseExpires), nullTime(next.HeartbeatAt),
		next.NextAttemptAt, orNull(string(next.ErrorCode)), retryable, orNull(next.ErrorDetail),
		orNull(result.StorageKey), size, sum, orNull(result.WorkerID), token,
		next.UpdatedAt, nullTime(next.TerminalAt),
		event.Cause, event.Attempt, event.FencingToken, orNull(event.WorkerID), orNull(string(event.ErrorCode)), seen.CorrelationID,
		orNull(string(event.Provenance)))
	sql := transitionSQL
	if skipLocked {
		sql = transitionFreeSQL
	}
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return false, err
	}
	rows.Close()
	return rows.CommandTag().RowsAffected() == 1, rows.Err()
}

// needsLease reports whether the change is a worker's, which counts only while
// its lease lives. What the clock or an inspection does needs none.
func needsLease(event *domain.Event) bool {
	if event == nil {
		return true
	}
	switch event.Cause {
	case domain.CauseFinished, domain.CauseFailed, domain.CauseRetry, domain.CauseHandedBack:
		return true
	}
	return false
}

func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// hold keeps the sweeper off the pinned key to the end of the transaction, and
// asks under that hold whether the bytes are still there. The sweeper takes the
// same lock alone, looks again for a row, and removes only then (STO-03): either
// it sees the row, or this sees the missing file.
func hold(ctx context.Context, tx pgx.Tx, pin jobs.Pin) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock_shared("+keyLock+")", pin.Key); err != nil {
		return err
	}
	if err := pin.Exists(ctx); err != nil {
		return &domain.Error{Code: domain.CodeUnavailable, Message: "the stored bytes have gone; send them again", Cause: err}
	}
	return nil
}

// keyLock is the advisory lock of the storage key $1.
const keyLock = "hashtextextended($1, 20260101)"
