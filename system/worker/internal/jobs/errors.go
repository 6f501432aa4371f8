package jobs

import (
	"errors"
	"fmt"
	"time"
)

// What an answer means for the attempt. Every error of the client is one of
// these (errors.Is).
var (
	// ErrLeaseLost: the attempt is no longer this worker's. Stop and tell nobody.
	ErrLeaseLost = errors.New("the lease is lost")
	// ErrNotAllowed: the server does not know this worker, or no more.
	ErrNotAllowed = errors.New("this worker is not allowed")
	// ErrUnreachable: no whole answer came; the request may have taken effect.
	ErrUnreachable = errors.New("the server is not reachable")
	// ErrServer: the server answered that it cannot now.
	ErrServer = errors.New("the server cannot answer now")
	// ErrTooLarge: the server takes no result of this size.
	ErrTooLarge = errors.New("the server refused the size")
	// ErrRefused: the server refused the request for good, or answered what the
	// protocol does not allow.
	ErrRefused = errors.New("the server refused the request")
	// ErrInputMismatch: the input's size or SHA-256 is not the assignment's.
	ErrInputMismatch = errors.New("the input is not the one assigned")
	// ErrLocal: a file on this side failed.
	ErrLocal = errors.New("a local file failed")
)

// Why an attempt's context ended, beside ErrLeaseLost (context.Cause).
var (
	// ErrHandBack: the process stops and its grace is over.
	ErrHandBack = errors.New("the worker stops and hands the job back")
	// errEnded is the ordinary end.
	errEnded = errors.New("the attempt has ended")
)

// Error is a failed call.
type Error struct {
	Verb    string // what was tried: "claim", "input", ...
	Status  int    // HTTP status; 0 when no answer came
	Code    string // the server's error code, empty when it gave none
	Message string // the server's message, bounded and printable
	// RetryAfter is how long the server asked to wait; 0 when it did not.
	RetryAfter time.Duration

	kind  error // one of the sentinels
	cause error // the transport's or the file's error; may be nil
}

// Error implements error.
func (e *Error) Error() string {
	switch {
	case e.Code != "":
		return fmt.Sprintf("%s: %v (%d %s: %s)", e.Verb, e.kind, e.Status, e.Code, e.Message)
	case e.Status != 0 && e.cause == nil:
		return fmt.Sprintf("%s: %v (%d)", e.Verb, e.kind, e.Status)
	default:
		return fmt.Sprintf("%s: %v: %v", e.Verb, e.kind, e.cause)
	}
}

// Unwrap implements errors.Is and errors.As over the meaning and the cause.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.cause}
}

// again reports whether the same request may do better later.
func again(err error) bool { return errors.Is(err, ErrUnreachable) || errors.Is(err, ErrServer) }

// askedWait is how long the server asked to wait.
func askedWait(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}
