package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"glovebox/threat-model/evidence"
)

// Env is what a case has in hand while it runs. Control, Check and Must decide its
// outcome; everything else acts on the system. Its methods may be called from
// several goroutines, but Control, Must, Fail and Unavailable end the goroutine
// they are called on and belong to the case's own.
type Env struct {
	*System
	Case *Case
	Rand *rand.Rand // from the run's seed and the case's id; not for use by several goroutines

	ctx    context.Context
	cancel context.CancelFunc
	lane   int    // cases in one lane never run at once and share users
	source string // the address this case connects from, "" for any
	began  time.Time
	tape   *tape

	mu       sync.Mutex
	input    string
	controls int
	checks   int
	breaches []string
	trouble  string
	missing  string
	notes    []string
	cleanups []func(context.Context) error
	conns    map[string]*Conn // idle, by address
}

// caseTimeout bounds one case; one that hangs is an error, not a long wait.
const caseTimeout = 90 * time.Second

// Context ends when the case's time is over or the run is interrupted.
func (e *Env) Context() context.Context { return e.ctx }

// Control states that the instrument works: that the right request succeeds, that
// the oracle sees what is there. Where ok is false the case ends as an error,
// whatever it would have found.
func (e *Env) Control(ok bool, format string, args ...any) {
	e.mu.Lock()
	e.controls++
	e.mu.Unlock()
	if !ok {
		e.Fail("control failed: "+format, args...)
	}
}

// Check states what must be so if the guard holds. Where ok is false the loss has
// come about; the case goes on, so that all of its inputs are seen.
func (e *Env) Check(ok bool, format string, args ...any) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.checks++
	if !ok {
		const most = 20
		if text := fmt.Sprintf(format, args...); len(e.breaches) < most {
			if e.input != "" {
				text = e.input + ": " + text
			}
			e.breaches = append(e.breaches, text)
			e.tape.mark()
		}
	}
	return ok
}

// Input names the input that the following checks are about.
func (e *Env) Input(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.input = fmt.Sprintf(format, args...)
}

// Note keeps what an oracle saw, to be shown beside a breach.
func (e *Env) Note(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.notes = append(e.notes, fmt.Sprintf(format, args...))
}

// Must ends the case as an error where err is not nil: the attack could not be
// made, so nothing is known.
func (e *Env) Must(err error, doing string, args ...any) {
	if err != nil {
		e.Fail("%s: %v", fmt.Sprintf(doing, args...), err)
	}
}

// Fail ends the case as an error.
func (e *Env) Fail(format string, args ...any) {
	e.mu.Lock()
	if e.trouble == "" {
		e.trouble = fmt.Sprintf(format, args...)
		if e.input != "" {
			e.trouble = e.input + ": " + e.trouble
		}
	}
	e.mu.Unlock()
	runtime.Goexit()
}

// Unavailable ends the case because the machine lacks something, which it names.
func (e *Env) Unavailable(format string, args ...any) {
	e.mu.Lock()
	e.missing = fmt.Sprintf(format, args...)
	e.mu.Unlock()
	runtime.Goexit()
}

// Cleanup has done run when the case is over, however it ended, the last first.
func (e *Env) Cleanup(done func(context.Context) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cleanups = append(e.cleanups, done)
}

// Await polls until ok holds or limit passes, and reports whether it did.
func (e *Env) Await(limit time.Duration, ok func() bool) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			return ok()
		case <-e.ctx.Done():
			return false
		}
	}
	return true
}

// Parallel runs n calls at once and waits for all.
func (e *Env) Parallel(n int, call func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { call(i) })
	}
	wg.Wait()
}

// Outcome is what became of a case.
type Outcome struct {
	Case     *Case
	Verdict  evidence.Verdict
	Detail   string
	Checks   int
	Controls int
	Breaches []string
	Notes    []string
	Exchange []string // redacted requests and answers around the first breach or error
	Took     time.Duration
}

// run runs the case and judges it.
func (e *Env) run() Outcome {
	began := time.Now()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		defer func() {
			if cause := recover(); cause != nil {
				buf := make([]byte, 4<<10)
				e.mu.Lock()
				e.trouble = fmt.Sprintf("the case panicked: %v\n%s", cause, buf[:runtime.Stack(buf, false)])
				e.mu.Unlock()
			}
		}()
		e.Case.Run(e)
	}()
	select {
	case <-finished:
	case <-e.ctx.Done():
		// A case that ignores its context is left behind; its sockets are closed below.
		select {
		case <-finished:
		case <-time.After(5 * time.Second):
		}
	}
	o := e.judge()
	if err := e.clean(); err != nil && o.Verdict == evidence.Held {
		o.Verdict, o.Detail = evidence.Errored, "cleaning up failed: "+e.tape.redact(err.Error())
	}
	e.cancel()
	o.Took = time.Since(began)
	return o
}

func (e *Env) judge() Outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	o := Outcome{Case: e.Case, Verdict: evidence.Held, Checks: e.checks, Controls: e.controls}
	for _, b := range e.breaches {
		o.Breaches = append(o.Breaches, e.tape.redact(b))
	}
	for _, n := range e.notes {
		o.Notes = append(o.Notes, e.tape.redact(n))
	}
	switch {
	case len(e.breaches) > 0:
		o.Verdict, o.Detail = evidence.Breached, strings.Join(o.Breaches, "; ")
		if e.trouble != "" {
			o.Detail += "; then: " + e.tape.redact(e.trouble)
		}
	case e.trouble != "":
		o.Verdict, o.Detail = evidence.Errored, e.tape.redact(e.trouble)
	case e.missing != "":
		o.Verdict, o.Detail = evidence.Unavailable, e.tape.redact(e.missing)
	case e.ctx.Err() != nil:
		o.Verdict, o.Detail = evidence.Errored, "it did not end within its time: "+context.Cause(e.ctx).Error()
	case e.controls == 0 || e.checks == 0:
		o.Verdict, o.Detail = evidence.Errored, fmt.Sprintf("it proved nothing: %d controls, %d checks", e.controls, e.checks)
	default:
		o.Detail = fmt.Sprintf("%d checks, %d controls", e.checks, e.controls)
	}
	if o.Verdict != evidence.Held {
		o.Exchange = e.tape.excerpt()
	}
	return o
}

// cleanTime is what all cleanups of a case may take together.
const cleanTime = 30 * time.Second

// clean runs the cleanups in a time of their own, since the case's may be over.
// Each has a goroutine of its own: one that ends it, by Must or Fail, or that hangs,
// must not take the lane with it and the locks it holds.
func (e *Env) clean() error {
	e.mu.Lock()
	cleanups, conns := e.cleanups, e.conns
	e.conns = nil
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), cleanTime)
	defer cancel()
	var first error
	for _, done := range slices.Backward(cleanups) {
		if err := e.cleanOne(ctx, done); err != nil && first == nil {
			first = err
		}
	}
	for _, c := range conns {
		c.Close()
	}
	return first
}

func (e *Env) cleanOne(ctx context.Context, done func(context.Context) error) error {
	result := make(chan error, 1)
	go func() {
		err := errors.New("it ended the case")
		defer func() {
			if cause := recover(); cause != nil {
				err = fmt.Errorf("it panicked: %v", cause)
			}
			result <- err
		}()
		err = done(ctx)
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return errors.New("it did not end within its time")
	}
}
