// Package protocol is the internal API as types: what a Worker and a Server say
// to each other over mTLS (INTERFACES §2). It holds no behaviour and nothing of
// users, storage or containers (ARC-08, ARC-09).
package protocol

import "glovebox/system/protocol/failure"

// Paths of the internal API; {id} is the job's UUID in canonical lower case.
const (
	PathClaim     = "/internal/v1/jobs/claim"
	PathInput     = "/internal/v1/jobs/{id}/input"
	PathHeartbeat = "/internal/v1/jobs/{id}/heartbeat"
	PathResult    = "/internal/v1/jobs/{id}/result"
	PathFail      = "/internal/v1/jobs/{id}/fail"
)

// Headers of the internal API.
const (
	// HeaderRequestID carries a UUID that makes a repeated claim converge.
	HeaderRequestID = "Glovebox-Request-Id"
	// HeaderFencingToken carries [1-9][0-9]* within int64 on everything that
	// concerns one attempt.
	HeaderFencingToken = "Glovebox-Fencing-Token"
	// HeaderReprDigest carries `sha-256=:BASE64:` of the transferred octets (RFC 9530).
	HeaderReprDigest = "Repr-Digest"
	// HeaderProvenance carries, at most once and beside a result or a failure, what
	// the worker says of the run: 1 to MaxProvenanceBytes of printable ASCII. A
	// server keeps it with the attempt and reads nothing in it (ARC-08).
	HeaderProvenance = "Glovebox-Attempt-Provenance"
)

// SAN URI prefixes of the certificates of the internal CA.
const (
	SANWorkerPrefix = "spiffe://glovebox/worker/"
	SANIngestPrefix = "spiffe://glovebox/ingest/"
)

// Saturation is what a worker tells of its slots with each claim and heartbeat.
type Saturation struct {
	SlotsFree  int `json:"slots_free"`
	SlotsTotal int `json:"slots_total"`
}

// Assignment is the answer to a claim. It names no user, file name or path.
type Assignment struct {
	ID               string `json:"id"`
	Attempt          int    `json:"attempt"`
	FencingToken     int64  `json:"fencing_token"`
	LeaseSeconds     int    `json:"lease_seconds"`
	HeartbeatSeconds int    `json:"heartbeat_seconds"`
	InputSize        int64  `json:"input_size"`
	InputSHA256      string `json:"input_sha256"` // lower-case hex
	TimeoutSeconds   int    `json:"timeout_seconds"`
	MaxResultBytes   int64  `json:"max_result_bytes"`
}

// HeartbeatAnswer tells how long the lease now lives.
type HeartbeatAnswer struct {
	LeaseSeconds int `json:"lease_seconds"`
}

// ResultAnswer is the answer to a stored result.
type ResultAnswer struct {
	Status string `json:"status"` // "completed"
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// MaxProvenanceBytes bounds HeaderProvenance.
const MaxProvenanceBytes = 512

// MaxDetailBytes bounds FailureReport.Detail.
const MaxDetailBytes = 1024

// FailureReport says how an attempt failed. Detail is printable text of at most
// MaxDetailBytes; for invalid_input it is what the job's owner will read.
type FailureReport struct {
	Code      failure.Code `json:"code"`
	Retryable bool         `json:"retryable"`
	Detail    string       `json:"detail"`
}

// FailureAnswer tells the job's status after a reported failure.
type FailureAnswer struct {
	Status string `json:"status"`
}

// Error is the one error form of both APIs.
type Error struct {
	Error ErrorBody `json:"error"`
}

// ErrorBody is the inner part of Error. Code is one of the table in INTERFACES §1-2.
type ErrorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error codes that only the internal API gives.
const (
	CodeLeaseLost        = "lease_lost"         // 409
	CodeConflict         = "conflict"           // 409
	CodeInvalidFailure   = "invalid_failure"    // 422
	CodeWorkerNotAllowed = "worker_not_allowed" // 403
)
