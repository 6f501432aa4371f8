package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"time"

	"glovebox/system/platform/logging"
	"glovebox/system/protocol"
	"glovebox/system/protocol/failure"
)

// inputTries bounds how often an input is asked for within one attempt: a server
// that has lost it must be able to end the job.
const inputTries = 5

// attempt is one assignment under this worker's hands. It is the Exchange of its
// Runner.
type attempt struct {
	loop   *Loop
	a      protocol.Assignment
	fence  Fence
	keeper *keeper
}

// carryOut runs an assignment to its end, whatever that is, and returns the end
// for metrics. It returns when nothing of the attempt is left here. stop is done
// when the work must be handed back.
func (l *Loop) carryOut(stop context.Context, a protocol.Assignment, certain bool) (end string) {
	ctx := logging.With(context.WithoutCancel(stop),
		slog.String("job_id", a.ID), slog.Int("attempt", a.Attempt), slog.Int64("fencing_token", a.FencingToken))
	lease, lose := context.WithCancelCause(ctx)
	defer lose(errEnded)
	work, interrupt := context.WithCancelCause(lease)
	defer interrupt(errEnded)
	defer context.AfterFunc(stop, func() { interrupt(ErrHandBack) })()

	started := time.Now()
	fence := Fence{JobID: a.ID, Token: a.FencingToken}
	t := &attempt{loop: l, a: a, fence: fence, keeper: &keeper{
		client: l.client, log: l.log, observer: l.observer, fence: fence, slots: l.saturation, lose: lose,
		interval: time.Duration(a.HeartbeatSeconds) * time.Second, length: time.Duration(a.LeaseSeconds) * time.Second,
	}}
	t.keeper.start(lease, certain)
	defer t.keeper.stop()
	l.log.InfoContext(ctx, "attempt started", "input_size", a.InputSize)

	outcome := l.execute(work, a, t)
	end = t.conclude(lease, work, outcome)
	l.log.InfoContext(ctx, "attempt ended", "end", end, "duration", time.Since(started).Round(time.Millisecond).String(), "error", outcome.Cause)
	return end
}

// execute runs the Runner and turns its panic into a failure: one attempt's
// fault must not end the others.
func (l *Loop) execute(ctx context.Context, a protocol.Assignment, exchange Exchange) (outcome Outcome) {
	defer func() {
		if p := recover(); p != nil {
			l.log.ErrorContext(ctx, "the attempt panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			outcome = Failed(failure.SandboxFailure, "the worker failed", errors.New("panic"))
		}
	}()
	return l.runner.Execute(ctx, a, exchange)
}

// Failed returns the Outcome for code, with the table's word on whether it is
// worth another try.
func Failed(code failure.Code, detail string, cause error) Outcome {
	fact, ok := failure.Lookup(code)
	if !ok || fact.Reporter != failure.ByWorker {
		fact, code = mustLookup(failure.SandboxFailure), failure.SandboxFailure
	}
	return Outcome{Failure: protocol.FailureReport{Code: code, Retryable: fact.Retryable, Detail: detail}, Cause: cause}
}

func mustLookup(code failure.Code) failure.Fact {
	fact, ok := failure.Lookup(code)
	if !ok {
		panic("the failure table lacks " + string(code))
	}
	return fact
}

// conclude tells the server how the attempt ended, unless it knows or must not
// be told.
func (t *attempt) conclude(lease, work context.Context, outcome Outcome) string {
	switch {
	case outcome.Delivered:
		return EndCompleted
	case lease.Err() != nil:
		return EndLeaseLost
	case errors.Is(context.Cause(work), ErrHandBack):
		ran := outcome.Provenance
		outcome = Failed(failure.WorkerShutdown, "the worker stops", ErrHandBack)
		outcome.Provenance = ran
		ctx, cancel := context.WithTimeout(lease, t.loop.client.timing.HandBack)
		defer cancel()
		lease = ctx
	}
	err := t.loop.persist(lease, 0, func(ctx context.Context) error {
		_, err := t.loop.client.Fail(ctx, t.fence, outcome.Failure, outcome.Provenance)
		return err
	})
	switch {
	case err == nil:
		return string(outcome.Failure.Code)
	case errors.Is(err, ErrLeaseLost) || context.Cause(lease) != nil:
		t.loop.log.WarnContext(lease, "the failure could not be reported under the lease", "code", outcome.Failure.Code, "error", err)
		return EndLeaseLost
	default:
		t.loop.log.ErrorContext(lease, "the server refused the failure report", "code", outcome.Failure.Code, "error", err)
		return string(outcome.Failure.Code)
	}
}

// FetchInput implements Exchange.
func (t *attempt) FetchInput(ctx context.Context, dst io.WriterAt) error {
	return t.lost(t.loop.persist(ctx, inputTries, func(ctx context.Context) error {
		return t.loop.client.Input(ctx, t.a, dst)
	}))
}

// DeliverResult implements Exchange.
func (t *attempt) DeliverResult(ctx context.Context, src io.ReaderAt, size int64, sum [32]byte, provenance string) error {
	t.keeper.delivering.Store(true)
	defer t.keeper.delivering.Store(false)
	err := t.loop.persist(ctx, 0, func(ctx context.Context) error {
		return t.loop.client.Result(ctx, t.fence, src, size, sum, provenance)
	})
	if err == nil {
		// The lease ended with the answer. Giving the slot back takes its time, and a
		// heartbeat in it would be refused and taken for a lost lease.
		t.keeper.stop()
	}
	return t.lost(err)
}

// lost ends the lease when a transfer's answer says that it is over, before the
// next heartbeat finds out.
func (t *attempt) lost(err error) error {
	if errors.Is(err, ErrLeaseLost) {
		t.keeper.lose(err)
	}
	return err
}
