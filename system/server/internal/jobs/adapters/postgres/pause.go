package postgres

import (
	"context"

	"glovebox/system/server/internal/jobs/domain"
)

// paused is true between a restore and the operator's `resume`: what was restored
// is looked at before anything runs, for it may run elsewhere too (DBS-03).
const paused = `EXISTS (SELECT FROM app.restores WHERE resumed_at IS NULL)`

func refusePaused(ctx context.Context, db querier) error {
	is, err := isPaused(ctx, db)
	if err == nil && is {
		return &domain.Error{Code: domain.CodeUnavailable, Message: domain.PausedMessage}
	}
	return err
}

func isPaused(ctx context.Context, db querier) (is bool, err error) {
	err = db.QueryRow(ctx, "SELECT "+paused).Scan(&is)
	return is, err
}

// Running returns CodeUnavailable while the installation is paused: what /ready
// asks.
func (s *Store) Running(ctx context.Context) error {
	return fault("look whether the installation is paused", refusePaused(ctx, s.pool))
}
