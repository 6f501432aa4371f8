package domain

import (
	"crypto/subtle"
	"strings"
	"time"

	"glovebox/system/protocol/failure"
)

// Claim assigns a pending job to a worker for lease (JOB-02).
func (j Job) Claim(workerID string, lease time.Duration, now time.Time) (Job, Event, error) {
	if j.Status != Pending || now.Before(j.NextAttemptAt) {
		return j, Event{}, Refuse(CodeConflict, "the job is not waiting for a worker")
	}
	j.Status = Processing
	j.Attempt++
	j.FencingToken++
	j.WorkerID = workerID
	j.LeaseExpires = now.Add(lease)
	j.HeartbeatAt = now
	j.UpdatedAt = now
	return j, j.event(Pending, CauseClaimed), nil
}

// Heartbeat extends the lease of the current attempt (JOB-08). It is no
// transition and leaves no event.
func (j Job) Heartbeat(fence Fence, lease time.Duration, now time.Time) (Job, error) {
	if !j.HoldsLease(fence, now) {
		return j, LeaseLost()
	}
	j.LeaseExpires = now.Add(lease)
	j.HeartbeatAt = now
	return j, nil
}

// Finish completes the job with a stored result. repeat is true when the same
// attempt had already completed it with the same bytes: the answer is the same
// and nothing changes (JOB-04).
func (j Job) Finish(fence Fence, result Result, now time.Time) (next Job, event Event, repeat bool, err error) {
	if done, err := j.FinishedBy(fence, result.SHA256); done || err != nil {
		return j, Event{}, done, err
	}
	if !j.HoldsLease(fence, now) {
		return j, Event{}, false, LeaseLost()
	}
	result.WorkerID, result.FencingToken = fence.WorkerID, fence.FencingToken
	j.Status = Completed
	j.Result = &result
	j.ErrorCode, j.ErrorRetryable, j.ErrorDetail = "", false, ""
	j = j.unassign(now)
	j.TerminalAt = now
	return j, Event{From: Processing, To: Completed, Cause: CauseFinished, Attempt: j.Attempt, FencingToken: fence.FencingToken, WorkerID: fence.WorkerID}, false, nil
}

// FinishedBy reports whether this very attempt already completed the job with
// these bytes. Other bytes from the same attempt are a conflict.
func (j Job) FinishedBy(fence Fence, sum [32]byte) (bool, error) {
	if !j.CompletedBy(fence) {
		return false, nil
	}
	if subtle.ConstantTimeCompare(j.Result.SHA256[:], sum[:]) != 1 {
		return false, Refuse(CodeConflict, "the job was already completed with another result")
	}
	return true, nil
}

// CompletedBy reports whether this very attempt completed the job.
func (j Job) CompletedBy(fence Fence) bool {
	return j.ID == fence.JobID && j.Status == Completed && j.Result != nil &&
		j.Result.WorkerID == fence.WorkerID && j.Result.FencingToken == fence.FencingToken
}

// CheckFailure refuses a code that is unknown, that a worker may not report, or
// whose retryable contradicts the table (JOB-11).
func CheckFailure(code failure.Code, retryable bool) error {
	fact, ok := failure.Lookup(code)
	if !ok || fact.Reporter != failure.ByWorker {
		return Refuse(CodeInvalidFailure, "the failure code is not one a worker reports")
	}
	if fact.Retryable != retryable {
		return Refuse(CodeInvalidFailure, "retryable of %s is %v", code, fact.Retryable)
	}
	return nil
}

// Fail records a worker's failure report: final, or back to pending after
// backoff(attempt) while attempts remain (JOB-09). A worker_shutdown is a
// hand-back: pending at once, not counted, at most MaxHandBacks times.
func (j Job) Fail(fence Fence, code failure.Code, detail string, backoff time.Duration, now time.Time) (Job, Event, error) {
	fact, _ := failure.Lookup(code)
	if err := CheckFailure(code, fact.Retryable); err != nil {
		return j, Event{}, err
	}
	if !j.HoldsLease(fence, now) {
		return j, Event{}, LeaseLost()
	}
	attempt := j.Attempt
	event := Event{From: Processing, Attempt: attempt, FencingToken: fence.FencingToken, WorkerID: fence.WorkerID, ErrorCode: code}
	j.ErrorCode, j.ErrorRetryable, j.ErrorDetail = code, fact.Retryable, detail
	j = j.unassign(now)

	switch {
	case code == failure.WorkerShutdown && j.HandBacks < MaxHandBacks:
		j.Attempt--
		j.HandBacks++
		j.Status, j.NextAttemptAt, event.Cause = Pending, now, CauseHandedBack
	case fact.Retryable && attempt < j.MaxAttempts:
		j.Status, j.NextAttemptAt, event.Cause = Pending, now.Add(backoff), CauseRetry
	default:
		j.Status, j.TerminalAt, event.Cause = Failed, now, CauseFailed
	}
	event.To = j.Status
	return j, event, nil
}

// Expire takes back a job whose lease ran out with no word: pending while
// attempts remain, else failed (JOB-06). It refuses while the lease lives.
func (j Job) Expire(backoff time.Duration, now time.Time) (Job, Event, error) {
	if j.Status != Processing || now.Before(j.LeaseExpires) {
		return j, Event{}, Refuse(CodeConflict, "the lease has not run out")
	}
	event := Event{From: Processing, Attempt: j.Attempt, FencingToken: j.FencingToken, WorkerID: j.WorkerID}
	exhausted := j.Attempt >= j.MaxAttempts
	j = j.unassign(now)
	j.ErrorDetail = ""
	if exhausted {
		j.Status, j.TerminalAt = Failed, now
		j.ErrorCode, j.ErrorRetryable = failure.AttemptsExhausted, false
		event.Cause = CauseExhausted
	} else {
		j.Status, j.NextAttemptAt = Pending, now.Add(backoff)
		j.ErrorCode, j.ErrorRetryable = failure.WorkerLost, true
		event.Cause = CauseLeaseLost
	}
	event.To, event.ErrorCode = j.Status, j.ErrorCode
	return j, event, nil
}

// Reject ends a pending job by an inspection verdict, the only way from pending
// to failed.
func (j Job) Reject(code failure.Code, now time.Time) (Job, Event, error) {
	if !strings.HasPrefix(string(code), "rejected_") {
		return j, Event{}, Refuse(CodeInvalidFailure, "%s is not an inspection verdict", code)
	}
	if j.Status != Pending {
		return j, Event{}, Refuse(CodeConflict, "the job is not waiting")
	}
	j.Status, j.TerminalAt, j.UpdatedAt = Failed, now, now
	j.ErrorCode, j.ErrorRetryable = code, false
	event := j.event(Pending, CauseRejected)
	event.ErrorCode = code
	return j, event, nil
}

// Backoff bounds and growth of a retry's delay.
const (
	backoffBase = 1 * time.Second
	backoffMax  = 1 * time.Minute
)

// Backoff returns the delay before the attempt after attempt: doubling from one
// second to one minute, with jitter in [0,1) taking off up to half of it.
func Backoff(attempt int, jitter float64) time.Duration {
	delay := backoffMax
	if attempt < 7 {
		delay = min(backoffBase<<max(attempt-1, 0), backoffMax)
	}
	return delay - time.Duration(jitter*float64(delay)/2)
}

func (j Job) unassign(now time.Time) Job {
	j.WorkerID = ""
	j.LeaseExpires = time.Time{}
	j.HeartbeatAt = time.Time{}
	j.UpdatedAt = now
	return j
}

func (j Job) event(from Status, cause Cause) Event {
	return Event{From: from, To: j.Status, Cause: cause, Attempt: j.Attempt, FencingToken: j.FencingToken, WorkerID: j.WorkerID}
}

// LeaseLost is the one refusal of whoever does not hold the lease, whatever the
// reason: a worker learns nothing of jobs that are not its own.
func LeaseLost() error {
	return Refuse(CodeLeaseLost, "the attempt no longer holds the job; stop working on it")
}
