package service

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

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
