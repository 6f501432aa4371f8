package history

import "time"

// Job is a row of observe.jobs. The last fields are for a harness that sees more
// than an observer; they are zero where it does not.
type Job struct {
	ID             string     `json:"id"`
	Status         string     `json:"status"`
	WorkerID       string     `json:"worker_id,omitempty"`
	LeaseExpiresAt *time.Time `json:"lease_expires_at,omitempty"`
	Attempt        int        `json:"attempt"`
	MaxAttempts    int        `json:"max_attempts"`
	FencingToken   int64      `json:"fencing_token"`
	ErrorCode      string     `json:"error_code,omitempty"`
	ErrorRetryable *bool      `json:"error_retryable,omitempty"`
	CreatedAt      time.Time  `json:"created_at"`
	UpdatedAt      time.Time  `json:"updated_at"`

	UserID string `json:"user_id,omitempty"`
	Purged bool   `json:"purged,omitempty"` // retention has taken the result
	// ResultDigest is the SHA-256 that the row says of the result, in hex.
	ResultDigest string `json:"result_digest,omitempty"`
	// Stored is the SHA-256 of the result's bytes as they lie in storage, in hex, as
	// an oracle outside the server read them; "" where nobody looked, and NotStored
	// where there were none.
	Stored string `json:"stored,omitempty"`
}

// NotStored is Job.Stored of a result that an oracle looked for in vain.
const NotStored = "none"

// Transition is a row of observe.job_events.
type Transition struct {
	JobID        string    `json:"job_id"`
	From         string    `json:"from_status,omitempty"`
	To           string    `json:"to_status"`
	Cause        string    `json:"cause"`
	Attempt      int       `json:"attempt"`
	FencingToken int64     `json:"fencing_token"`
	WorkerID     string    `json:"worker_id,omitempty"`
	At           time.Time `json:"at"`
	// Request is the claim's request id, for a harness that sees it.
	Request string `json:"request,omitempty"`
}

// The statuses and causes as the views spell them. They are written down again
// here: a check that takes its rules from the code under test finds nothing.
const (
	Pending    = "pending"
	Processing = "processing"
	Completed  = "completed"
	Failed     = "failed"

	Submitted  = "submitted"
	Claimed    = "claimed"
	Finished   = "finished"
	FailedFor  = "failed"
	Retried    = "retry"
	HandedBack = "handed_back"
	LeaseLost  = "lease_lost"
	Exhausted  = "exhausted"
	Rejected   = "rejected"
)

// Terminal reports whether nothing may move a job out of status.
func Terminal(status string) bool { return status == Completed || status == Failed }

// Snapshot is what the database held at one instant.
type Snapshot struct {
	Now         time.Time    `json:"now"` // by the database's clock
	Jobs        []Job        `json:"jobs"`
	Transitions []Transition `json:"transitions"`
}

// Rules say how much the harness knows, and so how strict the checks may be. The
// zero value is the most careful one, for a harness outside the system.
type Rules struct {
	// LeasesEndByHand: leases are so long that only a LeaseOver ends one, so that
	// for each refused heartbeat there must be a reason in the history.
	LeasesEndByHand bool `json:"leases_end_by_hand,omitempty"`
	// WorkersRecorded: every worker's operation is in the history, so that each
	// transition must have one that asked for it.
	WorkersRecorded bool `json:"workers_recorded,omitempty"`
	// Quiet: the snapshot was taken when the system had had time to finish, so that
	// each job must be at its end.
	Quiet bool `json:"quiet,omitempty"`
	// LeaseGrace is how long a lease may have been over before the system must have
	// taken the job back: the sweep's interval and what slows it. Zero: not checked.
	LeaseGrace time.Duration `json:"lease_grace,omitempty"`
	// Began is the wall clock at nanosecond 0 of the events, and ClockSlack how far
	// the database's clock may be from it: with both, the times of transitions
	// narrow when they can have happened. Zero slack: they do not.
	Began      time.Time     `json:"began,omitzero"`
	ClockSlack time.Duration `json:"clock_slack,omitempty"`
}

// Record is one run: what was asked and answered, and what was left.
type Record struct {
	Rules    Rules
	Events   []Event
	Snapshot Snapshot
}

// Violation is a rule that the record shows to be broken.
type Violation struct {
	Rule string `json:"rule"`
	Job  string `json:"job,omitempty"`
	Text string `json:"text"`
}
