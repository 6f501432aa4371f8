package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"glovebox/system/protocol"
)

// keeper holds one lease by heartbeats, from the claim until the server has
// answered to the result or the failure.
//
// It ends the lease's context with ErrLeaseLost when the server says so, and
// when no heartbeat has succeeded for a lease's length: the time is counted from
// when the last good heartbeat was sent, so this side never believes longer than
// the server does.
type keeper struct {
	client   *Client
	log      *slog.Logger
	observer Observer
	fence    Fence
	slots    func() protocol.Saturation
	interval time.Duration
	length   time.Duration // of the lease, as last told
	lose     context.CancelCauseFunc

	// delivering: the result is on its way. The server ends the lease when it
	// takes the result, so a lost lease may be the good end, and the answer to
	// the result will tell which.
	delivering atomic.Bool

	cancel context.CancelFunc
	done   chan struct{}
}

// start begins to keep. certain is false when the lease may be older than now:
// the first heartbeat goes out at once then.
func (k *keeper) start(ctx context.Context, certain bool) {
	ctx, k.cancel = context.WithCancel(ctx)
	k.done = make(chan struct{})
	go func() {
		defer close(k.done)
		k.run(ctx, certain)
	}()
}

// stop ends the heartbeats and returns when none is under way.
func (k *keeper) stop() {
	k.cancel()
	<-k.done
}

func (k *keeper) run(ctx context.Context, certain bool) {
	now := time.Now()
	deadline, next := now.Add(k.length), now.Add(k.interval)
	if !certain {
		next = now
	}
	retry := newWait(k.client.timing.First, k.interval)
	for {
		if !sleep(ctx, time.Until(earlier(next, deadline))) {
			return
		}
		// After a stop of the whole process both may be past: the deadline counts.
		if !time.Now().Before(deadline) {
			k.end(ctx, fmt.Errorf("%w: no heartbeat has succeeded for %s", ErrLeaseLost, k.length))
			return
		}
		sent := time.Now()
		length, err := k.beat(ctx, earlier(deadline, sent.Add(k.client.timing.Call)))
		switch {
		case err == nil:
			k.length, deadline, next = length, sent.Add(length), sent.Add(k.interval)
			retry.reset()
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrLeaseLost) && k.delivering.Load():
			// Most likely the good end: no fault to warn of.
			k.log.DebugContext(ctx, "the lease ended while the result was on its way, whose answer tells how", "error", err)
			k.end(ctx, err)
			return
		default:
			k.observer.HeartbeatFailed()
			k.log.WarnContext(ctx, "heartbeat failed", "error", err)
			if errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrNotAllowed) {
				k.end(ctx, err)
				return
			}
			next = time.Now().Add(retry.draw(0))
		}
	}
}

func (k *keeper) beat(ctx context.Context, until time.Time) (time.Duration, error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return k.client.Heartbeat(ctx, k.fence, k.slots())
}

// end ends the lease's context, after time for the answer to a result that is on
// its way.
func (k *keeper) end(ctx context.Context, why error) {
	if k.delivering.Load() && !sleep(ctx, k.client.timing.Call) {
		return // the answer came
	}
	if !errors.Is(why, ErrLeaseLost) {
		why = fmt.Errorf("%w: %w", ErrLeaseLost, why)
	}
	k.lose(why)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
