package rig

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"glovebox/chaos/history"
)

// Snapshot reads every job and transition in one transaction, and the digest of
// every stored result as it lies on the disk. It looks with the administrator's
// eyes: the observer's views hold neither storage keys nor what was purged.
func (r *Rig) Snapshot(ctx context.Context) (history.Snapshot, error) {
	var s history.Snapshot
	conn, err := pgx.Connect(ctx, r.Database().Reveal())
	if err != nil {
		return s, fmt.Errorf("look into the database: %w", err)
	}
	defer conn.Close(ctx)
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return s, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if err := tx.QueryRow(ctx, "SELECT now()").Scan(&s.Now); err != nil {
		return s, err
	}
	if s.Jobs, err = r.jobs(ctx, tx); err != nil {
		return s, err
	}
	s.Transitions, err = transitions(ctx, tx)
	return s, err
}

func (r *Rig) jobs(ctx context.Context, tx pgx.Tx) ([]history.Job, error) {
	stored, err := r.Objects()
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `SELECT o.id::text, o.status, coalesce(o.worker_id, ''), o.lease_expires_at, o.attempt, o.max_attempts, o.fencing_token,
		coalesce(o.error_code, ''), o.error_retryable, o.created_at, o.updated_at, u.login, j.purged_at IS NOT NULL, coalesce(j.result_key, ''),
		coalesce(encode(j.result_sha256, 'hex'), '')
		FROM observe.jobs o JOIN app.jobs j ON j.id = o.id JOIN app.users u ON u.id = j.user_id ORDER BY o.created_at, o.id`)
	if err != nil {
		return nil, fmt.Errorf("read the jobs: %w", err)
	}
	defer rows.Close()
	var all []history.Job
	for rows.Next() {
		var j history.Job
		var key string
		if err := rows.Scan(&j.ID, &j.Status, &j.WorkerID, &j.LeaseExpiresAt, &j.Attempt, &j.MaxAttempts, &j.FencingToken,
			&j.ErrorCode, &j.ErrorRetryable, &j.CreatedAt, &j.UpdatedAt, &j.UserID, &j.Purged, &key, &j.ResultDigest); err != nil {
			return nil, err
		}
		if key != "" && !j.Purged {
			if j.Stored, err = SumFile(stored[key]); err != nil {
				return nil, err
			}
			if j.Stored == "" {
				j.Stored = history.NotStored
			}
		}
		all = append(all, j)
	}
	return all, rows.Err()
}

func transitions(ctx context.Context, tx pgx.Tx) ([]history.Transition, error) {
	rows, err := tx.Query(ctx, `SELECT e.job_id::text, coalesce(e.from_status, ''), e.to_status, e.cause, e.attempt, e.fencing_token, coalesce(e.worker_id, ''), e.at,
		coalesce(e.request_id::text, '') FROM app.job_events e ORDER BY e.id`)
	if err != nil {
		return nil, fmt.Errorf("read the transitions: %w", err)
	}
	defer rows.Close()
	var all []history.Transition
	for rows.Next() {
		var t history.Transition
		if err := rows.Scan(&t.JobID, &t.From, &t.To, &t.Cause, &t.Attempt, &t.FencingToken, &t.WorkerID, &t.At, &t.Request); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, rows.Err()
}

// Count is how many jobs there are, and how many of them have not ended.
func (r *Rig) Count(ctx context.Context) (jobs, open int, err error) {
	err = r.query(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT count(*), count(*) FILTER (WHERE status IN ('pending', 'processing')) FROM observe.jobs").Scan(&jobs, &open)
	})
	return jobs, open, err
}

// Overdue lists the jobs whose lease has been over for longer than grace and that
// nobody has taken back (JOB-06).
func (r *Rig) Overdue(ctx context.Context, grace time.Duration) (ids []string, err error) {
	err = r.query(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT id::text FROM observe.jobs WHERE status = 'processing' AND lease_expires_at < now() - $1::interval", grace)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return ids, err
}

// Holder is a job's status and the worker that has it now.
func (r *Rig) Holder(ctx context.Context, id string) (status, worker string, err error) {
	err = r.query(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT status, coalesce(worker_id, '') FROM observe.jobs WHERE id = $1", id).Scan(&status, &worker)
	})
	return status, worker, err
}

// Attempt is a job's status and the number of its attempts so far.
func (r *Rig) Attempt(ctx context.Context, id string) (status string, attempt int, err error) {
	err = r.query(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT status, attempt FROM observe.jobs WHERE id = $1", id).Scan(&status, &attempt)
	})
	return status, attempt, err
}

// query asks as the observer, over a connection of its own: the database may have
// been killed since the last one.
func (r *Rig) query(ctx context.Context, ask func(*pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, r.DatabaseURL)
	if err != nil {
		return fmt.Errorf("look into the database: %w", err)
	}
	defer conn.Close(ctx)
	return ask(conn)
}

// NamedFiles are the storage keys that rows name and retention has left, with who
// names them.
func (r *Rig) NamedFiles(ctx context.Context) (map[string]string, error) {
	conn, err := pgx.Connect(ctx, r.Database().Reveal())
	if err != nil {
		return nil, fmt.Errorf("look into the database: %w", err)
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `SELECT v.storage_key, 'input of ' || j.id FROM app.asset_versions v JOIN app.jobs j ON j.asset_id = v.asset_id AND j.asset_version = v.version WHERE v.purged_at IS NULL
		UNION ALL SELECT result_key, 'result of ' || id FROM app.jobs WHERE result_key IS NOT NULL AND purged_at IS NULL`)
	if err != nil {
		return nil, fmt.Errorf("read what rows name: %w", err)
	}
	defer rows.Close()
	named := make(map[string]string)
	for rows.Next() {
		var key, by string
		if err := rows.Scan(&key, &by); err != nil {
			return nil, err
		}
		named[key] = by
	}
	return named, rows.Err()
}
