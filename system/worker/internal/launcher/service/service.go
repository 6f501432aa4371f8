// Package service is the launcher: it owns the slots, answers the socket, and
// sees that nothing outlives its attempt.
//
// At start it takes a lock on the slots' root, removes whatever an earlier
// launcher left (reconcile.go), and runs the self-test; until that has passed no
// slot is given out, and again after each restart of the engine (gate.go,
// engine.go). Containers are made ahead (fill.go). Each connection is one goroutine
// with at most one slot (session.go); a slot whose removal fails stays out of use
// until it has succeeded (pool.go).
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/selftest"
	"glovebox/system/worker/internal/container/slot"
	"glovebox/system/worker/internal/launcher"
)

// SelfTester runs the self-test. selftest.Tester is the real one.
type SelfTester interface {
	// Run tries every wall and reports what it met; it always returns a report.
	Run(ctx context.Context) selftest.Report
}

// Config is what a service needs beside its parts.
type Config struct {
	Socket  string // path; replaced if a dead launcher left it
	PeerUID uint32 // the worker's uid, the only one that is given slots
	Slots   int
	Warm    int // slots in which a container is made ahead, 0 to Slots
}

// Engine is what the service asks of the engine beside making containers.
type Engine interface {
	container.Inventory
	container.Service
}

// Service is one launcher.
type Service struct {
	config  Config
	maker   *slot.Maker
	engine  Engine
	tester  SelfTester
	log     *slog.Logger
	peers   *complaints // lines that a peer can cause
	metrics *Metrics

	pool *pool
	gate gate

	testing sync.Mutex // one self-test at a time, and no sweep beside it
}

// New returns a service that is not started.
func New(c Config, m *slot.Maker, e Engine, t SelfTester, log *slog.Logger, metrics *Metrics) *Service {
	s := &Service{config: c, maker: m, engine: e, tester: t, log: log, peers: &complaints{log: log}, metrics: metrics}
	s.pool = newPool(c.Slots, c.Warm, m, log, metrics)
	s.gate.set(launcher.Testing)
	return s
}

// maxConnections bounds what a worker can hold open: a connection for each slot
// and some for questions.
func (s *Service) maxConnections() int { return 4*s.config.Slots + 16 }

// stopTimeout bounds the end of all attempts after the service was told to stop.
const stopTimeout = 45 * time.Second

// Run serves until ctx ends, then kills and removes every attempt. It returns an
// error if it cannot start, or if something of an attempt is left at its end.
func (s *Service) Run(ctx context.Context) error {
	lock, err := lockRoot(s.maker.FS.Root)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := s.reconcileAtLast(ctx); err != nil {
		return err
	}
	listener, err := s.listen()
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { s.watchEngine(ctx) })
	running.Go(func() { s.sweepNowAndThen(ctx) })
	running.Go(func() { s.accept(ctx, listener) })
	s.log.Info("serving", "slots", s.config.Slots, "warm", s.config.Warm, "image", s.maker.Image.Ref.Digest, "backing", s.maker.FS.Resolve())

	<-ctx.Done()
	s.gate.set(launcher.Stopping)
	listener.Close()
	running.Wait()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err = s.pool.drain(stopping)
	if err == nil {
		err = s.maker.Tree.RemoveBase(s.maker.Label)
	}
	return err
}

// lockRoot makes sure that no other launcher works below root: reconciling would
// remove its attempts.
func lockRoot(root string) (*os.File, error) {
	if err := os.MkdirAll(root, 0o711); err != nil {
		return nil, fmt.Errorf("make slots.root: %w", err)
	}
	if err := os.Chmod(root, 0o711); err != nil {
		return nil, fmt.Errorf("make slots.root: %w", err)
	}
	if err := passable(root); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(root+"/.lock", os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock slots.root: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock slots.root: another launcher works below %s; stop it or give this one another slots.root and slots.name", root)
		}
		return nil, fmt.Errorf("lock slots.root: %w", err)
	}
	return f, nil
}

// passable demands that the core's user can walk to root: the OCI runtime resolves
// the root filesystem as that user, who belongs to nobody.
func passable(root string) error {
	for dir := root; dir != "/"; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("look at slots.root: %w", err)
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("slots.root: the sandbox's user cannot pass through %s (mode %04o); run chmod o+x on it or choose another slots.root", dir, info.Mode().Perm())
		}
	}
	return nil
}

func (s *Service) accept(ctx context.Context, listener *net.UnixListener) {
	var sessions sync.WaitGroup
	defer sessions.Wait()
	room := make(chan struct{}, s.maxConnections())
	for {
		c, err := listener.AcceptUnix()
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
				s.log.Error("accept failed", "error", err)
				select { // out of descriptors, most likely: do not spin
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
				continue
			}
			return
		}
		select {
		case room <- struct{}{}:
		default:
			s.peers.warn("connection refused: too many are open", "most", cap(room))
			c.Close()
			continue
		}
		sessions.Go(func() {
			defer func() { <-room }()
			s.serve(ctx, launcher.NewConn(c))
		})
	}
}

// SelfTest runs the self-test and opens or shuts the gate by its outcome, unless the
// engine's service went away meanwhile or ctx ended.
func (s *Service) SelfTest(ctx context.Context) selftest.Report {
	s.testing.Lock()
	defer s.testing.Unlock()
	service, opening := s.gate.serviceNumber(), s.pool.openings()
	report := s.tester.Run(ctx)
	if ctx.Err() != nil {
		return report
	}
	s.metrics.selfTest(report)
	missing := report.Missing()
	if !report.Passed() && len(missing) == 0 {
		missing = []string{"none was tried"}
	}
	if !s.gate.settle(service, missing) {
		s.log.Warn("self-test: its outcome does not count, for the engine went away meanwhile")
		return report
	}
	if len(missing) == 0 {
		s.pool.unshut(opening)
		s.log.Info("self-test passed", "walls", len(report.Walls), "duration_ms", report.DurationMS)
		return report
	}
	s.pool.shut(errEngineGone)
	for _, w := range report.Walls {
		if !w.Stands {
			s.log.Error("self-test: a wall does not stand", "wall", w.Name, "met", w.Detail)
		}
	}
	return report
}

// SelfTestAlone runs the self-test where no launcher serves: it takes the lock,
// removes leftovers, tries the walls and leaves nothing.
func (s *Service) SelfTestAlone(ctx context.Context) (selftest.Report, error) {
	lock, err := lockRoot(s.maker.FS.Root)
	if err != nil {
		return selftest.Report{}, err
	}
	defer lock.Close()
	if err := s.Reconcile(ctx); err != nil {
		return selftest.Report{}, err
	}
	report := s.tester.Run(ctx) // and no more: nothing is made ahead for nobody
	return report, s.maker.Tree.RemoveBase(s.maker.Label)
}

// Walls gives a report in the words of the socket.
func Walls(report selftest.Report) []launcher.Wall {
	walls := make([]launcher.Wall, 0, len(report.Walls))
	for _, w := range report.Walls {
		walls = append(walls, launcher.Wall{Name: w.Name, Stands: w.Stands, Detail: bound(w.Detail)})
	}
	return walls
}

// State tells the launcher's state.
func (s *Service) State() launcher.State {
	phase, missing := s.gate.get()
	l := s.maker.Limits
	return launcher.State{
		Phase: phase, Missing: missing, SlotsTotal: s.config.Slots, SlotsFree: s.pool.free(),
		MaxInputBytes: l.MaxInputBytes, MaxResultBytes: l.MaxResultBytes, Timeout: l.Timeout,
		ImageDigest: string(s.maker.Image.Ref.Digest), ImageID: string(s.maker.Image.ID),
	}
}
