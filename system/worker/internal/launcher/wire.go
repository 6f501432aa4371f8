// Package launcher is the socket between the worker, which faces the network, and
// the launcher, which holds the engine: the messages, and the worker's client.
//
// The socket is a unix one of type SOCK_SEQPACKET: one packet is one JSON object.
// A request is a verb and nothing else. No verb takes a path, an image, an
// argument, an environment or a limit: those are the launcher's configuration
// (SBX-08, SBX-09).
//
//	idle ──acquire──▶ held ──run──▶ running ──(end)──▶ ran ──release──▶ idle
//	                    └──────────────release───────────────────────────▲
//
// One connection has at most one slot, and the slot lives no longer than the
// connection. acquire passes two descriptors, to write the input and to read the
// result. kill is allowed while running, and does nothing after. status and
// selftest are allowed where no slot is held. Anything else, an unknown field, a
// second object or a message beyond its bound is answered and ends the connection.
package launcher

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"

	"glovebox/system/worker/internal/container/verdict"
)

// Verb is a request.
type Verb string

// The verbs, all of them.
const (
	Acquire  Verb = "acquire"
	Run      Verb = "run"
	Kill     Verb = "kill"
	Release  Verb = "release"
	SelfTest Verb = "selftest"
	Status   Verb = "status"
)

// Bounds of one message in bytes.
const (
	MaxRequest  = 256
	MaxResponse = 64 << 10
)

// Code is the kind of a refusal.
type Code string

// The codes.
const (
	BadRequest    Code = "bad_request"     // not one object with the field verb; the connection ends
	UnknownVerb   Code = "unknown_verb"    // the connection ends
	WrongState    Code = "wrong_state"     // the verb is not allowed now; the connection ends
	Forbidden     Code = "forbidden"       // the peer's uid is not allowed this; the connection ends
	NotReady      Code = "not_ready"       // the self-test runs, a wall is missing, or the engine is away
	NoSlot        Code = "no_slot"         // all slots are in use
	InputTooLarge Code = "input_too_large" // nothing was started
	Unavailable   Code = "unavailable"     // the sandbox cannot be made; the launcher's log tells why
	Unclean       Code = "unclean"         // something of the attempt is left; the launcher goes on removing it
)

// Error is a refusal. It holds nothing of the host: paths and causes are in the
// launcher's log.
type Error struct {
	Code    Code     `json:"code"`
	Message string   `json:"message"`
	Missing []string `json:"missing,omitempty"` // of not_ready: the walls that do not stand
}

// Error implements error.
func (e *Error) Error() string { return "launcher: " + string(e.Code) + ": " + e.Message }

// CodeOf returns the code of a refusal in err's chain, or "".
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Request is what a client sends.
type Request struct {
	Verb Verb `json:"verb"`
}

// Response answers the request of the same verb. At most one of the pointers is
// set.
type Response struct {
	Verb    Verb             `json:"verb"`
	Error   *Error           `json:"error,omitempty"`
	Verdict *verdict.Verdict `json:"verdict,omitempty"` // of run
	State   *State           `json:"state,omitempty"`   // of status
	Walls   []Wall           `json:"walls,omitempty"`   // of selftest
}

// Phase says whether the launcher takes work.
type Phase string

// The phases.
const (
	Testing  Phase = "testing"   // the self-test has not ended yet
	Ready    Phase = "ready"     // all walls stand
	Refusing Phase = "refusing"  // a wall is missing
	NoEngine Phase = "no_engine" // the engine does not answer
	Stopping Phase = "stopping"
)

// State is the launcher's word on itself.
type State struct {
	Phase          Phase         `json:"phase"`
	Missing        []string      `json:"missing,omitempty"`
	SlotsTotal     int           `json:"slots_total"`
	SlotsFree      int           `json:"slots_free"`
	MaxInputBytes  int64         `json:"max_input_bytes"`
	MaxResultBytes int64         `json:"max_result_bytes"`
	Timeout        time.Duration `json:"timeout_ns"`
	ImageDigest    string        `json:"image_digest"`
	ImageID        string        `json:"image_id"`
}

// Wall is a line of the self-test.
type Wall struct {
	Name   string `json:"name"`
	Stands bool   `json:"stands"`
	Detail string `json:"detail"`
}

// ParseRequest reads one packet strictly.
func ParseRequest(packet []byte) (Request, *Error) {
	bad := &Error{Code: BadRequest, Message: `a request is one JSON object with the field "verb" alone`}
	if len(packet) > MaxRequest {
		return Request{}, &Error{Code: BadRequest, Message: "the request is larger than its bound"}
	}
	// By tokens: decoding into a struct would take the name in other letters, and
	// the last of two.
	dec := json.NewDecoder(bytes.NewReader(packet))
	var tokens [4]json.Token
	for i := range tokens {
		token, err := dec.Token()
		if err != nil {
			return Request{}, bad
		}
		tokens[i] = token
	}
	verb, isText := tokens[2].(string)
	if tokens[0] != json.Delim('{') || tokens[1] != "verb" || !isText || tokens[3] != json.Delim('}') {
		return Request{}, bad
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Request{}, bad
	}
	r := Request{Verb: Verb(verb)}
	switch r.Verb {
	case Acquire, Run, Kill, Release, SelfTest, Status:
		return r, nil
	case "":
		return Request{}, bad
	}
	return Request{}, &Error{Code: UnknownVerb, Message: "the verbs are acquire, run, kill, release, selftest, status"}
}
