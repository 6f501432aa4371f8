package service

import (
	"context"
	"fmt"
	"time"

	"glovebox/system/worker/internal/container/slotfs"
)

// reconcileTimeout bounds the clean-up at start.
const reconcileTimeout = 60 * time.Second

// Reconcile removes everything that bears this launcher's name and that no
// attempt of this process made: processes and cgroups first, which needs no
// engine, then the engine's records, then mounts, disks and folders. The caller
// holds the lock on the slots' root.
func (s *Service) Reconcile(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	groups, err := s.maker.Tree.Leftovers(s.maker.Label)
	if err != nil {
		return err
	}
	for _, name := range groups {
		if err := s.maker.Tree.Group(s.maker.Label, name).KillCore(ctx); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
	}
	containers, err := s.inventory.Labelled(ctx, s.maker.Label)
	if err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	for _, name := range containers {
		if err := s.maker.Engine.Remove(ctx, name); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
	}
	for _, name := range groups {
		if err := s.maker.Tree.Group(s.maker.Label, name).Destroy(ctx); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
	}
	slots, err := slotfs.Leftovers(s.maker.FS.Root)
	if err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	for _, name := range slots {
		if err := slotfs.RemoveLeftover(s.maker.FS.Root, name); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
	}
	if n := len(groups) + len(containers) + len(slots); n > 0 {
		s.log.Warn("removed what an earlier launcher left", "cgroups", len(groups), "containers", len(containers), "slots", len(slots))
	}
	return nil
}
