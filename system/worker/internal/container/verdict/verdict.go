// Package verdict says how an attempt ended, from what the kernel told about it
// and never from what the core printed. It is pure data and pure functions; the
// launcher reports a Verdict and the worker maps it to a code.
package verdict

import (
	"time"

	"golang.org/x/sys/unix"
)

// Kind is the manner of an end.
type Kind string

// The kinds. Each excludes the others.
const (
	Exited         Kind = "exited"          // the core ended by itself, with ExitCode
	Signaled       Kind = "signaled"        // a signal of the core's own doing ended it
	Timeout        Kind = "timeout"         // we ended it at its deadline
	OutOfMemory    Kind = "oom"             // the kernel killed for memory, the core or a child of it
	Killed         Kind = "killed"          // we ended it because the client asked or went away
	SandboxFailure Kind = "sandbox_failure" // the sandbox could not be made, kept or judged
)

// MaxDetail bounds Verdict.Detail, in bytes.
const MaxDetail = 512

// Verdict is the launcher's whole word on an attempt.
type Verdict struct {
	Kind        Kind   `json:"kind"`
	ExitCode    int    `json:"exit_code"` // of Exited, else 0
	Signal      int    `json:"signal"`    // of Signaled, else 0
	Result      Result `json:"result"`
	DurationMS  int64  `json:"duration_ms"` // from the core's start to its death
	ImageDigest string `json:"image_digest"`
	ImageID     string `json:"image_id"`
	Detail      string `json:"detail,omitempty"` // of SandboxFailure: what was tried
}

// Forbidden reports whether the core died of a system call that is not allowed.
func (v Verdict) Forbidden() bool { return v.Kind == Signaled && v.Signal == int(unix.SIGSYS) }

// Succeeded reports whether the core ended well and left a result in order.
func (v Verdict) Succeeded() bool { return v.Kind == Exited && v.ExitCode == 0 && v.Result.OK }

// Facts are what was observed of an attempt that ran.
type Facts struct {
	Status       unix.WaitStatus // of the core's first process
	KilledByUs   bool            // for the client, or for its end
	DeadlineOver bool            // we killed at the deadline
	MemoryKilled bool            // by the cgroup's word
	Duration     time.Duration
}

// Decided reports whether the verdict is known whatever the wait status is.
func (f Facts) Decided() bool { return f.KilledByUs || f.DeadlineOver || f.MemoryKilled }

// Judge turns facts into a verdict without its Result and image.
//
// Our own kill comes first: what we ended, did not end by itself. Memory comes
// before the status, for a child may be killed under a parent that exits 0. The
// status is judged as the kernel's, not as a shell's number: exit(137) is an exit.
func Judge(f Facts) Verdict {
	v := Verdict{DurationMS: f.Duration.Milliseconds()}
	switch {
	case f.KilledByUs:
		v.Kind = Killed
	case f.DeadlineOver:
		v.Kind = Timeout
	case f.MemoryKilled:
		v.Kind = OutOfMemory
	case f.Status.Signaled() && f.Status.Signal() == unix.SIGKILL:
		// The first process of a pid namespace cannot be killed from within it. So
		// this came from the host: its own shortage of memory, an operator, the
		// processor time limit behind our deadline. None is the core's crash.
		v = Failure("the core was killed from outside its slot")
	case f.Status.Signaled():
		v.Kind, v.Signal = Signaled, int(f.Status.Signal())
	case f.Status.Exited():
		v.Kind, v.ExitCode = Exited, f.Status.ExitStatus()
	default:
		v = Failure("the core's wait status is neither an exit nor a signal")
	}
	return v
}

// Failure is the verdict of an attempt that could not be carried out or judged.
func Failure(detail string) Verdict {
	if len(detail) > MaxDetail {
		detail = detail[:MaxDetail]
	}
	return Verdict{Kind: SandboxFailure, Detail: detail}
}

// FromEngineCode makes a wait status of an engine's number, where the kernel does
// not tell. Such a number may be forged: 128+n is taken for signal n, which is
// the harsher of its two meanings and never a success.
func FromEngineCode(code int) unix.WaitStatus {
	if code > 128 && code <= 128+64 {
		return unix.WaitStatus(code - 128)
	}
	return unix.WaitStatus((code & 0xff) << 8)
}
