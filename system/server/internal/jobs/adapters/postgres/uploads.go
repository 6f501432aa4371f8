package postgres

import (
	"bytes"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
)

// Begin implements jobs.Uploads. The user's row is held, so that of N equal
// requests at once one gets the key and the others see that it did (API-04).
func (s *Store) Begin(ctx context.Context, upload jobs.Upload) (replay string, err error) {
	err = s.inTx(ctx, "begin the upload", func(tx pgx.Tx) error {
		if err := refusePaused(ctx, tx); err != nil {
			return err
		}
		if _, err := lockUser(ctx, tx, upload.UserID); err != nil {
			return err
		}
		if upload.Key != "" {
			if replay, err = s.takeKey(ctx, tx, upload); err != nil || replay != "" {
				return err
			}
		}
		if err := s.takeSlot(ctx, tx, upload); err != nil {
			return err
		}
		// Judged before a byte is read: whoever can store not one more is told now.
		return s.withinLimits(ctx, tx, upload.UserID, upload.ID, upload.Limits, 1)
	})
	return replay, err
}

// Reserve implements jobs.Uploads.
func (s *Store) Reserve(ctx context.Context, upload jobs.Upload, size int64) error {
	return s.inTx(ctx, "reserve a place for the upload", func(tx pgx.Tx) error {
		if _, err := lockUser(ctx, tx, upload.UserID); err != nil {
			return err
		}
		if err := s.withinLimits(ctx, tx, upload.UserID, upload.ID, upload.Limits, size); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE app.uploads_in_flight SET reserved_bytes = $2, heartbeat_at = now() WHERE id = $1", upload.ID, size)
		return err
	})
}

// takeKey takes the key for the upload, or returns the job it led to.
func (s *Store) takeKey(ctx context.Context, tx pgx.Tx, upload jobs.Upload) (replay string, err error) {
	var (
		fingerprint   []byte
		jobID         *string
		fresh, living bool
	)
	err = tx.QueryRow(ctx, `
		SELECT k.fingerprint, k.job_id, k.created_at > now() - make_interval(secs => $3),
		       EXISTS (SELECT FROM app.uploads_in_flight u WHERE u.id = k.upload_id AND u.heartbeat_at > now() - make_interval(secs => $4))
		FROM app.idempotency_keys k WHERE k.user_id = $1 AND k.key = $2 FOR UPDATE OF k`,
		upload.UserID, upload.Key, jobs.KeyLifetime.Seconds(), s.stale.Seconds()).Scan(&fingerprint, &jobID, &fresh, &living)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", err
	}
	answered := err == nil && jobID != nil && fresh
	inFlight := err == nil && jobID == nil && living
	if (answered || inFlight) && fingerprint != nil && upload.Fingerprint != nil && !bytes.Equal(fingerprint, upload.Fingerprint[:]) {
		return "", mismatch()
	}
	switch {
	case answered:
		return *jobID, nil
	case inFlight:
		return "", domain.Refuse(domain.CodeIdempotencyInFlight, "the first request with this Idempotency-Key is still running; repeat this one later")
	}
	// No such key, or over its 24 hours, or of a server that died: it is free.
	var known []byte
	if upload.Fingerprint != nil {
		known = upload.Fingerprint[:]
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO app.idempotency_keys (user_id, key, upload_id, fingerprint) VALUES ($1, $2, $3, $4)
		ON CONFLICT (user_id, key) DO UPDATE SET upload_id = excluded.upload_id, fingerprint = excluded.fingerprint, job_id = NULL, created_at = now()`,
		upload.UserID, upload.Key, upload.ID, known)
	return "", err
}

func mismatch() error {
	return domain.Refuse(domain.CodeIdempotencyMismatch, "the Idempotency-Key was used for another file; use a new key")
}

// takeSlot counts the user's living uploads and adds this one. Those of dead
// servers are cleared away.
func (s *Store) takeSlot(ctx context.Context, tx pgx.Tx, upload jobs.Upload) error {
	if _, err := tx.Exec(ctx, "DELETE FROM app.uploads_in_flight WHERE user_id = $1 AND heartbeat_at <= now() - make_interval(secs => $2)",
		upload.UserID, s.stale.Seconds()); err != nil {
		return err
	}
	var uploads int
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM app.uploads_in_flight WHERE user_id = $1", upload.UserID).Scan(&uploads); err != nil {
		return err
	}
	if uploads >= upload.Limits.Uploads {
		return domain.Refuse(domain.CodeLimitExceeded, "you have %d uploads running, of %d allowed; wait for one to end", uploads, upload.Limits.Uploads)
	}
	_, err := tx.Exec(ctx, "INSERT INTO app.uploads_in_flight (id, user_id) VALUES ($1, $2)", upload.ID, upload.UserID)
	return err
}

// Renew implements jobs.Uploads.
func (s *Store) Renew(ctx context.Context, uploadID string) error {
	_, err := s.pool.Exec(ctx, "UPDATE app.uploads_in_flight SET heartbeat_at = now() WHERE id = $1", uploadID)
	return fault("renew the upload", err)
}

// End implements jobs.Uploads.
func (s *Store) End(ctx context.Context, uploadID string) error {
	return s.inTx(ctx, "end the upload", func(tx pgx.Tx) error {
		var userID string
		err := tx.QueryRow(ctx, "SELECT user_id FROM app.uploads_in_flight WHERE id = $1", uploadID).Scan(&userID)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // it ended with its job, or was cleared away with its key
		}
		if err != nil {
			return err
		}
		if _, err := lockUser(ctx, tx, userID); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "DELETE FROM app.idempotency_keys WHERE user_id = $1 AND upload_id = $2 AND job_id IS NULL", userID, uploadID); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "DELETE FROM app.uploads_in_flight WHERE id = $1", uploadID)
		return err
	})
}

// Match implements jobs.Uploads.
func (s *Store) Match(ctx context.Context, userID, key string, fingerprint [32]byte) (string, error) {
	var (
		known []byte
		jobID string
	)
	err := s.pool.QueryRow(ctx, "SELECT fingerprint, job_id FROM app.idempotency_keys WHERE user_id = $1 AND key = $2 AND job_id IS NOT NULL",
		userID, key).Scan(&known, &jobID)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", domain.Refuse(domain.CodeIdempotencyInFlight, "the Idempotency-Key has just expired; repeat the request")
	}
	if err != nil {
		return "", fault("look for the Idempotency-Key", err)
	}
	if !bytes.Equal(known, fingerprint[:]) {
		return "", mismatch()
	}
	return jobID, nil
}
