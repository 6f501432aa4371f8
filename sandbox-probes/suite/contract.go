package suite

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"glovebox/system/worker/probe"
	"glovebox/threat-model/evidence"
)

// contract shows that the filter's list is minimal: without any one name, what the
// contract promises to a core breaks, or the runtime's own start does.
func (s *Suite) contract(ctx context.Context) error {
	if !s.wantsStage("contract/") {
		return nil
	}
	make := exec.CommandContext(ctx, "make", "-C", filepath.Join(s.opts.Root, "core"), "../out/core/exerciser")
	if said, err := make.CombinedOutput(); err != nil {
		return fmt.Errorf("build the contract's exerciser: %w\n%s", err, said)
	}
	exerciser, err := filepath.Abs(filepath.Join(s.opts.Root, "out/core/exerciser"))
	if err != nil {
		return err
	}
	run := func(slot int, f probe.Filter) (probe.Report, error) {
		l := limits()
		l.MemoryBytes = 256 << 20
		return s.bench.Run(ctx, probe.Attempt{Program: exerciser, Input: []byte("one\ntwo\nthree\n"), Slot: slot, Limits: l, Filter: f, Watch: stopAndGoOn})
	}
	whole, err := run(0, probe.Filter{})
	if err != nil {
		return err
	}
	c := evidence.Case{ID: "contract/whole", Title: "what the contract promises works under the list", Requirements: []string{"SBX-06", "COR-01"}, Threats: []string{"BOX-E2"},
		Tried: "the exerciser, stopped and let go on by the host while it works", Oracle: "the launcher's verdict", Verdict: evidence.Held, Detail: whole.Outcome()}
	if !whole.Ended("exit 0") {
		c.Verdict = evidence.Breached
	}
	s.file(c)
	if c.Verdict != evidence.Held {
		return nil
	}
	names, _, err := probe.Names()
	if err != nil {
		return err
	}
	return parallel(len(names), func(slot, i int) error {
		if !s.wants("contract/without-" + names[i]) {
			return nil
		}
		started := time.Now()
		report, err := run(slot, probe.Filter{Remove: []string{names[i]}})
		if err != nil {
			return err
		}
		c := evidence.Case{ID: "contract/without-" + names[i], Title: names[i] + " is needed", Requirements: []string{"SBX-06"}, Threats: []string{"BOX-E2"}, Tried: "the list without it",
			Oracle: "the launcher's verdict on the exerciser", Verdict: evidence.Held, Detail: report.Outcome(), DurationMS: time.Since(started).Milliseconds()}
		if report.Ended("exit 0") {
			c.Verdict, c.Detail = evidence.Breached, "the exerciser and the start work without it: the list is not minimal"
		}
		s.file(c)
		return nil
	})
}

// stopEvery is how long a core works between two stops, well below its sleeps, so
// that each sleep is interrupted.
const stopEvery = 5 * time.Millisecond

// stopAndGoOn stops the core and lets it go on, again and again, until it ends: a
// host may do so at any time, and a core that slept then comes back through
// restart_syscall.
func stopAndGoOn(ctx context.Context, r probe.Running) error {
	ticker := time.NewTicker(stopEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
				if err := syscall.Kill(r.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
					return fmt.Errorf("stop the core and let it go on: %w", err)
				}
			}
		}
	}
}
