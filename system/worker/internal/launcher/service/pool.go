package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"glovebox/system/worker/internal/container/slot"
)

// closeTimeout bounds one try at removing an attempt.
const closeTimeout = 20 * time.Second

// Pauses between tries at removing an attempt.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// errNoSlot says that every slot is in use or not clean yet.
var errNoSlot = errors.New("every slot is in use")

// pool gives out slot numbers. A number comes back when nothing of its attempt is
// left, not before: the next user of it has the same host user ids.
type pool struct {
	maker   *slot.Maker
	log     *slog.Logger
	metrics *Metrics
	total   int

	mu      sync.Mutex
	numbers []int
	unclean int

	retries sync.WaitGroup
	closing chan struct{} // closed by drain: the last tries are at once
	once    sync.Once
}

func newPool(n int, m *slot.Maker, log *slog.Logger, metrics *Metrics) *pool {
	p := &pool{maker: m, log: log, metrics: metrics, total: n, closing: make(chan struct{})}
	for i := range n {
		p.numbers = append(p.numbers, n-1-i)
	}
	metrics.slots(n, n, 0)
	return p
}

func (p *pool) free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.numbers)
}

// held is an attempt with its slot number.
type held struct {
	*slot.Attempt
	number int
}

// acquire makes an attempt in a free slot.
func (p *pool) acquire(ctx context.Context) (*held, error) {
	p.mu.Lock()
	if len(p.numbers) == 0 {
		p.mu.Unlock()
		return nil, errNoSlot
	}
	n := p.numbers[len(p.numbers)-1]
	p.numbers = p.numbers[:len(p.numbers)-1]
	p.report()
	p.mu.Unlock()

	a, err := p.maker.Acquire(ctx, n)
	if err == nil {
		return &held{a, n}, nil
	}
	if a == nil {
		p.giveBack(n)
		return nil, err
	}
	return nil, errors.Join(err, p.release(&held{a, n}))
}

// release removes the attempt. If that fails now, it is tried again in the
// background and the slot stays out of use; the error says so.
func (p *pool) release(h *held) error {
	err := p.tryClose(h)
	if err == nil {
		p.giveBack(h.number)
		return nil
	}
	p.log.Error("attempt not removed yet", "attempt", h.Name, "error", err)
	p.mu.Lock()
	p.unclean++
	p.report()
	p.mu.Unlock()
	p.retries.Go(func() { p.retry(h) })
	return err
}

func (p *pool) tryClose(h *held) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return h.Close(ctx)
}

func (p *pool) retry(h *held) {
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		last := false
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-p.closing:
			last = true
		}
		timer.Stop()
		err := p.tryClose(h)
		if err == nil {
			p.mu.Lock()
			p.unclean--
			p.mu.Unlock()
			p.giveBack(h.number)
			p.log.Info("attempt removed after all", "attempt", h.Name)
			return
		}
		if last {
			p.log.Error("attempt left behind", "attempt", h.Name, "error", err)
			return
		}
	}
}

func (p *pool) giveBack(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.numbers = append(p.numbers, n)
	p.report()
}

// report tells the metrics; p.mu is held.
func (p *pool) report() { p.metrics.slots(p.total, len(p.numbers), p.unclean) }

// drain ends the background tries. Sessions have ended before.
func (p *pool) drain(ctx context.Context) error {
	p.once.Do(func() { close(p.closing) })
	done := make(chan struct{})
	go func() {
		p.retries.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unclean > 0 {
		return fmt.Errorf("%d attempts are not removed; the next start of the launcher will do it", p.unclean)
	}
	return nil
}
