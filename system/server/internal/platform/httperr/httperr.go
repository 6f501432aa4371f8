// Package httperr turns any error into the one error form of both APIs.
//
// Inside, a refusal has a code, a message for the caller and a cause for the log.
// Here one table gives each code its status. An error without a code, or with one
// the table does not know, is `internal`: fixed text outside, the cause in the
// log (API-03). No text of a cause ever reaches a caller.
package httperr

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"glovebox/system/protocol"
	"glovebox/system/server/internal/jobs/domain"
)

// Codes that no module gives but the fronts themselves.
const (
	Invalid             = "invalid_request"
	Unauthenticated     = "unauthenticated"
	NotFound            = "not_found"
	MethodNotAllowed    = "method_not_allowed"
	RequestTimeout      = "request_timeout" // beyond INTERFACES: a body that came too slowly
	PreconditionFailed  = "precondition_failed"
	TooLarge            = "too_large"
	UnsupportedMedia    = "unsupported_media_type"
	RangeNotSatisfiable = "range_not_satisfiable"
	Overloaded          = "overloaded"
	Unavailable         = "unavailable"
	Internal            = "internal"
)

// statuses is the table (INTERFACES §1 and §2).
var statuses = map[string]int{
	Invalid:                           http.StatusBadRequest,
	Unauthenticated:                   http.StatusUnauthorized,
	protocol.CodeWorkerNotAllowed:     http.StatusForbidden,
	NotFound:                          http.StatusNotFound,
	MethodNotAllowed:                  http.StatusMethodNotAllowed,
	RequestTimeout:                    http.StatusRequestTimeout,
	string(domain.CodeNotCompleted):   http.StatusConflict,
	string(domain.CodeConflict):       http.StatusConflict,
	string(domain.CodeLeaseLost):      http.StatusConflict,
	"idempotency_in_flight":           http.StatusConflict,
	string(domain.CodeExpired):        http.StatusGone,
	PreconditionFailed:                http.StatusPreconditionFailed,
	TooLarge:                          http.StatusRequestEntityTooLarge,
	UnsupportedMedia:                  http.StatusUnsupportedMediaType,
	RangeNotSatisfiable:               http.StatusRequestedRangeNotSatisfiable,
	"idempotency_mismatch":            http.StatusUnprocessableEntity,
	string(domain.CodeInvalidFailure): http.StatusUnprocessableEntity,
	"rate_limited":                    http.StatusTooManyRequests,
	string(domain.CodeLimitExceeded):  http.StatusTooManyRequests,
	Overloaded:                        http.StatusServiceUnavailable,
	Unavailable:                       http.StatusServiceUnavailable,
	"insufficient_storage":            http.StatusInsufficientStorage,
	Internal:                          http.StatusInternalServerError,
}

// Codes returns every code with its status; the contract test compares it with
// the OpenAPI document.
func Codes() map[string]int {
	all := make(map[string]int, len(statuses))
	for code, status := range statuses {
		all[code] = status
	}
	return all
}

const (
	internalMessage    = "an internal error occurred; the request id identifies it in the server's log"
	unavailableMessage = "the server cannot do this now; try again later"
	// defaultRetryAfter is told where a refusal is temporary and nothing better is known.
	defaultRetryAfter = 5 * time.Second
	maxMessage        = 1024
)

// Error is a refusal made by a front.
type Error struct {
	Code       string
	Message    string
	Cause      error
	RetryAfter time.Duration // zero: the default of the status
	Close      bool          // the connection is of no more use: its framing is broken or it is too slow
}

// Error implements error.
func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Cause)
	}
	return e.Code + ": " + e.Message
}

// Unwrap gives errors.Is and errors.As the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Refuse makes a refusal.
func Refuse(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// refusal is what a module's own error type offers, so that it need not know HTTP.
type refusal interface {
	error
	Refusal() (code, message string, retryAfter time.Duration)
}

// Of returns what a caller is told of err.
func Of(err error) *Error {
	out := &Error{Code: Internal, Message: internalMessage, Cause: err}
	var own *Error
	var job *domain.Error
	var other refusal
	switch {
	case errors.As(err, &own):
		copied := *own
		copied.Cause = err
		out = &copied
	case errors.As(err, &job):
		out = &Error{Code: string(job.Code), Message: job.Message, Cause: err}
	case errors.As(err, &other):
		code, message, retryAfter := other.Refusal()
		out = &Error{Code: code, Message: message, Cause: err, RetryAfter: retryAfter}
	}
	if _, known := statuses[out.Code]; !known || out.Code == Internal {
		out.Code, out.Message = Internal, internalMessage
	}
	if out.Code == Unavailable && out.Message != domain.PausedMessage {
		out.Message = unavailableMessage // which part is away is the log's to say
	}
	if len(out.Message) > maxMessage {
		out.Message = out.Message[:maxMessage]
	}
	return out
}

// Status returns the status of the code, 500 for an unknown one.
func Status(code string) int {
	if status, ok := statuses[code]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// Responder answers requests with errors and logs their causes.
type Responder struct{ Log *slog.Logger }

// Error answers with err. It must be called before anything was written.
func (p Responder) Error(w http.ResponseWriter, r *http.Request, err error) {
	e := Of(err)
	status := Status(e.Code)
	p.log(r, e, status)

	h := w.Header()
	// What a handler had prepared for a success does not belong to an error.
	for _, name := range []string{"Content-Length", "Content-Disposition", "ETag", "Repr-Digest", "Accept-Ranges", "Content-Encoding"} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	switch {
	case status == http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="glovebox"`)
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable, e.Code == "idempotency_in_flight":
		retry := e.RetryAfter
		if retry <= 0 {
			retry = defaultRetryAfter
			if e.Code == "idempotency_in_flight" {
				retry = time.Second
			}
		}
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(retry.Seconds()))))
	}
	if e.Close {
		h.Set("Connection", "close")
	}
	body, err := json.Marshal(protocol.Error{Error: protocol.ErrorBody{Code: e.Code, Message: e.Message}})
	if err != nil { // two strings always marshal
		body = []byte(`{"error":{"code":"internal","message":""}}`)
	}
	body = append(body, '\n')
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

func (p Responder) log(r *http.Request, e *Error, status int) {
	level := slog.LevelDebug
	if status >= 500 && status != http.StatusInsufficientStorage {
		level = slog.LevelError
	} else if status == http.StatusInsufficientStorage {
		level = slog.LevelWarn
	}
	if r.Context().Err() != nil {
		level = slog.LevelDebug // the caller has left: its going is the cause
	}
	p.Log.Log(r.Context(), level, "request refused", "code", e.Code, "status", status, "error", e.Cause)
}
