package service

import (
	"context"
	"errors"
	"time"

	"glovebox/system/worker/internal/container/slot"
	"glovebox/system/worker/internal/container/slotfs"
)

// mostMakers bounds how many containers are made ahead at once: attempts that run
// have the host to themselves but for these.
const mostMakers = 2

// Pauses after a container could not be made ahead.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 15 * time.Second
)

// waiting is a container made ahead that nobody has been given, under watch.
type waiting struct {
	attempt *slot.Attempt
	since   time.Time
	stop    context.CancelFunc
	watched chan struct{} // closed when the watch has ended
}

// leave ends the watch and hands over the attempt. It must not be called under p.mu.
func (w *waiting) leave() *slot.Attempt {
	w.stop()
	<-w.watched
	return w.attempt
}

// oldest returns the place that has been ready for longest, or -1; p.mu is held.
func (p *pool) oldest() int {
	found := -1
	for i := range p.places {
		if p.places[i].use == ready && (found < 0 || p.places[i].waiting.since.Before(p.places[found].waiting.since)) {
			found = i
		}
	}
	return found
}

// take takes what waits out of place n, which goes to another use; p.mu is held.
func (p *pool) take(n int, u use) *waiting {
	w := p.places[n].waiting
	p.places[n].waiting = nil
	p.put(n, u)
	return w
}

// refill starts to fill as many idle places as are wanted; p.mu is held.
func (p *pool) refill() {
	if !p.open || p.pausing {
		return
	}
	for missing := p.warm - p.count(ready, filling); missing > 0; missing-- {
		n := p.first(idle)
		if n < 0 {
			return
		}
		name, opening := slotfs.NewName(), p.opening
		p.places[n].name = name
		p.put(n, filling)
		p.work.Go(func() { p.fill(n, name, opening) })
	}
}

// fill makes a container in place n and lets it wait there. One that was begun
// before the pool was shut is not kept: the engine it was made by is another.
func (p *pool) fill(n int, name string, opening int) {
	p.makers <- struct{}{}
	a, err := p.maker.AcquireAs(p.life, n, name)
	if err == nil {
		err = a.Prepare(p.life)
	}
	<-p.makers

	p.mu.Lock()
	current := p.open && p.opening == opening
	if err == nil && current {
		p.wait(n, a)
		if p.failures > 0 {
			p.failures = 0
			p.log.Info("the pool is filled again")
		}
		p.mu.Unlock()
		return
	}
	if err != nil && current {
		p.failed(err)
	}
	p.mu.Unlock()
	if a == nil {
		p.giveBack(n)
		return
	}
	_ = p.release(&held{a, n}) // logged and tried again there
}

// failed pauses the filling, longer each time; p.mu is held. Until then attempts are
// made when they are asked for.
func (p *pool) failed(err error) {
	p.metrics.poolFailures.Inc()
	if p.pausing {
		return
	}
	p.failures++
	p.pausing = true
	pause := lastPause
	if p.failures < 6 {
		pause = min(firstPause<<(p.failures-1), lastPause)
	}
	p.log.Error("the pool cannot be filled; slots are made when they are asked for", "error", err, "again_in", pause.String())
	back := p.back
	p.work.Go(func() {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-back:
		case <-p.life.Done():
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.pausing = false
		p.refill()
	})
}

// wait puts a under watch in place n; p.mu is held.
func (p *pool) wait(n int, a *slot.Attempt) {
	watching, stop := context.WithCancel(p.life)
	w := &waiting{attempt: a, since: time.Now(), stop: stop, watched: make(chan struct{})}
	p.places[n].waiting = w
	p.put(n, ready)
	p.work.Go(func() {
		err := a.AwaitUnfit(watching)
		close(w.watched)
		p.mu.Lock()
		mine := p.places[n].waiting == w && watching.Err() == nil
		if mine {
			p.take(n, emptying)
		}
		p.mu.Unlock()
		if mine {
			p.retire(&held{a, n}, err)
		}
	})
}

// Why waiting attempts are thrown away though they are fit.
var (
	errEngineGone = errors.New("the engine that made it has gone, or walls do not stand any more")
	errStopping   = errors.New("the launcher stops")
)

// retire removes a waiting attempt that is not wanted any more. Its place is filled
// anew afterwards.
func (p *pool) retire(h *held, why error) {
	switch {
	case errors.Is(why, errStopping):
	case errors.Is(why, slot.ErrAged):
		p.metrics.poolRecycled.Inc()
	default:
		p.metrics.poolRebuilt.Inc()
		p.log.Warn("a waiting container is thrown away", "attempt", h.Name, "slot", h.number, "error", why)
	}
	_ = p.release(h) // logged and tried again there
}

// shut stops giving out slots and throws away what waits, in the background.
func (p *pool) shut(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = false
	p.opening++
	for n := range p.places {
		if p.places[n].use == ready {
			w := p.take(n, emptying)
			p.work.Go(func() { p.retire(&held{w.leave(), n}, why) })
		}
	}
}

// openings is how often the pool was shut.
func (p *pool) openings() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opening
}

// unshut gives out slots, and fills the pool, unless it was shut again since opening
// was read: the reason for it is then another's to judge.
func (p *pool) unshut(opening int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open || p.opening != opening {
		return
	}
	p.open = true
	close(p.back)
	p.back = make(chan struct{})
	p.refill()
}
