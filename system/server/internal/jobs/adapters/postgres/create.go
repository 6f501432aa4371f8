package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
)

// Create implements jobs.Store.
func (s *Store) Create(ctx context.Context, job jobs.NewJob) (jobs.Record, error) {
	var record jobs.Record
	err := s.inTx(ctx, "record the job", func(tx pgx.Tx) error {
		last, err := lockUser(ctx, tx, job.UserID)
		if err != nil {
			return err
		}
		if err := s.withinLimits(ctx, tx, job.UserID, job.UploadID, job.Limits, job.Input.Size); err != nil {
			return err
		}
		fairKey, err := nextFairKey(ctx, tx, job.UserID, last)
		if err != nil {
			return err
		}
		if err := insert(ctx, tx, job, fairKey); err != nil {
			return err
		}
		if err := answerKey(ctx, tx, job); err != nil {
			return err
		}
		if err := hold(ctx, tx, job.Pin); err != nil {
			return err
		}
		record, err = look(ctx, tx, job.ID)
		return err
	})
	return record, err
}

// lockUser serialises what counts or orders by user, and returns the user's last
// fairness key. Of the row locks of a transaction it is always the first.
func lockUser(ctx context.Context, tx pgx.Tx, userID string) (lastFairKey int64, err error) {
	const lock = "SELECT fair_key FROM app.user_counters WHERE user_id = $1 FOR UPDATE"
	err = tx.QueryRow(ctx, lock, userID).Scan(&lastFairKey)
	if !errors.Is(err, pgx.ErrNoRows) {
		return lastFairKey, err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO app.user_counters (user_id) VALUES ($1) ON CONFLICT DO NOTHING", userID); err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, lock, userID).Scan(&lastFairKey)
	return lastFairKey, err
}

// withinLimits refuses a job of size bytes beyond what the user may have: the jobs
// there are, and the uploads that have reserved their place, but for the one that
// asks. The caller holds the user's row, and the counts are new statements after
// that, so they see what every earlier holder committed (UPL-03, UPL-10). What
// results of running jobs will add is judged when they come.
func (s *Store) withinLimits(ctx context.Context, tx pgx.Tx, userID, uploadID string, limits jobs.Limits, size int64) error {
	var active int
	err := tx.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM app.jobs WHERE user_id = $1 AND status IN ('pending', 'processing'))
		     + (SELECT count(reserved_bytes) FROM app.uploads_in_flight
		        WHERE user_id = $1 AND id <> $2 AND heartbeat_at > now() - make_interval(secs => $3))`,
		userID, uploadID, s.stale.Seconds()).Scan(&active)
	if err != nil {
		return err
	}
	if active >= limits.ActiveJobs {
		return domain.Refuse(domain.CodeLimitExceeded, "you have %d jobs that are not finished, of %d allowed; wait for one to end", active, limits.ActiveJobs)
	}
	stored, err := s.storedBytes(ctx, tx, userID, uploadID)
	if err != nil {
		return err
	}
	if stored+size > limits.StoredBytes {
		return domain.Refuse(domain.CodeLimitExceeded, "this file would exceed the %d bytes that may be stored for you; they are freed when jobs expire", limits.StoredBytes)
	}
	return nil
}

// storedBytes counts what is kept for the user, and what living uploads but for
// uploadID have reserved.
func (s *Store) storedBytes(ctx context.Context, db querier, userID, uploadID string) (stored int64, err error) {
	err = db.QueryRow(ctx, `
		SELECT (SELECT coalesce(sum(input_size + coalesce(result_size, 0)), 0)::bigint FROM app.jobs WHERE user_id = $1 AND purged_at IS NULL)
		     + (SELECT coalesce(sum(reserved_bytes), 0)::bigint FROM app.uploads_in_flight
		        WHERE user_id = $1 AND id::text <> $2 AND heartbeat_at > now() - make_interval(secs => $3))`,
		userID, uploadID, s.stale.Seconds()).Scan(&stored)
	return stored, err
}

// StoredBytes implements jobs.Store.
func (s *Store) StoredBytes(ctx context.Context, userID string) (int64, error) {
	stored, err := s.storedBytes(ctx, s.pool, userID, "")
	return stored, fault("count the user's stored bytes", err)
}

// resultFits refuses a result of size bytes beyond the cap. Like withinLimits it
// counts under the user's row, so results and uploads that come at once are judged
// one after another.
func (s *Store) resultFits(ctx context.Context, tx pgx.Tx, userID string, size, limit int64) error {
	if _, err := lockUser(ctx, tx, userID); err != nil {
		return err
	}
	stored, err := s.storedBytes(ctx, tx, userID, "")
	if err != nil {
		return err
	}
	if stored+size > limit {
		return jobs.BeyondCap(limit)
	}
	return nil
}

// nextFairKey gives the job its place among all users' jobs: start-time fair
// queueing with each job of weight one. A user's jobs follow one another by one;
// a user who was idle starts at the system's virtual time, neither ahead of
// everybody for the time it was away nor behind what others queued meanwhile.
//
// The virtual time is how far service has come: the highest key in work or the
// lowest that could be claimed now, whichever is later (a job that waits for its
// next attempt, or one that runs for long, must not hold it back); when nothing
// is there, the highest key ever given.
func nextFairKey(ctx context.Context, tx pgx.Tx, userID string, last int64) (int64, error) {
	var key int64
	err := tx.QueryRow(ctx, `
		SELECT greatest($1::bigint + 1, 1, coalesce(
			greatest(
				(SELECT max(fair_key) FROM app.jobs WHERE status = 'processing'),
				(SELECT fair_key FROM app.jobs WHERE status = 'pending' AND next_attempt_at <= now() ORDER BY fair_key, id LIMIT 1)),
			(SELECT max(fair_key) FROM app.user_counters)))`, last).Scan(&key)
	if err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, "UPDATE app.user_counters SET fair_key = $2 WHERE user_id = $1", userID, key)
	return key, err
}

// answerKey binds the Idempotency-Key that the upload holds to the job.
func answerKey(ctx context.Context, tx pgx.Tx, job jobs.NewJob) error {
	if job.Key != "" {
		tag, err := tx.Exec(ctx, `
			UPDATE app.idempotency_keys SET job_id = $4, fingerprint = $5
			WHERE user_id = $1 AND key = $2 AND upload_id = $3 AND job_id IS NULL`,
			job.UserID, job.Key, job.UploadID, job.ID, job.Fingerprint[:])
		if err != nil {
			return err
		}
		if tag.RowsAffected() != 1 {
			// This server stood still for so long that the key freed itself.
			return domain.Refuse(domain.CodeIdempotencyInFlight, "another request has taken the Idempotency-Key over; repeat this one")
		}
	}
	_, err := tx.Exec(ctx, "DELETE FROM app.uploads_in_flight WHERE id = $1", job.UploadID)
	return err
}

func insert(ctx context.Context, tx pgx.Tx, job jobs.NewJob, fairKey int64) error {
	var batch pgx.Batch
	batch.Queue("INSERT INTO app.assets (id, user_id) VALUES ($1, $2)", job.AssetID, job.UserID)
	batch.Queue("INSERT INTO app.asset_versions (asset_id, version, name, size, sha256, storage_key) VALUES ($1, 1, $2, $3, $4, $5)",
		job.AssetID, job.Input.FileName, job.Input.Size, job.Input.SHA256[:], job.Input.StorageKey)
	batch.Queue(`
		INSERT INTO app.jobs (id, user_id, asset_id, asset_version, input_size, status, max_attempts, fair_key, correlation_id)
		VALUES ($1, $2, $3, 1, $4, 'pending', $5, $6, $7)`,
		job.ID, job.UserID, job.AssetID, job.Input.Size, job.MaxAttempts, fairKey, job.CorrelationID)
	batch.Queue(`
		INSERT INTO app.job_events (job_id, to_status, cause, attempt, fencing_token, correlation_id)
		VALUES ($1, 'pending', 'submitted', 0, 0, $2)`, job.ID, job.CorrelationID)
	batch.Queue("SELECT pg_notify('" + channel + "', '')")
	return tx.SendBatch(ctx, &batch).Close()
}
