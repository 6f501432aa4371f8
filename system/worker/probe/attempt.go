package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/slot"
	"glovebox/system/worker/internal/container/verdict"
)

// Attempt says what to run. Only Program and Limits are needed.
type Attempt struct {
	Program string // path of a static program, the core
	Input   []byte
	Slot    int // below Slots
	Limits  Limits
	Filter  Filter
	Without []string // ids of Walls to take away

	// Watch, if set, is called once the core runs, while it runs. When it returns
	// the attempt goes on to its end by itself; when the core ends first, Watch's
	// context is over and its error about that is no fault.
	Watch func(context.Context, Running) error
	// After, if set, is called when the core is dead and judged, before anything of
	// the attempt is removed. Its PID is zero.
	After func(Running) error
}

// Running is a core at work, seen from outside.
type Running struct {
	PID     int    // of the core, in the host's view
	Name    string // the attempt's random name
	Cgroup  string // the attempt's group, below each hierarchy's mount point
	UIDBase uint32
	Input   *os.File // the input: what is written here the core can read at once
	Result  *os.File // the result, for reading
	SlotDir string   // the slot's own filesystem
}

// Report is what came of an attempt.
type Report struct {
	Verdict verdict.Verdict
	Result  []byte // at most maxReport bytes of it
}

// errEnded ends a Watch whose core has ended.
var errEnded = errors.New("the attempt has ended")

// maxReport bounds what is read of a result.
const maxReport = 8 << 20

// Run carries out one attempt and removes everything it made. The error is a
// fault of the bench, or of Watch; what the core did is in the report.
func (b *Bench) Run(ctx context.Context, a Attempt) (report Report, err error) {
	if a.Slot < 0 || a.Slot >= Slots {
		return report, fmt.Errorf("slot %d is not in 0 to %d", a.Slot, Slots-1)
	}
	alter, cuts, err := removals(a.Without)
	if err != nil {
		return report, err
	}
	if len(cuts) > 0 {
		if b.runtime != b.path("rt/runc") {
			return report, errors.New("this bench's engine has a runtime of its own: nothing can be cut from its containers")
		}
		b.cutting.Lock()
		defer b.cutting.Unlock()
		if err := b.setCuts(cuts); err != nil {
			return report, err
		}
		defer func() { err = errors.Join(err, b.setCuts(nil)) }()
	} else {
		b.cutting.RLock()
		defer b.cutting.RUnlock()
	}
	img, err := b.imageOf(a.Program)
	if err != nil {
		return report, err
	}
	profile, err := b.profile(a.Filter)
	if err != nil {
		return report, err
	}
	defer os.Remove(profile)
	m := b.maker(a, profile, img)
	var spec container.Spec
	m.Alter = func(s *container.Spec) { alter(s, b.tree); spec = *s }
	attempt, err := m.Acquire(ctx, a.Slot)
	if attempt != nil {
		defer func() {
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
			defer cancel()
			err = errors.Join(err, attempt.Close(closing))
		}()
	}
	if err != nil {
		return report, err
	}
	if _, err := attempt.Input().Write(a.Input); err != nil {
		return report, fmt.Errorf("write the input: %w", err)
	}
	if report.Verdict, err = b.run(ctx, a, attempt, spec); err != nil {
		return report, err
	}
	if a.After != nil {
		if err := a.After(b.seen(a, attempt, spec)); err != nil {
			return report, err
		}
	}
	report.Result, err = io.ReadAll(io.LimitReader(attempt.Result(), maxReport))
	return report, err
}

func (b *Bench) run(ctx context.Context, a Attempt, attempt *slot.Attempt, spec container.Spec) (verdict.Verdict, error) {
	if a.Watch == nil {
		return attempt.Run(ctx)
	}
	type end struct {
		v   verdict.Verdict
		err error
	}
	ended := make(chan end, 1)
	watching, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		v, err := attempt.Run(ctx)
		ended <- end{v, err}
		cancel(errEnded)
	}()
	r := b.seen(a, attempt, spec)
	var err error
	if r.PID, err = b.awaitCore(watching, attempt.Name); err == nil {
		err = a.Watch(watching, r)
	}
	e := <-ended
	if errors.Is(err, errEnded) {
		err = nil // there was nothing more to watch; the verdict says why
	}
	return e.v, errors.Join(err, e.err)
}

func (b *Bench) seen(a Attempt, attempt *slot.Attempt, spec container.Spec) Running {
	return Running{
		Name: attempt.Name, Cgroup: spec.CgroupParent, UIDBase: b.uidBase() + uint32(a.Slot)*IDRange,
		Input: attempt.Input(), Result: attempt.Result(), SlotDir: filepath.Dir(spec.Rootfs),
	}
}

// awaitCore returns the process of the attempt once it runs the core's program.
func (b *Bench) awaitCore(ctx context.Context, name string) (int, error) {
	group := b.tree.Group(b.label, name)
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for {
		pids, err := group.Core()
		if err != nil {
			return 0, err
		}
		for _, pid := range pids {
			if exe, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe"); err == nil && strings.HasSuffix(exe, container.CorePath) {
				return pid, nil
			}
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("see the core run: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// Outcome is a short word for a verdict: the kind, with the number that belongs
// to it.
func (r Report) Outcome() string {
	v := r.Verdict
	switch v.Kind {
	case verdict.Exited:
		return "exit " + strconv.Itoa(v.ExitCode)
	case verdict.Signaled:
		return "signal " + strconv.Itoa(v.Signal)
	case verdict.SandboxFailure:
		return string(v.Kind) + ": " + v.Detail
	}
	return string(v.Kind)
}

// Ended reports whether the attempt ended in one of the outcomes.
func (r Report) Ended(outcomes ...string) bool { return slices.Contains(outcomes, r.Outcome()) }
