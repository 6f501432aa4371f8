package jobs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"glovebox/system/protocol"
	"glovebox/system/protocol/failure"
)

// quickEmpty is how soon an empty answer to a long poll may come before the loop
// takes it for one that did not wait, and waits itself.
const quickEmpty = time.Second

// readyMost is the longest pause between two looks at the sandbox: they cost a
// message on this host, and a launcher that starts is soon ready.
const readyMost = 2 * time.Second

// Loop claims and carries out jobs in a fixed number of slots.
type Loop struct {
	client   *Client
	runner   Runner
	observer Observer
	log      *slog.Logger
	slots    int
	grace    time.Duration

	busy            atomic.Int64
	server, sandbox condition
}

// NewLoop returns a Loop of slots (at least 1). grace is how long running
// attempts may go on after Run's context is done.
func NewLoop(client *Client, runner Runner, observer Observer, log *slog.Logger, slots int, grace time.Duration) *Loop {
	return &Loop{
		client: client, runner: runner, observer: observer, log: log, slots: slots, grace: grace,
		server:  condition{log: log, name: "server"},
		sandbox: condition{log: log, name: "sandbox"},
	}
}

// Run works until ctx is done. Then it claims no more, lets running attempts
// finish within the grace, hands the rest back, and returns when nothing is left
// of any (REL-05).
func (l *Loop) Run(ctx context.Context) error {
	stop, handBack := context.WithCancel(context.WithoutCancel(ctx))
	defer handBack()
	var slots sync.WaitGroup
	for range l.slots {
		slots.Go(func() { l.slot(ctx, stop) })
	}
	idle := make(chan struct{})
	go func() {
		slots.Wait()
		close(idle)
	}()
	<-ctx.Done()
	grace := time.NewTimer(l.grace)
	defer grace.Stop()
	select {
	case <-idle:
	case <-grace.C:
		l.log.InfoContext(ctx, "the grace is over, handing back", "busy", l.busy.Load())
		handBack()
		<-idle
	}
	return nil
}

// slot claims and works, one job after the other. A claim whose answer did not
// come is sent again under the same id until it is answered.
func (l *Loop) slot(ctx, stop context.Context) {
	var requestID string
	pause := newWait(l.client.timing.First, l.client.timing.Most)
	look := newWait(l.client.timing.First, min(readyMost, l.client.timing.Most))
	for ctx.Err() == nil {
		repeated := requestID != ""
		if !repeated {
			if err := l.runner.Ready(ctx); err != nil {
				if ctx.Err() == nil {
					l.sandbox.bad(ctx, err.Error(), err)
				}
				look.pause(ctx, 0)
				continue
			}
			look.reset()
			l.sandbox.good(ctx)
			requestID = uuid.NewString()
		}
		asked := time.Now()
		a, err := l.client.Claim(ctx, requestID, l.client.timing.Wait, l.saturation())
		switch {
		case err != nil && ctx.Err() != nil:
			// Perhaps assigned all the same: settled below.
		case err != nil && again(err):
			l.server.bad(ctx, kindOf(err), err)
			pause.pause(ctx, askedWait(err))
		case err != nil:
			requestID = ""
			if !errors.Is(err, ErrLeaseLost) { // else: the id's own lease is over, which is no fault
				l.server.bad(ctx, kindOf(err), err)
			}
			pause.pause(ctx, askedWait(err))
		case a == nil:
			requestID = ""
			l.server.good(ctx)
			pause.reset()
			if time.Since(asked) < min(quickEmpty, l.client.timing.Wait) {
				sleep(ctx, l.client.timing.First)
			}
		default:
			requestID = ""
			l.server.good(ctx)
			if end := l.work(ctx, stop, *a, !repeated); end == string(failure.SandboxFailure) {
				pause.pause(ctx, 0) // do not burn other jobs' attempts at full speed
			} else {
				pause.reset()
			}
		}
	}
	if requestID != "" {
		l.settle(stop, requestID)
	}
}

// work carries an assignment out and counts it. One that came as the process
// stops is handed back without being begun.
func (l *Loop) work(ctx, stop context.Context, a protocol.Assignment, certain bool) (end string) {
	if ctx.Err() != nil {
		l.giveBack(stop, a)
		return string(failure.WorkerShutdown)
	}
	l.observer.SlotsBusy(int(l.busy.Add(1)))
	end = l.carryOut(stop, a, certain)
	l.observer.SlotsBusy(int(l.busy.Add(-1)))
	l.observer.AttemptEnded(end)
	return end
}

// settle asks once more for what a claim that was cut off by the stop may have
// been given, and hands it back: left alone it would wait for its lease to end.
func (l *Loop) settle(stop context.Context, requestID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(stop), l.client.timing.HandBack)
	defer cancel()
	a, err := l.client.Claim(ctx, requestID, 0, l.saturation())
	if err != nil || a == nil {
		return
	}
	l.giveBack(ctx, *a)
}

func (l *Loop) giveBack(ctx context.Context, a protocol.Assignment) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.client.timing.HandBack)
	defer cancel()
	report := Failed(failure.WorkerShutdown, "the worker stops", nil).Failure
	err := l.persist(ctx, 0, func(ctx context.Context) error {
		_, err := l.client.Fail(ctx, Fence{JobID: a.ID, Token: a.FencingToken}, report, "")
		return err
	})
	l.observer.AttemptEnded(string(failure.WorkerShutdown))
	l.log.InfoContext(ctx, "handed back a job that was not begun", "job_id", a.ID, "error", err)
}

// persist sends a request until its answer is final, ctx is done or, if tries is
// not 0, so many times.
func (l *Loop) persist(ctx context.Context, tries int, send func(context.Context) error) error {
	pause := newWait(l.client.timing.First, l.client.timing.Most)
	for n := 1; ; n++ {
		err := send(ctx)
		if err == nil || ctx.Err() != nil || !again(err) || n == tries {
			return err
		}
		l.log.DebugContext(ctx, "trying again", "try", n, "error", err)
		if !pause.pause(ctx, askedWait(err)) {
			return err
		}
	}
}

func (l *Loop) saturation() protocol.Saturation {
	return protocol.Saturation{SlotsFree: l.slots - int(l.busy.Load()), SlotsTotal: l.slots}
}

func kindOf(err error) string {
	for _, kind := range []error{ErrLeaseLost, ErrNotAllowed, ErrUnreachable, ErrServer, ErrTooLarge, ErrRefused} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return "unknown"
}
