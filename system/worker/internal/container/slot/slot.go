// Package slot carries out one attempt: a place of its own, a container in it,
// a death, a verdict, and nothing left.
//
// An attempt is used once. Acquire makes its cgroup and filesystem, Prepare the
// container in it (Run does so itself where nobody did); the caller writes the
// input and calls Run; Close takes everything away again, whatever happened before,
// and may be repeated until it succeeds.
package slot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/cgroup"
	"glovebox/system/worker/internal/container/image"
	"glovebox/system/worker/internal/container/pidfd"
	"glovebox/system/worker/internal/container/slotfs"
	"glovebox/system/worker/internal/container/verdict"
)

// monitorTasks is the room for the engine's monitor and its clean-up command,
// two processes with a Go runtime each, beside the core's own tasks.
const monitorTasks = 96

// Bounds of single steps. Each is far above what was measured, so that reaching
// one means that something is broken.
const (
	engineTimeout = 30 * time.Second // one call to the engine
	deathTimeout  = 10 * time.Second // from SIGKILL to the end of all processes
	reapTimeout   = 2 * time.Second  // from death to the monitor's wait
)

// ErrInputTooLarge refuses an attempt before it starts.
var ErrInputTooLarge = errors.New("the input is larger than limits.max_input_bytes")

// ErrUsed refuses a second run of the same attempt.
var ErrUsed = errors.New("the attempt has run already; release it and acquire another")

// Maker makes attempts of one configuration.
type Maker struct {
	Engine container.Engine
	Tree   *cgroup.Tree
	Image  *image.Image

	Label   string // names this launcher: containers' label and parent cgroup
	UIDBase uint32 // first host id of slot 0; slot i begins container.IDRange further
	Limits  container.Limits
	Profile string // host path of the seccomp profile
	FS      slotfs.Config
	Wait    time.Duration // how long a prepared container may wait; 0 is MaxWait

	// Alter, if set, changes the spec at the last moment. The self-test lifts one
	// wall with it to reach the one behind.
	Alter func(*container.Spec)
}

// Attempt is one use of a slot. Prepare, Run and Close must not overlap.
type Attempt struct {
	Name string

	maker *Maker
	fs    *slotfs.FS
	group *cgroup.Group
	spec  container.Spec

	prepared bool // the engine may know the name
	used     bool
	process  *pidfd.Process
	monitor  *pidfd.Process // the engine's, that started process
	initAt   time.Time      // when the engine was asked to initialise process
	deadAt   time.Time
}

// Acquire makes the place of an attempt in slot index. After an error nothing is
// left, or the returned Attempt is not nil and must be closed.
func (m *Maker) Acquire(ctx context.Context, index int) (*Attempt, error) {
	return m.AcquireAs(ctx, index, slotfs.NewName())
}

// AcquireAs is Acquire under a name of slotfs.NewName, for a caller who has to know
// the name before anything bears it.
func (m *Maker) AcquireAs(ctx context.Context, index int, name string) (*Attempt, error) {
	a := &Attempt{Name: name, maker: m}
	base := m.UIDBase + uint32(index)*container.IDRange
	if err := a.make(ctx, base); err != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), deathTimeout)
		defer cancel()
		if closeErr := a.Close(closing); closeErr != nil {
			return a, errors.Join(err, closeErr)
		}
		return nil, err
	}
	return a, nil
}

func (a *Attempt) make(ctx context.Context, uidBase uint32) error {
	m := a.maker
	var err error
	a.group, err = m.Tree.Create(m.Label, a.Name, cgroup.Limits{
		MemoryBytes: m.Limits.MemoryBytes, Pids: m.Limits.Pids + monitorTasks, CPUs: m.Limits.CPUs,
	})
	if err != nil {
		return err
	}
	a.fs, err = slotfs.Make(ctx, m.FS, a.Name, uidBase+container.CoreUID, m.Image)
	if err != nil {
		return err
	}
	files := a.fs.Files
	a.spec = container.New(container.Place{
		Name: a.Name, Label: m.Label, UIDBase: uidBase,
		Rootfs: files.Rootfs, Input: files.Input, Result: files.Result, Empty: files.Empty,
		CgroupParent: a.group.Path(), Profile: m.Profile,
	}, m.Limits)
	if m.Alter != nil {
		m.Alter(&a.spec)
	}
	return nil
}

// Input is the descriptor to write the input through.
func (a *Attempt) Input() *os.File { return a.fs.Input }

// Result is the descriptor to read the result through, once Run has returned.
func (a *Attempt) Result() *os.File { return a.fs.Result }

// Throttled is how often the kernel has held the attempt back for its cpu quota.
func (a *Attempt) Throttled() (int, error) { return a.group.Throttled() }

// DeathSeen is when the core was seen dead, zero where it was not.
func (a *Attempt) DeathSeen() time.Time { return a.deadAt }

// Run starts the core, waits for its death and judges it. Ending ctx kills the
// core. The error is a refusal: the attempt did not start and may, but for
// ErrUsed, be corrected. All that goes wrong later is a verdict.
func (a *Attempt) Run(ctx context.Context) (verdict.Verdict, error) {
	if a.used {
		return verdict.Verdict{}, ErrUsed
	}
	size, err := a.fs.InputSize()
	if err != nil {
		return verdict.Verdict{}, err
	}
	if size > a.maker.Limits.MaxInputBytes {
		return verdict.Verdict{}, fmt.Errorf("%w: it has %d bytes", ErrInputTooLarge, size)
	}
	a.used = true
	v, err := a.run(ctx)
	if err != nil {
		v = verdict.Failure(err.Error())
		if ctx.Err() != nil { // the failure is the kill's own doing
			v.Kind = verdict.Killed
		}
	}
	if v.Result.Problem == "" && !v.Result.OK {
		v.Result.Problem = verdict.NotJudged
	}
	v.ImageDigest, v.ImageID = string(a.maker.Image.Ref.Digest), string(a.maker.Image.ID)
	return v, nil
}

func (a *Attempt) run(ctx context.Context) (verdict.Verdict, error) {
	if err := a.ensurePrepared(ctx); err != nil {
		return verdict.Verdict{}, err
	}
	started := time.Now()
	if err := a.start(ctx); err != nil {
		return verdict.Verdict{}, err
	}
	var facts verdict.Facts
	err := a.awaitDeath(ctx, started, &facts)
	if err != nil {
		return verdict.Verdict{}, err
	}
	a.deadAt = time.Now()
	facts.Duration = a.deadAt.Sub(started)
	// Asked at once: the engine's clean-up, which now begins, runs in the group too.
	if facts.MemoryKilled, err = a.group.MemoryKilled(); err != nil {
		return verdict.Verdict{}, err
	}
	// A rootless engine's monitor may die for the same want of memory as the core did,
	// and its engine then never tells the status.
	if facts.Status, err = a.status(ctx); err != nil && !facts.Decided() {
		return verdict.Verdict{}, err
	}
	// Death is the death of all: only then is the result at rest.
	dying, cancel := context.WithTimeout(context.WithoutCancel(ctx), deathTimeout)
	defer cancel()
	if err := a.group.KillCore(dying); err != nil {
		return verdict.Verdict{}, err
	}
	v := verdict.Judge(facts)
	if v.Result, err = a.fs.Judge(); err != nil {
		return verdict.Verdict{}, err
	}
	return v, nil
}

func (a *Attempt) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	return a.maker.Engine.Start(ctx, a.Name)
}

// awaitDeath waits for the core's own end, its deadline or the caller's, and in
// the last two makes the end.
func (a *Attempt) awaitDeath(ctx context.Context, started time.Time, facts *verdict.Facts) error {
	waiting, cancel := context.WithDeadline(ctx, started.Add(a.maker.Limits.Timeout))
	defer cancel()
	err := a.process.Wait(waiting)
	if err == nil {
		return nil
	}
	if waiting.Err() == nil {
		return err
	}
	facts.KilledByUs = ctx.Err() != nil
	facts.DeadlineOver = !facts.KilledByUs
	if err := a.process.Kill(); err != nil {
		return err
	}
	dying, cancel := context.WithTimeout(context.WithoutCancel(ctx), deathTimeout)
	defer cancel()
	if err := a.process.Wait(dying); err != nil {
		return fmt.Errorf("the core does not die: %w", err)
	}
	return nil
}

// status takes the kernel's word where it gives one, else the engine's.
func (a *Attempt) status(ctx context.Context) (status unix.WaitStatus, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineTimeout)
	defer cancel()
	status, err = a.process.StatusWithin(ctx, reapTimeout)
	if err == nil {
		return status, nil
	}
	if !errors.Is(err, pidfd.ErrNoStatus) {
		return 0, err
	}
	// The engine tells once its monitor has cleaned up, which the core's quota would
	// draw out; the core itself is dead.
	if err := a.group.LiftQuota(); err != nil {
		return 0, err
	}
	code, err := a.maker.Engine.ExitCode(ctx, a.Name)
	if err != nil {
		return 0, err
	}
	return verdict.FromEngineCode(code), nil
}

// Close kills what runs and removes container, cgroup and filesystem. Each is
// tried whatever the others say; after an error Close may be called again and
// does what is left.
func (a *Attempt) Close(ctx context.Context) error {
	var errs []error
	if a.process != nil {
		errs = append(errs, a.process.Kill())
	}
	if a.group != nil {
		errs = append(errs, a.group.KillCore(ctx))
	}
	if a.prepared {
		if err := a.maker.Engine.Remove(ctx, a.Name); err != nil {
			errs = append(errs, err)
		} else {
			a.prepared = false
		}
	}
	if a.group != nil {
		if err := a.group.Destroy(ctx); err != nil {
			errs = append(errs, err)
		} else {
			a.group = nil
		}
	}
	if a.fs != nil {
		if err := a.fs.Remove(); err != nil {
			errs = append(errs, err)
		} else {
			a.fs = nil
		}
	}
	if errors.Join(errs...) == nil {
		a.letGo()
	}
	return errors.Join(errs...)
}
