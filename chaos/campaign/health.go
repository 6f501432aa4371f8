package campaign

import (
	"context"
	"fmt"
	"strings"
	"time"

	"glovebox/chaos/rig"
	"glovebox/chaos/traffic"
)

// overdueGrace is how long after its end a lease may still stand in a row: the
// interval at which servers look for such, and as much again for a busy machine.
const overdueGrace = 3 * time.Second

// health waits until every process runs, every server is ready and has taken a
// job of which it gives the result, and no lease is overdue. It returns "" then,
// and what is missing when its time is over. It is done before the first fault and
// after each, so that each begins on a whole system.
func (c *campaign) health(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, recoverTime)
	defer cancel()
	for {
		why := c.unwell(ctx)
		if why == "" {
			return ""
		}
		select {
		case <-ctx.Done():
			return "not healthy after " + recoverTime.String() + ": " + why
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (c *campaign) unwell(ctx context.Context) string {
	if why := c.supervise(ctx); why != "" {
		return why
	}
	for i := range c.rig.Public {
		if err := c.scene.Bystander.Ready(ctx, i); err != nil {
			return err.Error()
		}
	}
	for i := range c.rig.Public {
		if why := c.throughServer(ctx, i); why != "" {
			return why
		}
	}
	overdue, err := c.rig.Overdue(ctx, overdueGrace)
	if err != nil {
		return err.Error()
	}
	if len(overdue) > 0 {
		return fmt.Sprintf("%d leases are over for more than %s: %s", len(overdue), overdueGrace, overdue[0])
	}
	return ""
}

// supervise starts what has ended by itself, as the units of an installation do: a
// launcher that starts while the engine is away, or a server while the database is,
// ends with an error and is started again. A crash is not forgiven.
func (c *campaign) supervise(ctx context.Context) string {
	missing := c.rig.Missing()
	for _, name := range missing {
		end := c.rig.LastWords(name)
		if strings.Contains(end, "panic:") || strings.Contains(end, "fatal error:") || strings.Contains(end, "goroutine ") {
			c.finding("no-crash", "", name+" crashed: "+end)
		}
		c.mu.Lock()
		c.run.Restarted = append(c.run.Restarted, name+": "+end)
		c.mu.Unlock()
		fmt.Fprintf(c.Out, "   %s had ended, it is started again: %s\n", name, end)
	}
	if len(missing) == 0 {
		return ""
	}
	if err := c.rig.Revive(ctx); err != nil {
		return err.Error()
	}
	return strings.Join(missing, ", ") + " had ended"
}

// goesOn requires that each server takes a job and gives its result while
// something is broken that must not stop it.
func (c *campaign) goesOn(ctx context.Context, faults []string) {
	for i := range c.rig.Public {
		why := c.throughServer(ctx, i)
		if why != "" && ctx.Err() == nil {
			c.finding("service-goes-on", "", fmt.Sprintf("during %s: %s", strings.Join(faults, " and "), why))
		}
	}
}

// probeTime bounds one job that looks at the health of a server: a lease that runs
// out, and a run.
const probeTime = rig.Lease + 40*time.Second

// throughServer has server i take a job and give its result.
func (c *campaign) throughServer(ctx context.Context, i int) string {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	only := c.scene.Bystander.Of(i, fmt.Sprintf("health-%d", i))
	file := traffic.SizedFile(c.scene.Random, "health", 200)
	sent, ok := only.Deliver(ctx, c.scene.Random, file)
	if !ok {
		return fmt.Sprintf("server %d takes no job", i)
	}
	if why := only.Collect(ctx, c.scene.Random, sent); why != "" {
		return fmt.Sprintf("server %d gives no result: %s", i, why)
	}
	return ""
}
