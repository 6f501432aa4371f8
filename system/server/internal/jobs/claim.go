package jobs

import (
	"context"
	"encoding/hex"
	"time"

	"glovebox/system/protocol"
	"glovebox/system/server/internal/jobs/domain"
)

// MaxClaimWait bounds a long poll, together with the lease: see longestWait.
const MaxClaimWait = 30 * time.Second

// ClaimCall is a worker's request for work. WorkerID is from the certificate.
type ClaimCall struct {
	WorkerID   string
	RequestID  string // UUID in canonical form
	Wait       time.Duration
	SlotsFree  int
	SlotsTotal int
}

// Wake says that a job may have become claimable. It wakes one waiting claim; a
// claim that finds a job wakes the next, so that N waiters cost N looks at the
// queue and not N for each job. Notifications may be lost: the slow poll is behind.
func (s *Service) Wake() {
	select {
	case s.wake <- struct{}{}:
	default: // a token is there already
	}
}

// Claim assigns the next job, waiting up to call.Wait for one; nil when there is
// none (JOB-02). The same request id gives the same assignment while its lease
// lives, and CodeConflict after. When ctx ends the wait ends at once, with nil, or
// with CodeUnavailable where the outcome of what was asked last is not known.
func (s *Service) Claim(ctx context.Context, call ClaimCall) (*protocol.Assignment, error) {
	slots := protocol.Saturation{SlotsFree: call.SlotsFree, SlotsTotal: call.SlotsTotal}
	if err := s.seen(ctx, call.WorkerID, slots); err != nil {
		return nil, err
	}
	claim := Claim{WorkerID: call.WorkerID, RequestID: call.RequestID, Lease: s.settings.Lease}
	deadline := time.NewTimer(min(call.Wait, s.longestWait()))
	defer deadline.Stop()
	poll := time.NewTicker(s.settings.ClaimPoll)
	defer poll.Stop()
	asking, cancel := outlive(ctx, lastWord)
	defer cancel()
	for {
		record, ok, err := s.Queue.Claim(asking, claim)
		if err != nil {
			s.Wake() // whatever woke this claim is for another
			if ctx.Err() != nil {
				// The caller has gone or the server stops, and a job may have been taken
				// all the same: "none" would leave it to its lease. Asked again under its
				// request id, the claim gets what it took.
				return nil, &domain.Error{Code: domain.CodeUnavailable, Message: "the claim was cut off; send it again under the same request id", Cause: err}
			}
			return nil, err
		}
		if ok {
			s.Wake() // there may be more
			return s.assignment(record), nil
		}
		select {
		case <-s.wake:
		case <-poll.C:
		case <-deadline.C:
			return nil, nil
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// lastWord is how long a claim that has been sent may take to be answered once its
// request has ended or the server stops: a statement that is cut off may have
// taken a job that then waits for its lease.
const lastWord = 2 * time.Second

// outlive returns a context that ends by after ctx does.
func outlive(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(by, cancel) })
	return longer, func() { stop(); cancel() }
}

// longestWait bounds a long poll so that a claim left open by a worker that stopped
// has ended before the leases of that worker do. Else the job taken back from it
// would be given to it again, through that claim, and lose an attempt each time.
func (s *Service) longestWait() time.Duration {
	return min(MaxClaimWait, s.settings.Lease-s.settings.Heartbeat)
}

func (s *Service) assignment(r Record) *protocol.Assignment {
	return &protocol.Assignment{
		ID: r.Job.ID, Attempt: r.Job.Attempt, FencingToken: r.Job.FencingToken,
		LeaseSeconds: seconds(s.settings.Lease), HeartbeatSeconds: seconds(s.settings.Heartbeat),
		InputSize: r.Input.Size, InputSHA256: hex.EncodeToString(r.Input.SHA256[:]),
		TimeoutSeconds: seconds(s.settings.Timeout), MaxResultBytes: s.settings.MaxResultBytes,
	}
}

func seconds(d time.Duration) int { return int(d / time.Second) }
