package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"glovebox/sandbox-probes/catalogue"
	"glovebox/sandbox-probes/control"
	"glovebox/sandbox-probes/host"
	"glovebox/system/worker/probe"
	"glovebox/threat-model/evidence"
)

// endings lets cores end in every way they can, beside a neighbour that works and
// must not notice.
func (s *Suite) endings(ctx context.Context) error {
	type task struct {
		ending catalogue.Ending
		way    catalogue.Way
	}
	var tasks []task
	for _, e := range s.catalogue.Endings {
		for i, w := range e.Ways {
			if s.opts.Short && i > 2 {
				break // the CI size tries three ways a program
			}
			tasks = append(tasks, task{e, w})
		}
	}
	if len(tasks) == 0 {
		return nil
	}
	beside, stop := context.WithCancel(ctx)
	var neighbour sync.WaitGroup
	neighbour.Go(func() { s.neighbour(beside) })
	err := parallel(len(tasks), func(slot, i int) error {
		t := tasks[i]
		if err := s.ending(ctx, slot, t.ending, t.way); err != nil {
			return fmt.Errorf("%s/%s: %w", t.ending.Name, t.way.Name, err)
		}
		return nil
	})
	stop()
	neighbour.Wait()
	return err
}

func (s *Suite) ending(ctx context.Context, slot int, e catalogue.Ending, w catalogue.Way) error {
	started := time.Now()
	input := []byte(e.Name + " " + w.Order + "\n")
	l := limits()
	if w.Ends == "timeout" {
		l.Timeout = 1500 * time.Millisecond
	}
	outside, err := endOf(ctx, s.program, input, w.Control)
	if err != nil {
		return err
	}
	attempt := probe.Attempt{Program: s.program, Input: input, Slot: slot, Limits: l, Filter: probe.Filter{Off: e.Lifted}}
	if err := s.oneEnding(ctx, e, w, attempt, "", outside, started); err != nil || !e.Lifted {
		return err
	}
	// Without its own namespace of processes the first one's end does not end the
	// rest: the slot's group is then the wall.
	attempt.Without = []string{"pid"}
	return s.oneEnding(ctx, e, w, attempt, "-in-the-hosts-pids", outside, time.Now())
}

// oneEnding runs the attempt and files how it ended, and who was left.
func (s *Suite) oneEnding(ctx context.Context, e catalogue.Ending, w catalogue.Way, attempt probe.Attempt, suffix, outside string, started time.Time) error {
	var left []int
	attempt.After = func(r probe.Running) (err error) {
		left, err = host.ProcessesOf(r.UIDBase, probe.IDRange)
		return err
	}
	report, err := s.bench.Run(ctx, attempt)
	if err != nil {
		return err
	}
	c := evidence.Case{
		ID: e.Name + "/" + w.Name + suffix, Title: e.Loss + ": " + w.Name, Requirements: ids(e.Requirements), Threats: ids(e.Threats), Tried: "as the core: " + w.Order,
		Oracle: "wait status from the kernel by pidfd, memory deaths from the cgroup; the host's processes of the slot's users once the verdict is there", Verdict: evidence.Held,
		Detail: fmt.Sprintf("%s; control %s", report.Outcome(), outside),
	}
	switch {
	case !report.Ended(w.Ends):
		c.Verdict, c.Detail = evidence.Breached, fmt.Sprintf("wanted %s, got %s", w.Ends, report.Outcome())
	case len(left) > 0:
		c.Verdict, c.Detail = evidence.Breached, fmt.Sprintf("processes %v outlive the verdict", left)
	case e.Lifted && bytes.Contains(report.Result, []byte("forged")) != (w.Ends == "exit 0") && suffix == "":
		c.Verdict, c.Detail = evidence.Errored, "whoever was left did not write, so that nothing shows that there was anybody"
	case outside != w.Control:
		c.Verdict, c.Detail = evidence.Errored, fmt.Sprintf("the control ended with %s, wanted %s", outside, w.Control)
	}
	c.DurationMS = time.Since(started).Milliseconds()
	s.file(c)
	return nil
}

// After what time a control counts as running on: where that is wanted, and where
// an end is, which may take long on a busy machine.
const (
	runsOn   = "runs on"
	patience = time.Second
	leniency = 20 * time.Second
)

// endOf runs the program unconfined and says how it ended; wanted only tells how
// long to wait.
func endOf(ctx context.Context, program string, input []byte, wanted string) (string, error) {
	wait := leniency
	if wanted == runsOn {
		wait = patience
	}
	dir, err := control.Folder(program, input)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	cmd := control.Command(waiting, program, dir)
	err = cmd.Run()
	if waiting.Err() != nil {
		return runsOn, nil
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", fmt.Errorf("run the control: %w", err)
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return fmt.Sprintf("signal %d", int(status.Signal())), nil
	}
	return fmt.Sprintf("exit %d", status.ExitStatus()), nil
}

// neighbour runs well-behaved jobs in a slot of its own until ctx ends, and files
// whether each came out right.
func (s *Suite) neighbour(ctx context.Context) {
	const slot = probe.Slots - 1
	input := []byte("neighbour work=200\n" + string(bytes.Repeat([]byte("what the neighbour works on\n"), 200)))
	h := fnv.New64a()
	h.Write(input)
	want := fmt.Appendf(nil, "%s\nFNV %016x\n", input, h.Sum64())
	c := evidence.Case{
		ID: "neighbour/undisturbed", Title: "a job beside hostile ones comes out right", Requirements: []string{"SBX-04", "SBX-15"}, Threats: []string{"NBR-D1", "NBR-I1"},
		Tried: "every ending of the catalogue in two other slots", Oracle: "the neighbour's result, byte by byte", Verdict: evidence.Held,
	}
	right := 0
	for ctx.Err() == nil {
		report, err := s.bench.Run(context.WithoutCancel(ctx), probe.Attempt{Program: s.program, Input: input, Slot: slot, Limits: limits()})
		if err != nil {
			c.Verdict, c.Detail = evidence.Errored, err.Error()
			break
		}
		if !report.Ended("exit 0") || !bytes.Equal(report.Result, want) {
			c.Verdict, c.Detail = evidence.Breached, fmt.Sprintf("job %d ended with %s and %d of %d bytes", right+1, report.Outcome(), len(report.Result), len(want))
			break
		}
		right++
	}
	if c.Verdict == evidence.Held {
		c.Detail = fmt.Sprintf("%d jobs right", right)
	}
	if right == 0 && c.Verdict == evidence.Held {
		c.Verdict, c.Detail = evidence.Errored, "no neighbour ran"
	}
	s.file(c)
}
