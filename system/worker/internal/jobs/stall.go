package jobs

import (
	"context"
	"errors"
	"io"
	"time"
)

var errStalled = errors.New("no byte has moved for too long")

// stallGuard ends a context when touch is not called for limit. A transfer has
// no total timeout, since its size is bounded and its speed is not ours, but one
// that stands still would hold a slot under heartbeats for ever.
type stallGuard struct {
	limit  time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func guardStall(ctx context.Context, limit time.Duration) (context.Context, *stallGuard) {
	ctx, cancel := context.WithCancelCause(ctx)
	g := &stallGuard{limit: limit, cancel: cancel}
	g.timer = time.AfterFunc(limit, func() { cancel(errStalled) })
	return ctx, g
}

func (g *stallGuard) touch() { g.timer.Reset(g.limit) }

// stop releases the guard; the context ends with it.
func (g *stallGuard) stop() {
	g.timer.Stop()
	g.cancel(errEnded)
}

// touching is a reader that touches the guard with each read that gave bytes.
type touching struct {
	io.Reader
	guard *stallGuard
}

func (t touching) Read(b []byte) (int, error) {
	n, err := t.Reader.Read(b)
	if n > 0 {
		t.guard.touch()
	}
	return n, err
}
