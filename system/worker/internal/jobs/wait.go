package jobs

import (
	"context"
	"math/rand/v2"
	"time"
)

// wait is the pause between tries: it doubles from first to most, and each pause
// is a random part, at least half, of that, so that the workers of a server that
// comes back do not come back together.
type wait struct {
	first, most, next time.Duration
}

func newWait(first, most time.Duration) *wait { return &wait{first: first, most: most, next: first} }

func (w *wait) reset() { w.next = w.first }

// draw returns the next pause, at least asked.
func (w *wait) draw(asked time.Duration) time.Duration {
	d := w.next/2 + rand.N(w.next/2+1)
	w.next = min(2*w.next, w.most)
	return max(d, asked)
}

// pause waits and reports whether it waited to the end, not to ctx's.
func (w *wait) pause(ctx context.Context, asked time.Duration) bool {
	return sleep(ctx, w.draw(asked))
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
