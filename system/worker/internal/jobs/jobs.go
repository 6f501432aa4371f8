// Package jobs is the worker's side of the internal API: the client of the five
// verbs, the loop that claims, and the keeper that holds a lease.
//
// # One attempt
//
// A free slot claims by long poll. From the moment the answer has come, a keeper
// heartbeats until the server has answered to the result or the failure, for
// results are large. The work runs under two contexts: the lease, which ends
// when the server says it is lost or when no heartbeat has succeeded for a
// lease's length (JOB-08), and within it the work, which ends also when the
// process must hand back (REL-05). Nothing of an attempt is told to the server
// under a lease that is known to be lost.
//
// # A server that is away
//
// Every verb that may be sent again is sent again as the same request, with
// exponential waits and jitter, while there is a point in it: a claim under its
// request id, a result and a failure under their fencing token (JOB-04). The log
// gets one line when the state changes, not one for each try.
package jobs

import (
	"context"
	"io"

	"glovebox/system/protocol"
)

// Runner carries out attempts. Implementations are safe for concurrent use.
type Runner interface {
	// Ready returns nil when an attempt could start now, else an error that
	// names what stands in the way. Nothing is claimed before it returns nil.
	Ready(ctx context.Context) error
	// Execute carries out one attempt and returns when nothing of it is left:
	// no process, no slot, no open file. It ends the work soon after ctx is
	// done; its Outcome is not looked at then. It must not keep exchange.
	Execute(ctx context.Context, a protocol.Assignment, exchange Exchange) Outcome
}

// Exchange moves an attempt's bytes between the server and the Runner, sending
// and fetching again while the lease lives.
type Exchange interface {
	// FetchInput writes the input to dst and has checked its size and SHA-256
	// when it returns nil. ErrInputMismatch means that the bytes are not those
	// of the assignment, ErrLocal that dst failed.
	FetchInput(ctx context.Context, dst io.WriterAt) error
	// DeliverResult sends size bytes of src, whose SHA-256 is sum. On nil the
	// server has stored them and the job is completed. provenance is as in Outcome.
	DeliverResult(ctx context.Context, src io.ReaderAt, size int64, sum [32]byte, provenance string) error
}

// Outcome is how an attempt ended.
type Outcome struct {
	// Delivered: the server has taken the result. Failure is empty then.
	Delivered bool
	Failure   protocol.FailureReport
	// Provenance is told to the server beside the end, which keeps it: what ran.
	// Empty where nothing is known to have run.
	Provenance string
	// Cause is for the log alone.
	Cause error
}

// Ends of attempts, for metrics beside the failure codes.
const (
	EndCompleted = "completed"
	EndLeaseLost = "lease_lost"
)

// Observer counts. Its methods are called from many goroutines and must not block.
type Observer interface {
	// AttemptEnded is called once an attempt with EndCompleted, EndLeaseLost or
	// the failure code that was reported.
	AttemptEnded(end string)
	// SlotsBusy tells how many attempts run now.
	SlotsBusy(n int)
	// HeartbeatFailed is called for each heartbeat without a good answer, save one
	// that was overtaken by the completion.
	HeartbeatFailed()
}
