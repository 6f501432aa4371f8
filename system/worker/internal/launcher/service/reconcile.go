package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// sweep is Reconcile while attempts live. It waits for a self-test, whose attempts the
// pool does not know, and does not give way to it: a worker can ask for one after the
// other.
func (s *Service) sweep(ctx context.Context) {
	s.testing.Lock()
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
// is tried whatever the others say.
func (s *Service) clearAway(ctx context.Context) (n cleared, err error) {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	var errs []error
	find := func(list func() ([]string, error)) []string {
		names, err := s.unanswered(list)
		errs = append(errs, err)
		return names
	}
	each := func(count *int, names []string, remove func(name string) error) {
		for _, name := range names {
			if err := remove(name); err != nil {
				errs = append(errs, err)
				continue
			}
			*count++
		}
	}
	groups := find(func() ([]string, error) { return s.maker.Tree.Leftovers(s.maker.Label) })
	each(new(int), groups, func(name string) error { return s.maker.Tree.Group(s.maker.Label, name).KillCore(ctx) })
	containers := find(func() ([]string, error) { return s.engine.Labelled(ctx, s.maker.Label) })
	each(&n.containers, containers, func(name string) error { return s.maker.Engine.Remove(ctx, name) })
	each(&n.groups, groups, func(name string) error { return s.maker.Tree.Group(s.maker.Label, name).Destroy(ctx) })
	slots := find(func() ([]string, error) { return slotfs.Leftovers(s.maker.FS.Root) })
	each(&n.slots, slots, func(name string) error { return slotfs.RemoveLeftover(s.maker.FS.Root, name) })
	return n, errors.Join(errs...)
}

// unanswered returns what is listed and the pool does not know. The pool knows a name
// from before anything bears it until nothing does, and each bears it once: what is
// listed again after the pool denied it is a leftover, and what is not is an attempt
// that ended meanwhile.
func (s *Service) unanswered(list func() ([]string, error)) ([]string, error) {
	names, err := list()
	names = slices.DeleteFunc(names, s.pool.knows)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	again, err := list()
	return slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(again, name) }), err
}
