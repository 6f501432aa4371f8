package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"glovebox/system/server/internal/jobs"
)

// HistoryEvent is one recorded transition, for the operator.
type HistoryEvent struct {
	At            time.Time `json:"at"`
	From          string    `json:"from,omitempty"`
	To            string    `json:"to"`
	Cause         string    `json:"cause"`
	Attempt       int       `json:"attempt"`
	FencingToken  int64     `json:"fencing_token"`
	WorkerID      string    `json:"worker_id,omitempty"`
	ErrorCode     string    `json:"error_code,omitempty"`
	CorrelationID string    `json:"correlation_id,omitempty"`
	Provenance    string    `json:"provenance,omitempty"` // the worker's own words of its run
}

// History returns a job with all its events, oldest first, under the operator's
// login; domain.CodeNotFound where there is no such job.
func (s *Store) History(ctx context.Context, jobID string) (jobs.Record, []HistoryEvent, error) {
	record, err := s.Look(ctx, jobID)
	if err != nil {
		return jobs.Record{}, nil, err
	}
	rows, err := s.pool.Query(ctx, `
		SELECT at, coalesce(from_status, ''), to_status, cause, attempt, fencing_token,
		       coalesce(worker_id, ''), coalesce(error_code, ''), correlation_id, coalesce(provenance, '')
		FROM app.job_events WHERE job_id = $1 ORDER BY id`, jobID)
	if err != nil {
		return jobs.Record{}, nil, fault("read the job's history", err)
	}
	events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[HistoryEvent])
	return record, events, fault("read the job's history", err)
}
