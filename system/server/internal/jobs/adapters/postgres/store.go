// Package postgres keeps jobs in PostgreSQL: one noun a file. It is where every
// race is decided, always in the same way: a statement changes a job only if the
// job is still what was looked at (id, status, worker, token, lease), and zero
// rows changed is a refusal, never an overwrite (ARC-04, DBS-01).
package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"glovebox/system/protocol/failure"
	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
	"glovebox/system/server/internal/platform/pgfault"
)

// Store is jobs.Store, jobs.Queue and jobs.Uploads on one pool.
type Store struct {
	pool  *pgxpool.Pool
	stale time.Duration // jobs.UploadStale; tests shorten it
}

// New returns a Store that uses pool, which logs in as glovebox_server.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool, stale: jobs.UploadStale} }

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// recordColumns are what scanRecord reads, of jobs j and asset_versions v, with
// the database's time at the reading.
const recordColumns = `
	j.id, j.user_id, j.asset_id, j.asset_version, j.status, j.attempt, j.max_attempts, j.hand_backs, j.fencing_token,
	j.worker_id, j.lease_expires_at, j.heartbeat_at, j.next_attempt_at, j.error_code, j.error_retryable, j.error_detail,
	j.result_key, j.result_size, j.result_sha256, j.result_worker_id, j.result_fencing_token,
	j.correlation_id, j.created_at, j.updated_at, j.terminal_at, j.purged_at,
	v.storage_key, v.name, v.size, v.sha256, clock_timestamp()`

const recordJoin = ` JOIN app.asset_versions v ON v.asset_id = j.asset_id AND v.version = j.asset_version `

func scanRecord(row pgx.Row) (jobs.Record, error) {
	var (
		r                                  jobs.Record
		j                                  = &r.Job
		workerID, errorCode, errorDetail   *string
		lease, heartbeat, terminal, purged *time.Time
		errorRetryable                     *bool
		resultKey, resultWorker            *string
		resultSize, resultToken            *int64
		resultSum, inputSum                []byte
	)
	err := row.Scan(
		&j.ID, &j.UserID, &j.AssetID, &j.AssetVersion, &j.Status, &j.Attempt, &j.MaxAttempts, &j.HandBacks, &j.FencingToken,
		&workerID, &lease, &heartbeat, &j.NextAttemptAt, &errorCode, &errorRetryable, &errorDetail,
		&resultKey, &resultSize, &resultSum, &resultWorker, &resultToken,
		&j.CorrelationID, &j.CreatedAt, &j.UpdatedAt, &terminal, &purged,
		&r.Input.StorageKey, &r.Input.FileName, &r.Input.Size, &inputSum, &r.Now)
	if err != nil {
		return jobs.Record{}, err
	}
	j.WorkerID, j.ErrorDetail = value(workerID), value(errorDetail)
	j.ErrorCode, j.ErrorRetryable = failure.Code(value(errorCode)), value(errorRetryable)
	j.LeaseExpires, j.HeartbeatAt, j.TerminalAt, j.PurgedAt = value(lease), value(heartbeat), value(terminal), value(purged)
	copy(r.Input.SHA256[:], inputSum)
	if resultKey != nil {
		j.Result = &domain.Result{StorageKey: *resultKey, Size: value(resultSize), WorkerID: value(resultWorker), FencingToken: value(resultToken)}
		copy(j.Result.SHA256[:], resultSum)
	}
	return r, nil
}

// value is *p, or the zero value where there is none.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// orNull is the reverse of value.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Get implements jobs.Store: one look-up by id and owner, so that a foreign job
// and a missing one take the same way (AUT-06).
func (s *Store) Get(ctx context.Context, userID, jobID string) (jobs.Record, error) {
	if !isID(jobID) || !isID(userID) {
		return jobs.Record{}, notFound()
	}
	row := s.pool.QueryRow(ctx, "SELECT "+recordColumns+" FROM app.jobs j"+recordJoin+"WHERE j.id = $1 AND j.user_id = $2", jobID, userID)
	return found(row)
}

// Look implements jobs.Store.
func (s *Store) Look(ctx context.Context, jobID string) (jobs.Record, error) {
	return look(ctx, s.pool, jobID)
}

func look(ctx context.Context, db querier, jobID string) (jobs.Record, error) {
	if !isID(jobID) {
		return jobs.Record{}, notFound()
	}
	return found(db.QueryRow(ctx, "SELECT "+recordColumns+" FROM app.jobs j"+recordJoin+"WHERE j.id = $1", jobID))
}

func found(row pgx.Row) (jobs.Record, error) {
	record, err := scanRecord(row)
	if errors.Is(err, pgx.ErrNoRows) {
		return jobs.Record{}, notFound()
	}
	if err != nil {
		return jobs.Record{}, fault("read the job", err)
	}
	return record, nil
}

func notFound() error { return domain.Refuse(domain.CodeNotFound, "there is no such job") }

// isID reports whether text is a UUID in canonical lower case: PostgreSQL would
// take other spellings too.
func isID(text string) bool {
	id, err := uuid.Parse(text)
	return err == nil && id.String() == text
}

// fault gives an error of the database its code: CodeUnavailable where the same
// request may succeed later, else none. A refusal passes through.
func fault(what string, err error) error {
	if err == nil || domain.CodeOf(err) != "" {
		return err
	}
	wrapped := fmt.Errorf("%s: %w", what, err)
	var (
		answer  *pgconn.PgError
		connect *pgconn.ConnectError
	)
	// Whatever is no answer to the statement says nothing of the statement.
	noAnswer := !errors.As(err, &answer) || errors.As(err, &connect)
	if noAnswer && !errors.Is(err, context.Canceled) || pgfault.Transient(err) {
		return &domain.Error{Code: domain.CodeUnavailable, Message: "the database cannot do this now; try again later", Cause: wrapped}
	}
	return wrapped
}

// violates reports whether err is a violation of the named constraint.
func violates(err error, constraint string) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.ConstraintName == constraint
}

// inTx runs do in a transaction.
func (s *Store) inTx(ctx context.Context, what string, do func(tx pgx.Tx) error) error {
	return fault(what, pgx.BeginFunc(ctx, s.pool, do))
}
