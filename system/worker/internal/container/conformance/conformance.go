// Package conformance checks an image against core/CONTRACT.md by running it in
// the real sandbox, under the profile that kills (COR-02). What it cannot see
// from outside, such as whether a result means what the input meant, it does not
// judge.
package conformance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/slot"
	"glovebox/system/worker/internal/container/verdict"
)

// Check is one line of the outcome.
type Check struct {
	Name   string
	Passed bool
	Detail string
}

// Suite runs the checks on the image of Maker.
type Suite struct {
	Maker slot.Maker
	// Sample is an input that the core accepts. It must give a result of more than
	// TinyResult bytes.
	Sample []byte
}

// Sizes the checks work with.
const (
	TinyResult   = 16        // bytes: less than any result of a sample
	largeInput   = 4 << 20   // bytes, where the core's own limit allows it
	leastMemory  = 128 << 20 // address space of the check on memory
	maxCompared  = 64 << 20  // bytes of results that are hashed
	closeTimeout = 30 * time.Second
)

// run is what one attempt showed.
type run struct {
	verdict verdict.Verdict
	sum     [sha256.Size]byte
	head    []byte // the first bytes of the result
}

// Run makes all checks; an error means that the sandbox, not the core, is at
// fault.
func (s *Suite) Run(ctx context.Context) ([]Check, error) {
	var checks []Check
	for _, c := range []func(context.Context) ([]Check, error){
		s.sample, s.odd, s.large, s.tiny, s.littleMemory, s.argument,
	} {
		found, err := c(ctx)
		if err != nil {
			return checks, err
		}
		checks = append(checks, found...)
	}
	return checks, nil
}

// sandboxTries is how often an attempt is made whose sandbox failed: that says
// nothing of the core, and the system would try again too.
const sandboxTries = 3

var errSandbox = errors.New("the sandbox failed")

// source opens an input from its beginning.
type source func() io.Reader

func bytesOf(b []byte) source { return func() io.Reader { return bytes.NewReader(b) } }

// attempt runs the core on input, in a sandbox that holds.
func (s *Suite) attempt(ctx context.Context, input source, adjust func(*slot.Maker)) (run, error) {
	var r run
	err := errSandbox
	for try := 0; try < sandboxTries && errors.Is(err, errSandbox); try++ {
		r, err = s.attemptOnce(ctx, input(), adjust)
	}
	return r, err
}

func (s *Suite) attemptOnce(ctx context.Context, input io.Reader, adjust func(*slot.Maker)) (run, error) {
	m := s.Maker
	if adjust != nil {
		adjust(&m)
	}
	a, err := m.Acquire(ctx, 0)
	if a != nil {
		defer func() {
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
			defer cancel()
			_ = a.Close(closing)
		}()
	}
	if err != nil {
		return run{}, err
	}
	if _, err := io.Copy(a.Input(), input); err != nil {
		return run{}, fmt.Errorf("write input: %w", err)
	}
	r := run{}
	if r.verdict, err = a.Run(ctx); err != nil {
		return run{}, err
	}
	if r.verdict.Kind == verdict.SandboxFailure || r.verdict.Kind == verdict.Killed {
		return run{}, fmt.Errorf("%w: %s", errSandbox, r.verdict.Detail)
	}
	hash := sha256.New()
	var head bytes.Buffer
	result := io.LimitReader(a.Result(), maxCompared)
	if _, err := io.CopyN(io.MultiWriter(hash, &head), result, maxDiagnostic+1); err != nil && !errors.Is(err, io.EOF) {
		return run{}, fmt.Errorf("read result: %w", err)
	}
	if _, err := io.Copy(hash, result); err != nil {
		return run{}, fmt.Errorf("read result: %w", err)
	}
	r.head = head.Bytes()
	hash.Sum(r.sum[:0])
	return r, nil
}

// exitTooLarge is the exit code for a result beyond its bound.
const exitTooLarge = 5

// judge holds one run to what the contract says of every run, and to the exit
// codes that are allowed for its input.
func judge(name string, r run, allowed ...int) Check {
	c := Check{Name: name, Detail: describe(r.verdict)}
	v := r.verdict
	switch {
	case v.Forbidden():
		c.Detail = "it made a system call that is not allowed (SIGSYS); strace it and see system/worker/internal/container/seccomp/policy.json"
	case v.Kind != verdict.Exited:
		c.Detail = "it did not end by itself: " + describe(v)
	case !contains(allowed, v.ExitCode):
		c.Detail = fmt.Sprintf("%s is not among the exit codes %v that the contract has for this input", describe(v), allowed)
	case v.ExitCode == exitTooLarge && v.Result.Problem == verdict.TooLarge:
		c.Passed = true // its result is ignored, and filled to the limit as said
	case !v.Result.OK:
		c.Detail = "the result file is not in order: " + string(v.Result.Problem)
	case v.ExitCode == 0 && v.Result.Size == 0:
		c.Detail = "exit 0 with an empty result"
	case v.ExitCode == 3 || v.ExitCode == 4:
		err := checkDiagnostic(r.head)
		c.Passed = err == nil
		if err != nil {
			c.Detail = fmt.Sprintf("%s, and the result is no diagnostic: %v", describe(v), err)
		}
	default:
		c.Passed = true
	}
	return c
}

func contains(list []int, n int) bool {
	for _, have := range list {
		if have == n {
			return true
		}
	}
	return false
}

func describe(v verdict.Verdict) string {
	switch v.Kind {
	case verdict.Exited:
		return fmt.Sprintf("exit %d, %d bytes, %d ms", v.ExitCode, v.Result.Size, v.DurationMS)
	case verdict.Signaled:
		return fmt.Sprintf("signal %d", v.Signal)
	}
	return string(v.Kind)
}

// same compares two runs on one input.
func same(name string, a, b run) Check {
	if a.verdict.Kind != b.verdict.Kind || a.verdict.ExitCode != b.verdict.ExitCode || a.sum != b.sum {
		return Check{Name: name, Detail: fmt.Sprintf("two runs differ: %s, sha256 %x; %s, sha256 %x", describe(a.verdict), a.sum[:4], describe(b.verdict), b.sum[:4])}
	}
	return Check{Name: name, Passed: true, Detail: fmt.Sprintf("twice sha256 %x", a.sum[:4])}
}

func limits(change func(*container.Limits)) func(*slot.Maker) {
	return func(m *slot.Maker) {
		change(&m.Limits)
		m.FS.MaxInputBytes, m.FS.MaxResultBytes = m.Limits.MaxInputBytes, m.Limits.MaxResultBytes
	}
}
