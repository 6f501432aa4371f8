package service

import (
	"context"
	"time"

	"glovebox/system/worker/internal/launcher"
)

// Pauses between two looks at an engine that does not answer.
const (
	firstLook = 50 * time.Millisecond
	lastLook  = time.Second
)

// watchEngine tests the walls once the engine answers, and again for each service
// that takes its place. When one dies, whatever it was doing is half done and what
// it promised is nobody's word: no slot is given out, what waits is thrown away,
// leftovers are removed, the walls are tried again, and only then the pool is
// filled anew. Attempts that run go on; their end is the kernel's word.
func (s *Service) watchEngine(ctx context.Context) {
	for first := true; ; first = false {
		gone := s.awaitEngine(ctx)
		if gone == nil {
			return
		}
		s.gate.set(launcher.Testing)
		serving, cancel := until(ctx, gone)
		if !first {
			s.log.Info("the engine answers again")
			s.sweep(serving)
		}
		s.keepTested(serving)
		cancel()
		if ctx.Err() != nil {
			return
		}
		s.gate.lose()
		s.pool.shut(errEngineGone)
		s.log.Error("the engine's service has gone; no slot is given out until it answers and the walls are tried again")
	}
}

// Pauses between self-tests while a wall is missing.
const (
	firstRetest = 2 * time.Second
	lastRetest  = 5 * time.Minute
)

// keepTested runs the self-test, and again whenever the launcher refuses, until
// serving ends: a probe can fail for the death of its monitor alone, and a host can
// be mended.
func (s *Service) keepTested(serving context.Context) {
	s.SelfTest(serving)
	for pause := firstRetest; ; {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-serving.Done():
			timer.Stop()
			return
		}
		if phase, _ := s.gate.get(); phase == launcher.Refusing {
			s.SelfTest(serving)
			pause = min(2*pause, lastRetest)
		} else {
			pause = firstRetest
		}
	}
}

// awaitEngine waits until the engine answers; nil is the end of ctx.
func (s *Service) awaitEngine(ctx context.Context) <-chan struct{} {
	said := false
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		gone, err := s.engine.Follow(ctx)
		if err == nil {
			return gone
		}
		if ctx.Err() != nil {
			return nil
		}
		s.gate.set(launcher.NoEngine)
		if !said {
			s.log.Warn("waiting for the engine", "error", err)
			said = true
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// until returns a context that ends with ctx or when gone is closed.
func until(ctx context.Context, gone <-chan struct{}) (context.Context, context.CancelFunc) {
	serving, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-gone:
			cancel()
		case <-serving.Done():
		}
	}()
	return serving, cancel
}
