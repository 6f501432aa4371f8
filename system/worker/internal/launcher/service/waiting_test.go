package service

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"glovebox/system/worker/internal/container/enginetest"
	"glovebox/system/worker/internal/container/slot"
	"glovebox/threat-model/evidence"
)

// A self-test asked for on one connection passes; before the pool is opened by it the
// engine goes, and the pool is shut. It stays so until another self-test.
func TestAPoolShutMeanwhileIsNotOpened(t *testing.T) {
	evidence.Proves(t, "SBX-10")
	p := newPool(1, 0, nil, slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
	before := p.openings()
	p.shut(errEngineGone)
	p.unshut(before)
	if p.open {
		t.Error("a self-test that began before the shutting opens the pool")
	}
	p.unshut(p.openings())
	if !p.open {
		t.Error("a self-test that began after the shutting does not open the pool") // the control
	}
}

// The only slot's container died a moment ago and nobody has noticed: who asks now
// gets the slot made anew, and is not told that every slot is in use.
func TestADeadContainerIsNoSlotInUse(t *testing.T) {
	m := enginetest.Maker(t, enginetest.NewBare(t), enginetest.Scripted(t), nil)
	p := newPool(1, 0, m, slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
	p.unshut(p.openings())
	watched := make(chan struct{})
	close(watched)
	p.mu.Lock()
	p.places[0].waiting = &waiting{attempt: &slot.Attempt{Name: "dead"}, since: time.Now(), stop: func() {}, watched: watched}
	p.put(0, ready)
	p.mu.Unlock()
	h, err := p.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if h.Name == "dead" {
		t.Error("the dead container is given out")
	}
	if err := p.release(h); err != nil {
		t.Error(err)
	}
	if err := p.drain(t.Context()); err != nil {
		t.Error(err)
	}
}
