package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"glovebox/chaos/rig"
)

// The named instants of system/server/internal/jobs/crashpoint, which the language
// closes to this package. A point that does not exist is never reached, which
// counts as a fault that could not be done.
var (
	submitPoints = []string{"submit/begun", "submit/staged", "submit/stored", "submit/before-commit", "submit/committed"}
	finishPoints = []string{"finish/checked", "finish/staged", "finish/verified", "finish/stored", "finish/before-commit", "finish/committed", "store/synced", "store/renamed"}
	sweepPoints  = []string{"sweep/marked", "sweep/held"}
)

func crashKinds() []Kind {
	at := func(name, title string, points []string, requirements ...string) Kind {
		return Kind{
			Name: name, Title: title, Requirements: append(requirements, "HAR-06"),
			Make: func(random *rand.Rand, r *rig.Rig) Fault {
				c := &crash{name: pick(random, ofRole(r, "server")), point: pick(random, points), skip: random.IntN(3)}
				if points[0] == sweepPoints[0] {
					c.name, c.skip = "sweeper", 0
				}
				// One in four does not die there but is stopped for longer than a lease.
				c.stop = random.IntN(4) == 0
				return c
			},
		}
	}
	return []Kind{
		at("crash-finish", "a server dies or stops at a named step of a result", finishPoints, "STO-02", "STO-03", "JOB-05"),
		at("crash-submit", "a server dies or stops at a named step of a submission", submitPoints, "UPL-08", "JOB-05"),
		at("crash-sweep", "the sweeper dies or stops at a named step", sweepPoints, "STO-03", "UPL-08"),
	}
}

// CrashAt is the fault of a process that dies at one point, for named cases.
func CrashAt(name, point string, skip int, stop bool) Fault {
	return &crash{name: name, point: point, skip: skip, stop: stop}
}

// crash makes a process die or stop by itself when it has passed a point skip
// times.
type crash struct {
	always
	name, point string
	skip        int
	stop        bool
	stopped     bool
}

func (c *crash) String() string {
	does := "dies"
	if c.stop {
		does = "stops for longer than a lease"
	}
	return fmt.Sprintf("%s %s at %s, passage %d", c.name, does, c.point, c.skip+1)
}

// crashWait bounds the wait for the traffic to reach the point.
const crashWait = 20 * time.Second

func (c *crash) Hold() time.Duration {
	if c.stop {
		return rig.Lease + 2*time.Second
	}
	return 200 * time.Millisecond
}

func (c *crash) Inject(ctx context.Context, s *Scene) error {
	if c.name == "sweeper" {
		// Something to sweep: without an orphan the sweeper passes no point of removing one.
		if err := s.PlantOrphan(c.point); err != nil {
			return err
		}
	}
	if err := s.Kill(c.name); err != nil {
		return err
	}
	env := []string{rig.CrashAtEnv + "=" + c.point, fmt.Sprintf("%s=%d", rig.CrashSkip, c.skip)}
	if c.stop {
		env = append(env, rig.CrashHow+"=stop")
	}
	// The traffic may reach the point before the process was seen to be ready.
	starting, cancel := context.WithTimeout(ctx, crashWait)
	defer cancel()
	ready := make(chan error, 1)
	go func() { ready <- s.Restart(starting, c.name, env...) }()
	err := c.await(starting, s)
	if err != nil {
		cancel()
		return errors.Join(err, <-ready)
	}
	cancel()
	<-ready // whose answer says only that it did not come to be ready
	return nil
}

// await waits until the process has reached its point.
func (c *crash) await(ctx context.Context, s *Scene) error {
	began := false
	for {
		p, alive := s.Process(c.name)
		began = began || alive
		switch {
		case began && !alive:
			return nil
		case alive && c.stop && rig.Stopped(p.PID):
			c.stopped = true
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s was not passed by %s: %w", c.point, c.name, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *crash) Heal(ctx context.Context, s *Scene) error {
	if c.stopped {
		return s.Signal(c.name, syscall.SIGCONT)
	}
	if _, alive := s.Process(c.name); alive { // it never came to its point
		if err := s.Kill(c.name); err != nil {
			return err
		}
	} else if err := s.Await(ctx, c.name); err != nil {
		return err
	}
	return s.Restart(ctx, c.name)
}
