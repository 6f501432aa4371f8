package slot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"glovebox/system/worker/internal/container/pidfd"
)

// MaxWait is how long a prepared container may wait for its input unless its Maker
// says otherwise: so much longer is its backstop, which the engine counts from the
// initialisation. Beyond it the attempt is not Fit any more.
const MaxWait = 2 * time.Minute

func (m *Maker) maxWait() time.Duration {
	if m.Wait > 0 {
		return m.Wait
	}
	return MaxWait
}

// Why a waiting attempt is not Fit.
var (
	ErrAged    = errors.New("the prepared container has waited too long for its backstop")
	ErrDied    = errors.New("the prepared container or its monitor has died")
	errNothing = errors.New("nothing is prepared")
)

// Prepare makes the container ahead of its use: a process in its namespaces, under
// its limits, that waits to become the core. The input is still to be written, in
// place. After an error the attempt can only be closed.
func (a *Attempt) Prepare(ctx context.Context) error {
	if a.used {
		return ErrUsed
	}
	a.spec.Backstop += a.maker.maxWait()
	return a.prepare(ctx)
}

// Fit returns nil if a prepared attempt can be started, else why not: ErrAged or
// ErrDied.
func (a *Attempt) Fit() error {
	switch {
	case a.process == nil:
		return errNothing
	case a.process.Dead() || a.monitor.Dead():
		return ErrDied
	case time.Since(a.initAt) > a.maker.maxWait():
		return ErrAged
	}
	return nil
}

// AwaitUnfit returns ErrAged or ErrDied as soon as it is so, or the context's error.
// It may overlap with every method but Close.
func (a *Attempt) AwaitUnfit(ctx context.Context) error {
	aging, cancel := context.WithDeadlineCause(ctx, a.initAt.Add(a.maker.maxWait()), ErrAged)
	defer cancel()
	if err := a.process.WaitEither(aging, a.monitor); err != nil {
		return err
	}
	return ErrDied
}

// ensurePrepared makes the container where none is prepared, and makes another in
// the same place where that one is no longer fit: its number would be stale, and
// the engine would quietly initialise it anew.
func (a *Attempt) ensurePrepared(ctx context.Context) error {
	if a.process == nil {
		return a.prepare(ctx)
	}
	if a.Fit() == nil {
		return nil
	}
	if err := errors.Join(a.process.Kill(), a.group.KillCore(ctx), a.maker.Engine.Remove(ctx, a.Name)); err != nil {
		return fmt.Errorf("replace a container that waited too long or died: %w", err)
	}
	a.letGo()
	return a.prepare(ctx)
}

// prepare leaves a process that waits to become the core, and its monitor, held by
// descriptor.
func (a *Attempt) prepare(ctx context.Context) error {
	// Not cut short: an engine that was told to forget the request in the middle might
	// make the container after it was removed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineTimeout)
	defer cancel()
	a.prepared = true
	a.initAt = time.Now()
	pid, err := a.maker.Engine.Prepare(ctx, a.spec)
	if err != nil {
		return err
	}
	if a.process, err = pidfd.Open(pid); err != nil {
		return err
	}
	// The number came from the engine by text. That its process lives in our
	// cgroup shows that it is the one, and that the limits are its own.
	held, err := a.group.Holds(pid)
	if err != nil {
		return err
	}
	if !held {
		return fmt.Errorf("prepare container: its process %d is not in the slot's cgroup; the engine ignored the cgroup parent", pid)
	}
	if a.monitor, err = a.process.OpenParent(); err != nil {
		return err
	}
	return a.group.AdoptMonitor(a.monitor.PID())
}

// letGo closes the descriptors of the container's processes.
func (a *Attempt) letGo() {
	for _, p := range []**pidfd.Process{&a.process, &a.monitor} {
		if *p != nil {
			_ = (*p).Close()
			*p = nil
		}
	}
}
