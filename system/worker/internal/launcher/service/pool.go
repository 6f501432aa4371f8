package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"glovebox/system/worker/internal/container/slot"
	"glovebox/system/worker/internal/container/slotfs"
)

// closeTimeout bounds one try at removing an attempt.
const closeTimeout = 20 * time.Second

// Pauses between tries at removing an attempt.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// Why no slot is given out.
var (
	errNoSlot = errors.New("every slot is in use")
	errShut   = errors.New("no slot is given out now")
)

// use is what a slot number is used for.
type use int

const (
	idle     use = iota
	filling      // a container is being made ahead
	ready        // one waits
	taken        // a session has it
	emptying     // what was made is being removed
	unclean      // its removal failed and is tried again
	uses
)

// place is one slot number. It comes back when nothing of its attempt is left, not
// before: the next user of it has the same host user ids.
type place struct {
	use     use
	name    string // of the attempt of which something may be there, or ""
	waiting *waiting
}

// pool gives out slots: a warm one where one waits, else one made on the spot. It
// keeps warm ones ready in free places (fill.go). Each attempt is given out once.
type pool struct {
	maker   *slot.Maker
	log     *slog.Logger
	metrics *Metrics
	warm    int // containers to keep ready

	life   context.Context // of everything made ahead
	end    context.CancelFunc
	makers chan struct{} // bounds how many are made ahead at once

	mu       sync.Mutex
	places   []place
	open     bool
	opening  int           // counts shut: what began before is thrown away
	changed  chan struct{} // closed and replaced when a place changes its use
	back     chan struct{} // closed and replaced by unshut: a removal may succeed now
	failures int           // of filling, in a row
	pausing  bool          // after a failure

	work    sync.WaitGroup
	closing chan struct{} // closed by drain: the last tries are at once
	once    sync.Once
}

func newPool(n, warm int, m *slot.Maker, log *slog.Logger, metrics *Metrics) *pool {
	p := &pool{
		maker: m, log: log, metrics: metrics, warm: warm, places: make([]place, n), makers: make(chan struct{}, mostMakers),
		changed: make(chan struct{}), back: make(chan struct{}), closing: make(chan struct{}),
	}
	p.life, p.end = context.WithCancel(context.Background())
	metrics.poolSize.Set(float64(warm))
	p.report()
	return p
}

// free is the number of slots that can be acquired.
func (p *pool) free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count(idle, filling, ready)
}

// knows reports whether name is of an attempt that this pool answers for.
func (p *pool) knows(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.places {
		if p.places[i].name == name {
			return true
		}
	}
	return false
}

// The following four want p.mu to be held.

func (p *pool) count(of ...use) (n int) {
	var each [uses]int
	for i := range p.places {
		each[p.places[i].use]++
	}
	for _, u := range of {
		n += each[u]
	}
	return n
}

func (p *pool) first(u use) int {
	for i := range p.places {
		if p.places[i].use == u {
			return i
		}
	}
	return -1
}

func (p *pool) put(n int, u use) {
	p.places[n].use = u
	if u == idle {
		p.places[n].name = ""
	}
	close(p.changed)
	p.changed = make(chan struct{})
	p.report()
}

func (p *pool) report() {
	p.metrics.slots(len(p.places), p.count(idle, filling, ready), p.count(unclean))
	p.metrics.poolReady.Set(float64(p.count(ready)))
}

// held is an attempt with its slot number.
type held struct {
	*slot.Attempt
	number int
}

// acquire gives out a slot: one that waits, or one made now, or, where all the rest
// is on the way, the first that comes.
func (p *pool) acquire(ctx context.Context) (*held, error) {
	missed := false
	miss := func() {
		if !missed {
			p.metrics.poolMisses.Inc()
		}
		missed = true
	}
	for {
		p.mu.Lock()
		if !p.open {
			p.mu.Unlock()
			return nil, errShut
		}
		if n := p.oldest(); n >= 0 {
			w := p.take(n, taken)
			p.refill()
			p.mu.Unlock()
			a := w.leave()
			if err := a.Fit(); err != nil {
				p.mu.Lock()
				p.put(n, emptying) // it comes back: worth waiting for
				p.mu.Unlock()
				p.work.Go(func() { p.retire(&held{a, n}, err) })
				continue
			}
			if !missed {
				p.metrics.poolHits.Inc()
			}
			return &held{a, n}, nil
		}
		if n := p.first(idle); n >= 0 {
			name := slotfs.NewName()
			p.places[n].name = name
			p.put(n, taken)
			p.mu.Unlock()
			miss()
			return p.makeNow(ctx, n, name)
		}
		if p.count(filling, emptying) == 0 {
			p.mu.Unlock()
			return nil, errNoSlot
		}
		changed := p.changed
		p.mu.Unlock()
		miss()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// makeNow makes an attempt in place n. Its container is made when it runs.
func (p *pool) makeNow(ctx context.Context, n int, name string) (*held, error) {
	a, err := p.maker.AcquireAs(ctx, n, name)
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
	p.mu.Lock()
	p.put(h.number, emptying)
	p.mu.Unlock()
	err := p.tryClose(h)
	if err == nil {
		p.giveBack(h.number)
		return nil
	}
	p.log.Error("attempt not removed yet", "attempt", h.Name, "error", err)
	p.mu.Lock()
	p.put(h.number, unclean)
	p.mu.Unlock()
	p.work.Go(func() { p.retry(h) })
	return err
}

func (p *pool) tryClose(h *held) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return h.Close(ctx)
}

func (p *pool) retry(h *held) {
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		p.mu.Lock()
		back := p.back
		p.mu.Unlock()
		last := false
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-back:
		case <-p.closing:
			last = true
		}
		timer.Stop()
		err := p.tryClose(h)
		if err == nil {
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
	p.put(n, idle)
	p.refill()
}

// drain throws away what waits and ends the background tries. Sessions have ended
// before.
func (p *pool) drain(ctx context.Context) error {
	p.shut(errStopping)
	p.end()
	p.once.Do(func() { close(p.closing) })
	done := make(chan struct{})
	go func() {
		p.work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.places) - p.count(idle); n > 0 {
		return fmt.Errorf("%d attempts are not removed; the next start of the launcher will do it", n)
	}
	return nil
}
