package jobs

import (
	"context"
	"math/rand/v2"
	"time"

	"glovebox/system/server/internal/jobs/domain"
)

// expiryPage is how many jobs are looked at a time.
const expiryPage = 100

// Expire takes back every job whose lease ran out (JOB-06) and returns how many.
// Any number of servers may run it at once: each job is decided by one conditional
// update, and one that is held by another transaction is left for the next round.
// A job that cannot be taken back is logged and passed, so that it blocks nothing
// behind it.
func (s *Service) Expire(ctx context.Context) (recovered int, err error) {
	for after := ""; ; {
		ids, err := s.Queue.Expired(ctx, after, expiryPage)
		if err != nil {
			return recovered, err
		}
		for _, id := range ids {
			if err := ctx.Err(); err != nil {
				return recovered, err
			}
			if s.expire(ctx, id) {
				recovered++
			}
		}
		if len(ids) < expiryPage {
			return recovered, nil
		}
		after = ids[len(ids)-1]
	}
}

func (s *Service) expire(ctx context.Context, id string) bool {
	var event domain.Event
	job, err := s.Store.Transition(ctx, Change{JobID: id, SkipLocked: true, Decide: func(job domain.Job, now time.Time) (domain.Job, *domain.Event, error) {
		next, happened, err := job.Expire(domain.Backoff(job.Attempt, rand.Float64()), now)
		event = happened
		return next, &happened, err
	}})
	switch domain.CodeOf(err) {
	case domain.CodeConflict, domain.CodeNotFound:
		return false // finished, renewed, or taken back by another server meanwhile
	}
	if err != nil {
		s.settings.Log.ErrorContext(ctx, "a job whose lease ran out could not be taken back", "job", id, "error", err)
		return false
	}
	s.settings.Log.WarnContext(ctx, "a lease ran out", "job", id, "worker", event.WorkerID, "attempt", event.Attempt,
		"fencing_token", event.FencingToken, "status", string(job.Status), "correlation_id", job.CorrelationID)
	if job.Status == domain.Pending {
		s.Wake()
	}
	return true
}

// RunExpiry expires every interval until ctx ends.
func (s *Service) RunExpiry(ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if _, err := s.Expire(ctx); err != nil && ctx.Err() == nil {
				s.settings.Log.ErrorContext(ctx, "leases that ran out could not be looked for", "error", err)
			}
		}
	}
}
