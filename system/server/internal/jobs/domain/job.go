// Package domain is the life of a job as pure code: what a job is, which
// transitions there are, and who may ask for each.
//
// Nothing here reads a clock, a database or a file. A transition takes the job
// as it stands and the database's time, and returns the job as it must become
// with the event to record, or a refusal. The adapter stores the new state by a
// conditional update on what the transition looked at (ARC-04), so that the rule
// is written once and the race is decided in the database.
package domain

import (
	"time"

	"glovebox/system/protocol/failure"
)

// Defaults and bounds of a job.
const (
	DefaultMaxAttempts = 3
	// MaxHandBacks bounds the hand-backs that do not count as attempts, so that a
	// worker which stops for ever cannot keep a job alive for ever.
	MaxHandBacks = 10
)

// Job is one unit of work: one version of one user's asset, processed once.
type Job struct {
	ID           string // UUID, canonical lower case
	UserID       string // never empty, never changes (JOB-13)
	AssetID      string
	AssetVersion int

	Status        Status
	Attempt       int // claims so far, without hand-backs
	MaxAttempts   int
	HandBacks     int
	FencingToken  int64 // rises by one with every claim
	WorkerID      string
	LeaseExpires  time.Time
	HeartbeatAt   time.Time
	NextAttemptAt time.Time // a pending job is not claimable before

	ErrorCode      failure.Code
	ErrorRetryable bool
	ErrorDetail    string

	Result *Result // set exactly when Status is Completed

	CreatedAt  time.Time
	UpdatedAt  time.Time
	TerminalAt time.Time // when it completed or failed; retention counts from here
	PurgedAt   time.Time // when retention removed its bytes; zero before

	CorrelationID string // of the request that made it; follows it through every log
}

// Result is what a completed job points to.
type Result struct {
	StorageKey string
	Size       int64
	SHA256     [32]byte
	// Fence is the attempt that produced it: the repeat of an answered request is
	// recognised by it.
	WorkerID     string
	FencingToken int64
}

// Fence is what a worker shows with everything it asks about an attempt.
type Fence struct {
	JobID        string
	WorkerID     string // from the certificate, never from the request's body
	FencingToken int64
}

// Event is one line of the job's history.
type Event struct {
	From, To     Status
	Cause        Cause
	Attempt      int
	FencingToken int64
	WorkerID     string
	ErrorCode    failure.Code
	Provenance   Provenance // of a worker's report alone
}

// Provenance is what a worker said of the run it reports: printable ASCII, bounded
// by the protocol, empty where it said nothing. It is kept for people; no rule
// looks at it (ARC-08).
type Provenance string

// HoldsLease reports whether fence is the job's current attempt and its lease
// lives at now. The lease's last instant no longer counts as live.
func (j Job) HoldsLease(fence Fence, now time.Time) bool {
	return j.ID == fence.JobID && j.Status == Processing && j.WorkerID != "" && j.WorkerID == fence.WorkerID &&
		j.FencingToken == fence.FencingToken && now.Before(j.LeaseExpires)
}

// KeepsResult reports whether a job that ended still has what it ended with at
// now: retention counts from the end, and its last instant no longer counts as
// kept (JOB-05, STO-05).
func (j Job) KeepsResult(retention time.Duration, now time.Time) bool {
	return j.Status.Terminal() && j.PurgedAt.IsZero() && now.Before(j.TerminalAt.Add(retention))
}
