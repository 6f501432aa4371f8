package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/slot"
)

// Warm is an attempt whose container is made and initialised and waits for its
// input, as in the launcher's pool.
type Warm struct {
	bench   *Bench
	attempt *slot.Attempt
	spec    container.Spec
	profile string
}

// Warm makes one for the attempt's program, slot and limits.
func (b *Bench) Warm(ctx context.Context, a Attempt) (w *Warm, err error) {
	if a.Slot < 0 || a.Slot >= Slots {
		return nil, fmt.Errorf("slot %d is not in 0 to %d", a.Slot, Slots-1)
	}
	img, err := b.imageOf(a.Program)
	if err != nil {
		return nil, err
	}
	w = &Warm{bench: b}
	if w.profile, err = b.profile(a.Filter); err != nil {
		return nil, err
	}
	m := b.maker(a, w.profile, img)
	m.Alter = func(s *container.Spec) { w.spec = *s }
	if w.attempt, err = m.Acquire(ctx, a.Slot); err == nil {
		err = w.attempt.Prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, w.Close(ctx))
	}
	return w, nil
}

// Run fills the input in place, starts the core and returns its report with the
// time from the filled input to the moment its death was seen.
func (w *Warm) Run(ctx context.Context, input []byte) (Report, time.Duration, error) {
	if _, err := w.attempt.Input().Write(input); err != nil {
		return Report{}, 0, fmt.Errorf("write the input: %w", err)
	}
	filled := time.Now()
	v, err := w.attempt.Run(ctx)
	if err != nil {
		return Report{}, 0, err
	}
	report := Report{Verdict: v}
	report.Result, err = io.ReadAll(io.LimitReader(w.attempt.Result(), maxReport))
	return report, w.attempt.DeathSeen().Sub(filled), err
}

// Processes are the process that waits to become the core, and its monitor.
func (w *Warm) Processes() (waiting, monitor int, err error) {
	pids, err := w.bench.tree.Group(w.bench.label, w.attempt.Name).Core()
	if err != nil {
		return 0, 0, err
	}
	if len(pids) != 1 {
		return 0, 0, fmt.Errorf("a waiting container has one process, this has %v", pids)
	}
	monitor, err = parentOf(pids[0])
	return pids[0], monitor, err
}

func parentOf(pid int) (int, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		var parent int
		if n, _ := fmt.Sscanf(line, "PPid:\t%d", &parent); n == 1 {
			return parent, nil
		}
	}
	return 0, fmt.Errorf("process %d shows no parent", pid)
}

// Place is where the attempt's files lie on the host.
func (w *Warm) Place() (rootfs, input, result string) {
	dir := filepath.Dir(w.spec.Rootfs)
	return w.spec.Rootfs, filepath.Join(dir, "input"), filepath.Join(dir, "result")
}

// Close removes everything.
func (w *Warm) Close(ctx context.Context) error {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	var err error
	if w.attempt != nil {
		err = w.attempt.Close(closing)
	}
	return errors.Join(err, os.Remove(w.profile))
}
