package service

import (
	"sync"

	"glovebox/system/worker/internal/launcher"
)

// gate is the launcher's phase. Slots are given out in one phase alone, and it is
// entered by one way alone: a self-test that passed on the engine's service that
// answers now.
type gate struct {
	mu      sync.Mutex
	phase   launcher.Phase
	missing []string
	service int // counts the engine's services
}

// set changes the phase; Stopping is final.
func (g *gate) set(phase launcher.Phase) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.phase != launcher.Stopping {
		g.phase, g.missing = phase, nil
	}
}

// lose says that the engine's service has gone, and with it what was known of it.
func (g *gate) lose() {
	g.mu.Lock()
	g.service++
	g.mu.Unlock()
	g.set(launcher.NoEngine)
}

// settle takes the outcome of a self-test that began on the given service, and
// reports whether it counts.
func (g *gate) settle(service int, missing []string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if service != g.service || g.phase == launcher.Stopping || g.phase == launcher.NoEngine {
		return false
	}
	g.phase, g.missing = launcher.Ready, nil
	if len(missing) > 0 {
		g.phase, g.missing = launcher.Refusing, missing
	}
	return true
}

func (g *gate) serviceNumber() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.service
}

func (g *gate) get() (launcher.Phase, []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.phase, g.missing
}

// refusal returns why no slot is given out, or nil.
func (g *gate) refusal() *launcher.Error {
	phase, missing := g.get()
	switch phase {
	case launcher.Ready:
		return nil
	case launcher.Testing:
		return &launcher.Error{Code: launcher.NotReady, Message: "the self-test has not ended yet"}
	case launcher.NoEngine:
		return &launcher.Error{Code: launcher.NotReady, Message: "the engine does not answer; start podman system service again"}
	case launcher.Refusing:
		return &launcher.Error{Code: launcher.NotReady, Message: "walls of the sandbox do not stand on this host; glovebox-launcher selftest tells what was met", Missing: missing}
	}
	return &launcher.Error{Code: launcher.NotReady, Message: "the launcher is stopping"}
}
