package domain

import (
	"errors"
	"fmt"
)

// Code is the kind of a refusal. The front maps it to a status and a message;
// an error without a code is internal there.
type Code string

// The refusals of the jobs module.
const (
	CodeInvalid             Code = "invalid_request"
	CodeNotFound            Code = "not_found"
	CodeNotCompleted        Code = "job_not_completed"
	CodeExpired             Code = "result_expired"
	CodeLeaseLost           Code = "lease_lost"
	CodeConflict            Code = "conflict"
	CodeInvalidFailure      Code = "invalid_failure"
	CodeTooLarge            Code = "too_large"
	CodeLimitExceeded       Code = "limit_exceeded"
	CodeIdempotencyInFlight Code = "idempotency_in_flight"
	CodeIdempotencyMismatch Code = "idempotency_mismatch"
	CodeInsufficientStorage Code = "insufficient_storage"
	CodeUnavailable         Code = "unavailable"
)

// PausedMessage is the one message of CodeUnavailable that callers are shown: the
// fronts hide every other, which could say what stands behind the server.
const PausedMessage = "the system is paused after a restore, until its operator runs glovebox-server resume; try again later"

// Error is a refusal. Message is for the caller; Cause is for the log only.
type Error struct {
	Code    Code
	Message string
	Cause   error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Cause)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

// Unwrap gives errors.Is and errors.As the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is makes two refusals of one code equal for errors.Is.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code && other.Message == "" && other.Cause == nil
}

// Refuse makes a refusal.
func Refuse(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of err, or "" where it has none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
