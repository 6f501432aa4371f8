package jobs

import (
	"context"
	"time"

	"glovebox/system/protocol"
	"glovebox/system/server/internal/jobs/domain"
)

// Heartbeat extends the lease of an attempt and returns how long it now lives;
// CodeLeaseLost when the attempt does not hold it any more (JOB-08).
func (s *Service) Heartbeat(ctx context.Context, fence domain.Fence, slots protocol.Saturation) (time.Duration, error) {
	if err := s.seen(ctx, fence.WorkerID, slots); err != nil {
		return 0, err
	}
	_, err := s.Store.Transition(ctx, Change{JobID: fence.JobID, Decide: func(job domain.Job, now time.Time) (domain.Job, *domain.Event, error) {
		next, err := job.Heartbeat(fence, s.settings.Lease, now)
		return next, nil, err
	}})
	if err != nil {
		return 0, lost(err)
	}
	return s.settings.Lease, nil
}
