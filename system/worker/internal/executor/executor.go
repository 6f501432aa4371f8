// Package executor carries out one attempt: a slot from the launcher, the input
// into it, the run, a judgement of how it ended, the result to the server, and
// the slot given back in every ending, a panic included.
//
// It never learns a host path: the launcher passes two open descriptors, one to
// write the input and one to read the result. What the kernel said of the core
// becomes a code by the one table of package failure (JOB-11); what the core
// itself wrote is looked at in one place only (diagnostic.go), as hostile text.
package executor

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"glovebox/system/protocol"
	"glovebox/system/protocol/failure"
	"glovebox/system/worker/internal/container/verdict"
	"glovebox/system/worker/internal/jobs"
)

const (
	// runMargin is what a run may take beyond the assignment's timeout before
	// this side ends it: the launcher's own clock is the nearer one and should
	// be first.
	runMargin = 2 * time.Second
	// releaseTimeout bounds giving a slot back. The launcher takes the slot down
	// with the connection in any case.
	releaseTimeout = 30 * time.Second
)

var errOverTime = errors.New("the run did not end in the assignment's time")

// Launcher gives sandboxes.
type Launcher interface {
	// Ready returns nil when Acquire could succeed, else an error that names the
	// wall that does not stand, or that the launcher is not reachable.
	Ready(ctx context.Context) error
	// Acquire returns a fresh slot, used by nobody before.
	Acquire(ctx context.Context) (Slot, error)
}

// Slot is one sandbox for one run.
type Slot interface {
	// Input is an empty regular file, open for writing until Run.
	Input() *os.File
	// Result is the file the core writes to, open for reading. It must not be
	// looked at before Run has returned.
	Result() *os.File
	// Run starts the core once and returns when every process of the slot is
	// dead, soon after ctx is done at the latest. An error means that no verdict
	// is to be had.
	Run(ctx context.Context) (verdict.Verdict, error)
	// Release takes the slot down and closes its files. It can be called in any
	// state, and more than once.
	Release(ctx context.Context) error
}

// Executor is a jobs.Runner over a Launcher.
type Executor struct {
	launcher Launcher
	log      *slog.Logger
}

// New returns an Executor.
func New(launcher Launcher, log *slog.Logger) *Executor {
	return &Executor{launcher: launcher, log: log}
}

// Ready implements jobs.Runner.
func (e *Executor) Ready(ctx context.Context) error { return e.launcher.Ready(ctx) }

// Execute implements jobs.Runner.
func (e *Executor) Execute(ctx context.Context, a protocol.Assignment, exchange jobs.Exchange) jobs.Outcome {
	slot, err := e.launcher.Acquire(ctx)
	if err != nil {
		return jobs.Failed(failure.SandboxFailure, "no sandbox could be had", err)
	}
	defer e.release(ctx, slot) // JOB-10, SBX-12: in every ending

	if err := fetch(ctx, slot.Input(), a, exchange); err != nil {
		return jobs.Failed(failure.SandboxFailure, "the input could not be brought into the sandbox whole", err)
	}
	v, err := e.run(ctx, slot, a)
	var outcome jobs.Outcome
	if err != nil {
		outcome = runError(err)
	} else {
		outcome = e.conclude(ctx, slot, v, a.MaxResultBytes, exchange)
	}
	outcome.Provenance = provenance(v)
	return outcome
}

// conclude makes of a verdict the attempt's end: a failure, or the result sent.
func (e *Executor) conclude(ctx context.Context, slot Slot, v verdict.Verdict, maxResultBytes int64, exchange jobs.Exchange) jobs.Outcome {
	e.log.InfoContext(ctx, "core ended", "kind", v.Kind, "exit_code", v.ExitCode, "signal", v.Signal,
		"result_size", v.Result.Size, "result_problem", v.Result.Problem, "duration_ms", v.DurationMS,
		"image_digest", v.ImageDigest, "image_id", v.ImageID, "detail", v.Detail)
	if bad := classify(v, maxResultBytes); bad != nil {
		if bad.code == failure.InvalidInput {
			bad.detail = inputDetail(v, slot.Result())
		}
		return jobs.Failed(bad.code, bad.detail, nil)
	}
	return deliver(ctx, slot.Result(), v, exchange)
}

// fetch brings the input into the slot and checks the file itself afterwards:
// the transfer vouches for what it wrote, this for where it went (JOB-12).
func fetch(ctx context.Context, input *os.File, a protocol.Assignment, exchange jobs.Exchange) error {
	if err := exchange.FetchInput(ctx, input); err != nil {
		return err
	}
	info, err := input.Stat()
	if err != nil {
		return fmt.Errorf("look at the input: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() != a.InputSize {
		return fmt.Errorf("the input in the sandbox has %d bytes, wanted %d", info.Size(), a.InputSize)
	}
	return nil
}

func (e *Executor) run(ctx context.Context, slot Slot, a protocol.Assignment) (verdict.Verdict, error) {
	limit := time.Duration(a.TimeoutSeconds)*time.Second + runMargin
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errOverTime)
	defer cancel()
	v, err := slot.Run(ctx)
	if cause := context.Cause(ctx); cause != nil {
		return v, cause // our own end of the run, whatever the launcher calls it
	}
	return v, err
}

func runError(err error) jobs.Outcome {
	if errors.Is(err, errOverTime) {
		return jobs.Failed(failure.Timeout, "the core did not end in time", err)
	}
	return jobs.Failed(failure.SandboxFailure, "the sandbox gave no verdict", err)
}

// provenance is what the server shall keep of a run: the image, by the digest that
// pins it and by its id (COR-05), and how long the core lived. It is empty without a
// verdict, for then it is not known that anything ran. The server keeps it as text
// and reads nothing in it (ARC-08).
func provenance(v verdict.Verdict) string {
	if v.ImageDigest == "" {
		return ""
	}
	return fmt.Sprintf("image=%s; image_id=%s; duration_ms=%d", v.ImageDigest, v.ImageID, v.DurationMS)
}

// deliver hashes the result from the descriptor and sends it.
func deliver(ctx context.Context, result *os.File, v verdict.Verdict, exchange jobs.Exchange) jobs.Outcome {
	size := v.Result.Size
	info, err := result.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() != size) {
		err = fmt.Errorf("the result has %d bytes, the launcher judged %d", info.Size(), size)
	}
	if err != nil {
		return jobs.Failed(failure.SandboxFailure, "the result is not what was judged", err)
	}
	sum := sha256.New()
	n, err := io.Copy(sum, whileLive{ctx, io.NewSectionReader(result, 0, size)})
	if err == nil && n != size {
		err = fmt.Errorf("read %d bytes of the result, wanted %d", n, size)
	}
	if err != nil {
		return jobs.Failed(failure.SandboxFailure, "the result could not be read", err)
	}
	switch err := exchange.DeliverResult(ctx, result, size, [32]byte(sum.Sum(nil)), provenance(v)); {
	case err == nil:
		return jobs.Outcome{Delivered: true}
	case errors.Is(err, jobs.ErrTooLarge):
		return jobs.Failed(failure.OutputTooLarge, "the result is over its bound", err)
	default:
		return jobs.Failed(failure.SandboxFailure, "the result could not be delivered", err)
	}
}

// release gives the slot back, under its own time: the attempt's may be over.
func (e *Executor) release(ctx context.Context, slot Slot) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := slot.Release(ctx); err != nil {
		e.log.ErrorContext(ctx, "the slot could not be given back in order, the launcher takes it down with the connection", "error", err)
	}
}

// whileLive is a reader that ends with its context: a result can be large.
type whileLive struct {
	ctx context.Context
	io.Reader
}

func (r whileLive) Read(b []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}
