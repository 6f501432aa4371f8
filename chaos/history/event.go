// Package history is what a test that drives the system keeps, and what it may
// conclude from it: a list of what was asked and answered, the rows that the
// database held at the end, and named checks over both.
//
// It does no I/O and knows nothing of the system's code, so that the property
// tests beside the server and the chaos runs outside it check the same rules with
// the same functions, and a saved history can be checked again years later.
//
// A reply that was lost is Maybe: what was asked may have happened, then or at any
// time after, or never. It is never left out.
package history

import (
	"fmt"
	"strings"
)

// Op is what was asked.
type Op string

// The operations. A harness that watches workers from outside records none of
// theirs; what they did is then taken from the transitions.
const (
	Submit    Op = "submit"     // a user hands in a file
	Status    Op = "status"     // a user asks for the job
	Download  Op = "download"   // a user fetches the result, to its last byte
	Claim     Op = "claim"      // a worker asks for work
	Heartbeat Op = "heartbeat"  // a worker keeps its lease
	Finish    Op = "finish"     // a worker hands in a result
	Fail      Op = "fail"       // a worker reports a failure, or hands the job back
	LeaseOver Op = "lease_over" // the harness ends the lease at once, behind the system's back
)

// Outcome is how a caller was answered.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"
	Refused Outcome = "refused" // with Refusal; nothing changed
	Maybe   Outcome = "maybe"   // no answer, or one that leaves open what happened
)

// None is the Refusal of a claim that was answered with no work.
const None = "none"

// Event is one operation and its answer. Fields that an operation does not have
// are zero.
type Event struct {
	Op     Op     `json:"op"`
	Caller string `json:"caller,omitempty"` // who asked: a name of the harness, for people
	User   string `json:"user,omitempty"`   // of submit, status, download
	Worker string `json:"worker,omitempty"` // of claim, heartbeat, finish, fail
	// Job is the job's id: in the question, or in the answer of submit and claim. A
	// submit or claim that got no answer has none.
	Job     string `json:"job,omitempty"`
	Key     string `json:"key,omitempty"`     // Idempotency-Key of a submit
	Request string `json:"request,omitempty"` // request id of a claim
	Token   int64  `json:"token,omitempty"`   // shown by heartbeat, finish, fail; granted by claim; ended by lease_over
	Attempt int    `json:"attempt,omitempty"` // granted by claim
	Code    string `json:"code,omitempty"`    // reported by fail
	Digest  string `json:"digest,omitempty"`  // SHA-256 of the bytes sent (submit, finish) or received (download), in hex
	// Want is the digest that the harness knows a download must have, where it does.
	Want string `json:"want,omitempty"`

	// Call and Return are nanoseconds on one clock of the harness. An event that is
	// Maybe has no return: what it asked may happen at any later time.
	Call   int64 `json:"call"`
	Return int64 `json:"return,omitempty"`

	Outcome Outcome `json:"outcome"`
	Refusal string  `json:"refusal,omitempty"` // the error code of a refusal
	Status  string  `json:"status,omitempty"`  // of the job, in the answer of submit, status, finish, fail
}

// String is one line for people.
func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", e.Op)
	for _, part := range []struct{ name, value string }{
		{"caller", e.Caller}, {"user", e.User}, {"worker", e.Worker}, {"job", e.Job}, {"key", e.Key}, {"request", e.Request}, {"code", e.Code},
		{"digest", short(e.Digest)}, {"want", short(e.Want)},
	} {
		if part.value != "" {
			fmt.Fprintf(&b, " %s=%s", part.name, part.value)
		}
	}
	if e.Token != 0 {
		fmt.Fprintf(&b, " token=%d", e.Token)
	}
	if e.Attempt != 0 {
		fmt.Fprintf(&b, " attempt=%d", e.Attempt)
	}
	fmt.Fprintf(&b, " -> %s", e.Outcome)
	if e.Refusal != "" {
		fmt.Fprintf(&b, " %s", e.Refusal)
	}
	if e.Status != "" {
		fmt.Fprintf(&b, " %s", e.Status)
	}
	return b.String()
}

func short(digest string) string { return digest[:min(len(digest), 12)] }
