package auth

import (
	"errors"
	"fmt"
	"time"
)

// Code is the kind of a refusal.
type Code string

// The refusals of this module.
const (
	CodeUnauthenticated Code = "unauthenticated" // always the same words, whatever was wrong
	CodeRateLimited     Code = "rate_limited"
	CodeOverloaded      Code = "overloaded" // too many passwords are being checked
	CodeInvalid         Code = "invalid_request"
	CodeUnavailable     Code = "unavailable" // the store is away; trying again may help
)

// Error is a refusal. Message is for the caller; Cause is for the log only and
// holds no credential.
type Error struct {
	Code    Code
	Message string
	Retry   time.Duration // when it may be tried again; zero where that says nothing
	Cause   error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Cause)
	}
	return string(e.Code) + ": " + e.Message
}

// Unwrap gives errors.Is and errors.As the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Refusal tells the HTTP front what to answer.
func (e *Error) Refusal() (code, message string, retryAfter time.Duration) {
	return string(e.Code), e.Message, e.Retry
}

// CodeOf returns the code of err, or "" where it has none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// wrongCredentials is the one answer for a wrong login, a wrong password and a
// disabled user (AUT-05).
func wrongCredentials(cause string) error {
	return &Error{Code: CodeUnauthenticated, Message: "the login or the password is wrong", Cause: errors.New(cause)}
}

// NoToken is the one answer for a token that is missing, malformed, unknown,
// expired or revoked, or whose user is disabled (AUT-01).
func NoToken(cause string) error {
	return &Error{Code: CodeUnauthenticated, Message: "a valid token is needed; get one from POST /api/v1/auth/token", Cause: errors.New(cause)}
}
