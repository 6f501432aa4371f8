package domain

// Status is where a job stands. Only the server changes it.
type Status string

// The statuses (JOB-01). There is no cancelled.
const (
	Pending    Status = "pending"
	Processing Status = "processing"
	Completed  Status = "completed"
	Failed     Status = "failed"
)

// Terminal reports whether nothing moves a job out of s.
func (s Status) Terminal() bool { return s == Completed || s == Failed }

// Cause names why a transition happened. It is what job_events records and what
// `job show` prints.
type Cause string

// The causes.
const (
	CauseSubmitted  Cause = "submitted"
	CauseClaimed    Cause = "claimed"
	CauseFinished   Cause = "finished"
	CauseFailed     Cause = "failed"      // a worker's final failure
	CauseRetry      Cause = "retry"       // a worker's failure, tried again
	CauseHandedBack Cause = "handed_back" // worker_shutdown
	CauseLeaseLost  Cause = "lease_lost"  // the lease ran out, tried again
	CauseRestored   Cause = "restored"    // the system was set back to a backup, tried again
	CauseExhausted  Cause = "exhausted"   // the last lease ran out
	CauseRejected   Cause = "rejected"    // an inspection verdict
)

// edge is one arrow of the state machine.
type edge struct {
	from, to Status
	cause    Cause
}

// edges lists every arrow there is; a pair that is not here does not happen. The
// arrow pending -> failed exists for a rejected_* verdict alone.
var edges = map[edge]bool{
	{"", Pending, CauseSubmitted}:          true,
	{Pending, Processing, CauseClaimed}:    true,
	{Pending, Failed, CauseRejected}:       true,
	{Processing, Completed, CauseFinished}: true,
	{Processing, Failed, CauseFailed}:      true,
	{Processing, Pending, CauseRetry}:      true,
	{Processing, Pending, CauseHandedBack}: true,
	{Processing, Pending, CauseLeaseLost}:  true,
	{Processing, Pending, CauseRestored}:   true,
	{Processing, Failed, CauseExhausted}:   true,
}

// Allowed reports whether the state machine has this arrow.
func Allowed(from, to Status, cause Cause) bool { return edges[edge{from, to, cause}] }
