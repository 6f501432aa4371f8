package oracle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Database reads the observer's views (INTERFACES §5). It is safe for concurrent use.
type Database struct{ pool *pgxpool.Pool }

// Job is a row of observe.jobs.
type Job struct {
	ID           string
	Status       string
	WorkerID     string // "" where nobody has the job
	LeaseExpires time.Time
	Attempt      int
	FencingToken int64
	ErrorCode    string
	Retryable    bool
	UpdatedAt    time.Time
}

// Event is a row of observe.job_events.
type Event struct {
	From, To, Cause, WorkerID string
	Attempt                   int
	FencingToken              int64
}

// String is one line of a job's history.
func (e Event) String() string {
	return fmt.Sprintf("%s>%s %s attempt %d token %d %s", e.From, e.To, e.Cause, e.Attempt, e.FencingToken, e.WorkerID)
}

// OpenDatabase connects with the observer's address. The caller closes it.
func OpenDatabase(ctx context.Context, url string) (*Database, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the observer's database address cannot be read")
	}
	config.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open the observer's database: %w", err)
	}
	return &Database{pool}, nil
}

// Close ends the connections.
func (d *Database) Close() { d.pool.Close() }

const jobColumns = `SELECT id::text, status, coalesce(worker_id, ''), coalesce(lease_expires_at, 'epoch'), attempt, fencing_token,
	coalesce(error_code, ''), coalesce(error_retryable, false), updated_at FROM observe.jobs`

// Job returns the row of id; pgx.ErrNoRows where there is none.
func (d *Database) Job(ctx context.Context, id string) (Job, error) {
	rows, err := d.pool.Query(ctx, jobColumns+` WHERE id::text = $1`, id)
	if err != nil {
		return Job{}, fmt.Errorf("read observe.jobs: %w", err)
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Job])
}

// History returns the events of a job in the order in which they happened.
func (d *Database) History(ctx context.Context, id string) ([]Event, error) {
	rows, err := d.pool.Query(ctx, `SELECT coalesce(from_status, ''), to_status, cause, coalesce(worker_id, ''), attempt, fencing_token
		FROM observe.job_events WHERE job_id::text = $1 ORDER BY fencing_token, from_status IS NOT NULL, at`, id)
	if err != nil {
		return nil, fmt.Errorf("read observe.job_events: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Event])
}

// Counts returns how many rows each view holds.
func (d *Database) Counts(ctx context.Context) (jobs, events, assets int64, err error) {
	err = d.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM observe.jobs), (SELECT count(*) FROM observe.job_events),
		(SELECT count(*) FROM observe.assets)`).Scan(&jobs, &events, &assets)
	if err != nil {
		err = fmt.Errorf("count the observer's rows: %w", err)
	}
	return jobs, events, assets, err
}

// HeldBy returns the ids of the jobs that a worker is processing.
func (d *Database) HeldBy(ctx context.Context, worker string) ([]string, error) {
	rows, err := d.pool.Query(ctx, `SELECT id::text FROM observe.jobs WHERE status = 'processing' AND worker_id = $1`, worker)
	if err != nil {
		return nil, fmt.Errorf("read observe.jobs: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// SQLState returns the code with which PostgreSQL refused a statement, "" for no
// error, and "?" for an error that is not PostgreSQL's.
func SQLState(err error) string {
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused):
		return refused.Code
	}
	return "?"
}
