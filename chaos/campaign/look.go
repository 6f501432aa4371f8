package campaign

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"glovebox/chaos/fault"
	"glovebox/chaos/history"
)

// lastLook lets the system come to rest and looks at all of it from outside.
func (c *campaign) lastLook(ctx context.Context) (history.Record, error) {
	for _, text := range c.recorder.Surprises() {
		c.finding("nothing-seen", "", text)
	}
	c.run.Quiet = c.rests(ctx)
	var err error
	if c.run.Mismatches, err = c.settled(ctx, c.mismatches); err != nil {
		return history.Record{}, err
	}
	snapshot, err := c.rig.Snapshot(ctx)
	if err != nil {
		return history.Record{}, err
	}
	if c.run.Leftovers, err = c.leftovers(ctx); err != nil {
		return history.Record{}, err
	}
	return history.Record{
		Rules:    history.Rules{Quiet: c.run.Quiet, LeaseGrace: overdueGrace, Began: c.recorder.Began(), ClockSlack: 2 * time.Second},
		Events:   c.recorder.Events(),
		Snapshot: snapshot,
	}, nil
}

// leftovers looks twice: at rest, where exactly the containers that wait for the next
// jobs may be there, and after launchers and workers have ended in good order, where
// nothing may.
func (c *campaign) leftovers(ctx context.Context) ([]string, error) {
	atRest, err := c.settled(ctx, func(context.Context) ([]string, error) { return c.rig.Leftovers() })
	if err != nil {
		return nil, err
	}
	for _, name := range c.rig.Everyone() {
		if name == "sweeper" {
			continue // it clears the last temporary files
		}
		if err := c.rig.Stop(name, fault.GraceTime); err != nil {
			c.finding("graceful-shutdown", "", err.Error())
		}
	}
	after, err := c.settled(ctx, c.rig.Remains)
	return append(atRest, after...), err
}

// rests waits until no job is open.
func (c *campaign) rests(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	for {
		if _, open, err := c.rig.Count(ctx); err == nil && open == 0 {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// settled asks again until there is nothing to say or the time is over, and returns
// what was said last. A look that fails says nothing.
func (c *campaign) settled(ctx context.Context, look func(context.Context) ([]string, error)) (last []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, restTime)
	defer cancel()
	told := time.NewTimer(restTime / 4)
	defer told.Stop()
	for {
		found, err := look(ctx)
		if err == nil {
			if last = found; len(last) == 0 {
				return nil, nil
			}
		}
		select {
		case <-ctx.Done():
			if last == nil {
				return nil, err
			}
			return last, nil
		case <-told.C:
			fmt.Fprintf(c.Out, "   still there: %s (%v)\n", strings.Join(last, ", "), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// mismatches compares what rows name with what lies in storage.
func (c *campaign) mismatches(ctx context.Context) ([]string, error) {
	named, err := c.rig.NamedFiles(ctx)
	if err != nil {
		return nil, err
	}
	stored, err := c.rig.Objects()
	if err != nil {
		return nil, err
	}
	var found []string
	for key, by := range named {
		if _, ok := stored[key]; !ok {
			found = append(found, fmt.Sprintf("the %s is not in storage: %s", by, key))
		}
	}
	for key := range stored {
		if _, ok := named[key]; !ok {
			found = append(found, "no row names the stored file "+key)
		}
	}
	slices.Sort(found)
	return found, nil
}
