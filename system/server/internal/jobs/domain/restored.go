package domain

import (
	"time"

	"glovebox/system/protocol/failure"
)

// Restored is what becomes of a job when the system is set back to a backup (DBS-03).
// A job that has ended stays as it is. Any other goes on from the fencing token
// base, which is above all that the lost system can have given out: whoever holds one
// of those is refused. One that was being processed is taken back as if its lease
// had run out, except that a restore never takes the last attempt away; only this
// leaves an event.
//
// The restore applies it to all jobs in one statement
// (system/server/internal/recovery/advance.go), which a test holds to this.
func (j Job) Restored(base int64, now time.Time) (Job, *Event) {
	if j.Status.Terminal() {
		return j, nil
	}
	var event *Event
	if j.Status == Processing {
		event = &Event{From: Processing, To: Pending, Cause: CauseRestored, Attempt: j.Attempt, FencingToken: j.FencingToken, WorkerID: j.WorkerID, ErrorCode: failure.WorkerLost}
		j = j.unassign(now)
		j.Status, j.NextAttemptAt = Pending, now
		j.Attempt = min(j.Attempt, j.MaxAttempts-1)
		j.ErrorCode, j.ErrorRetryable, j.ErrorDetail = failure.WorkerLost, true, ""
	}
	j.FencingToken = base
	return j, event
}
