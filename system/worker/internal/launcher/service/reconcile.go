package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"glovebox/system/worker/internal/container/slotfs"
)

// Bound is how long anything of an attempt may outlive it: a container, cgroup, mount,
// process, descriptor or slot folder. It counts from the attempt's end while launcher
// and engine run, else from when both run again (docs/ARCHITECTURE.md). Until a dead
// launcher is started again, its processes end by their own limits: at the latest by
// the engine's, limits.timeout and 30 s after a start, and two minutes more for one
// that waited.
const Bound = 15 * time.Second

// reconcileTimeout bounds one clean-up.
const reconcileTimeout = 60 * time.Second

// sweepEvery is how often a launcher that serves looks for what nobody answers for:
// a monitor whose engine was killed can bring a container to life after its attempt
// was removed.
const sweepEvery = 5 * time.Second

// Reconcile removes everything that bears this launcher's name and that no attempt
// of this process made. The caller holds the lock on the slots' root.
func (s *Service) Reconcile(ctx context.Context) error {
	n, err := s.clearAway(ctx)
	if err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	if n.any() {
		s.log.Warn("removed what an earlier launcher left", "cgroups", n.groups, "containers", n.containers, "slots", n.slots)
	}
	return nil
}

// Tries at the first clean-up, for an engine that is being restarted.
const (
	reconcileTries = 60
	reconcilePause = 500 * time.Millisecond
)

// reconcileAtLast reconciles, and tries again for a while where that fails.
func (s *Service) reconcileAtLast(ctx context.Context) error {
	for try := 1; ; try++ {
		err := s.Reconcile(ctx)
		if err == nil || try == reconcileTries {
			return err
		}
		if try == 1 {
			s.log.Warn("the clean-up is tried again", "error", err)
		}
		timer := time.NewTimer(reconcilePause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// sweepNowAndThen sweeps until ctx ends.
func (s *Service) sweepNowAndThen(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.sweep(ctx)
		}
	}
}

// sweep is Reconcile while attempts live. It lets a self-test go first, whose
// attempts the pool does not know.
func (s *Service) sweep(ctx context.Context) {
	if !s.testing.TryLock() {
		return
	}
	defer s.testing.Unlock()
	n, err := s.clearAway(ctx)
	if n.any() {
		s.log.Warn("removed what nobody answers for", "cgroups", n.groups, "containers", n.containers, "slots", n.slots)
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("sweep: something may be left; it is looked for again", "error", err)
	}
}

// cleared counts what was removed.
type cleared struct{ groups, containers, slots int }

func (c cleared) any() bool { return c.groups+c.containers+c.slots > 0 }

// clearAway removes what the pool does not know: processes and cgroups first, which
// needs no engine, then the engine's records, then mounts, disks and folders. Each
// is tried whatever the others say. A name is looked at only after it was seen: the
// pool knows each before anything bears it.
func (s *Service) clearAway(ctx context.Context) (n cleared, err error) {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	var errs []error
	each := func(count *int, names []string, err error, remove func(name string) error) {
		if err != nil {
			errs = append(errs, err)
		}
		for _, name := range names {
			if s.pool.knows(name) {
				continue
			}
			if err := remove(name); err != nil {
				errs = append(errs, err)
				continue
			}
			*count++
		}
	}
	groups, err := s.maker.Tree.Leftovers(s.maker.Label)
	each(new(int), groups, err, func(name string) error { return s.maker.Tree.Group(s.maker.Label, name).KillCore(ctx) })
	containers, err := s.engine.Labelled(ctx, s.maker.Label)
	each(&n.containers, containers, err, func(name string) error { return s.maker.Engine.Remove(ctx, name) })
	each(&n.groups, groups, nil, func(name string) error { return s.maker.Tree.Group(s.maker.Label, name).Destroy(ctx) })
	slots, err := slotfs.Leftovers(s.maker.FS.Root)
	each(&n.slots, slots, err, func(name string) error { return slotfs.RemoveLeftover(s.maker.FS.Root, name) })
	return n, errors.Join(errs...)
}
