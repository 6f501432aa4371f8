package domain_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"glovebox/system/protocol/failure"
	"glovebox/system/server/internal/jobs/domain"
	"glovebox/threat-model/evidence"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const lease = 30 * time.Second

func pending() domain.Job {
	return domain.Job{ID: "j", UserID: "u", AssetID: "a", AssetVersion: 1, Status: domain.Pending, MaxAttempts: 3, NextAttemptAt: start, CreatedAt: start, UpdatedAt: start}
}

func claimed(t *testing.T) (domain.Job, domain.Fence) {
	t.Helper()
	j, _, err := pending().Claim("w", lease, start)
	if err != nil {
		t.Fatal(err)
	}
	return j, domain.Fence{JobID: "j", WorkerID: "w", FencingToken: j.FencingToken}
}

func stored(text string) domain.Result {
	return domain.Result{StorageKey: "result/" + text, Size: int64(len(text)), SHA256: sha256.Sum256([]byte(text))}
}

func wantCode(t *testing.T, err error, want domain.Code) {
	t.Helper()
	if domain.CodeOf(err) != want {
		t.Fatalf("error is %v, want code %q", err, want)
	}
}

func TestOnlyTheListedArrowsExist(t *testing.T) {
	evidence.Proves(t, "JOB-01")
	statuses := []domain.Status{"", domain.Pending, domain.Processing, domain.Completed, domain.Failed, "cancelled"}
	causes := []domain.Cause{domain.CauseSubmitted, domain.CauseClaimed, domain.CauseFinished, domain.CauseFailed, domain.CauseRetry,
		domain.CauseHandedBack, domain.CauseLeaseLost, domain.CauseRestored, domain.CauseExhausted, domain.CauseRejected}
	want := map[string]bool{
		" pending submitted": true, "pending processing claimed": true, "pending failed rejected": true,
		"processing completed finished": true, "processing failed failed": true, "processing failed exhausted": true,
		"processing pending retry": true, "processing pending handed_back": true, "processing pending lease_lost": true,
		"processing pending restored": true,
	}
	for _, from := range statuses {
		for _, to := range statuses {
			for _, cause := range causes {
				name := fmt.Sprintf("%s %s %s", from, to, cause)
				if domain.Allowed(from, to, cause) != want[name] {
					t.Errorf("arrow %q is allowed: %v, want %v", name, !want[name], want[name])
				}
			}
		}
	}
}

// TestOnlyTheHolderMovesAJob tries every wrong fence and time on everything a
// worker may ask.
func TestOnlyTheHolderMovesAJob(t *testing.T) {
	evidence.Proves(t, "JOB-03", "MTL-04")
	j, good := claimed(t)
	wrong := map[string]struct {
		fence domain.Fence
		now   time.Time
	}{
		"another job":              {domain.Fence{JobID: "k", WorkerID: "w", FencingToken: 1}, start},
		"another worker":           {domain.Fence{JobID: "j", WorkerID: "v", FencingToken: 1}, start},
		"no worker":                {domain.Fence{JobID: "j", FencingToken: 1}, start},
		"an older token":           {domain.Fence{JobID: "j", WorkerID: "w", FencingToken: 0}, start},
		"a newer token":            {domain.Fence{JobID: "j", WorkerID: "w", FencingToken: 2}, start},
		"the lease's last instant": {good, start.Add(lease)},
		"after the lease":          {good, start.Add(lease + time.Hour)},
	}
	ask := map[string]func(domain.Job, domain.Fence, time.Time) (domain.Job, error){
		"heartbeat": func(j domain.Job, f domain.Fence, now time.Time) (domain.Job, error) {
			return j.Heartbeat(f, lease, now)
		},
		"finish": func(j domain.Job, f domain.Fence, now time.Time) (domain.Job, error) {
			next, _, _, err := j.Finish(f, stored("x"), now)
			return next, err
		},
		"fail": func(j domain.Job, f domain.Fence, now time.Time) (domain.Job, error) {
			next, _, err := j.Fail(f, failure.Timeout, "", 0, now)
			return next, err
		},
	}
	ended := map[string]domain.Job{"processing": j, "pending": pending()}
	done, _, _, _ := j.Finish(good, stored("x"), start)
	gone, _, _ := j.Fail(good, failure.InvalidInput, "", 0, start)
	ended["failed"] = gone
	for name, do := range ask {
		for what, w := range wrong {
			next, err := do(j, w.fence, w.now)
			if domain.CodeOf(err) != domain.CodeLeaseLost || next != j {
				t.Errorf("%s by %s: %v, and the job is %+v", name, what, err, next)
			}
		}
		for status, job := range ended {
			next, err := do(job, good, start)
			if status == "processing" {
				if err != nil {
					t.Errorf("%s by the holder: %v", name, err)
				}
			} else if domain.CodeOf(err) != domain.CodeLeaseLost || next != job {
				t.Errorf("%s of a %s job: %v", name, status, err)
			}
		}
	}
	if next, _, repeat, err := done.Finish(good, stored("x"), start.Add(time.Hour)); err != nil || !repeat || next != done {
		t.Errorf("the same result again, long after: repeat %v, %v", repeat, err)
	}
	_, _, _, err := done.Finish(good, stored("y"), start)
	wantCode(t, err, domain.CodeConflict)
	_, _, _, err = done.Finish(domain.Fence{JobID: "j", WorkerID: "v", FencingToken: 1}, stored("x"), start)
	wantCode(t, err, domain.CodeLeaseLost)
}

func TestFailuresByTheTable(t *testing.T) {
	evidence.Proves(t, "JOB-09", "JOB-11")
	for _, code := range append(failure.Codes(), "made_up", "") {
		fact, known := failure.Lookup(code)
		reportable := known && fact.Reporter == failure.ByWorker
		for _, retryable := range []bool{false, true} {
			err := domain.CheckFailure(code, retryable)
			if want := reportable && fact.Retryable == retryable; (err == nil) != want {
				t.Errorf("report %q retryable=%v: %v, want accepted: %v", code, retryable, err, want)
			}
		}
		j, fence := claimed(t)
		next, event, err := j.Fail(fence, code, "why", time.Second, start)
		if !reportable {
			wantCode(t, err, domain.CodeInvalidFailure)
			continue
		}
		want := domain.Failed
		if fact.Retryable {
			want = domain.Pending
		}
		if err != nil || next.Status != want || event.To != want || event.ErrorCode != code || next.ErrorRetryable != fact.Retryable || next.WorkerID != "" {
			t.Errorf("%s: %v, job %+v, event %+v", code, err, next, event)
		}
	}
}

func TestRetriesEndWithTheLastAttemptsOwnCode(t *testing.T) {
	evidence.Proves(t, "JOB-06", "JOB-09")
	for _, c := range []struct {
		name string
		end  func(domain.Job, domain.Fence, time.Time) (domain.Job, domain.Event, error)
		code failure.Code
	}{
		{"a reported timeout", func(j domain.Job, f domain.Fence, now time.Time) (domain.Job, domain.Event, error) {
			return j.Fail(f, failure.Timeout, "", time.Second, now)
		}, failure.Timeout},
		{"a lease that ran out", func(j domain.Job, _ domain.Fence, _ time.Time) (domain.Job, domain.Event, error) {
			return j.Expire(time.Second, j.LeaseExpires)
		}, failure.AttemptsExhausted},
	} {
		j, now := pending(), start
		for attempt := 1; ; attempt++ {
			next, _, err := j.Claim("w", lease, now)
			if err != nil {
				t.Fatal(err)
			}
			fence := domain.Fence{JobID: "j", WorkerID: "w", FencingToken: next.FencingToken}
			j, _, err = c.end(next, fence, now)
			if err != nil {
				t.Fatalf("%s, attempt %d: %v", c.name, attempt, err)
			}
			if attempt > j.MaxAttempts {
				t.Fatalf("%s: attempt %d of %d", c.name, attempt, j.MaxAttempts)
			}
			if j.Status == domain.Failed {
				if attempt != j.MaxAttempts || j.ErrorCode != c.code {
					t.Errorf("%s: failed after %d attempts with %s", c.name, attempt, j.ErrorCode)
				}
				break
			}
			if !j.NextAttemptAt.After(now) {
				t.Errorf("%s: no delay before the next attempt", c.name)
			}
			now = j.NextAttemptAt
		}
	}
}

func TestHandBacksAreNotCountedAndAreBounded(t *testing.T) {
	evidence.Proves(t, "JOB-09", "REL-05")
	j := pending()
	j.MaxAttempts = 1
	backs := 0
	for turn := 0; j.Status != domain.Failed; turn++ {
		if turn > 2*domain.MaxHandBacks {
			t.Fatalf("the job was handed back %d times", backs)
		}
		next, _, err := j.Claim("w", lease, start)
		if err != nil {
			t.Fatal(err)
		}
		j, _, err = next.Fail(domain.Fence{JobID: "j", WorkerID: "w", FencingToken: next.FencingToken}, failure.WorkerShutdown, "", time.Hour, start)
		if err != nil {
			t.Fatal(err)
		}
		if j.Status == domain.Pending {
			backs++
			if j.Attempt != 0 || j.NextAttemptAt.After(start) {
				t.Fatalf("a hand-back counted or waits: %+v", j)
			}
		}
	}
	if backs != domain.MaxHandBacks || j.ErrorCode != failure.WorkerShutdown {
		t.Errorf("%d hand-backs, then %s", backs, j.ErrorCode)
	}
}

func TestOnlyAVerdictRejectsAPendingJob(t *testing.T) {
	evidence.Proves(t, "JOB-01")
	for _, code := range failure.Codes() {
		next, event, err := pending().Reject(code, start)
		verdict := code == failure.RejectedTooLarge || code == failure.RejectedUnsupportedType || code == failure.RejectedMaliciousContent
		if verdict && (err != nil || next.Status != domain.Failed || event.Cause != domain.CauseRejected) {
			t.Errorf("%s: %v, %+v", code, err, next)
		}
		if !verdict {
			wantCode(t, err, domain.CodeInvalidFailure)
		}
	}
	j, _ := claimed(t)
	_, _, err := j.Reject(failure.RejectedTooLarge, start)
	wantCode(t, err, domain.CodeConflict)
}

func TestBackoffDoublesWithinItsBounds(t *testing.T) {
	for attempt := range 40 {
		least, most := domain.Backoff(attempt, 0.999999), domain.Backoff(attempt, 0)
		if least < 500*time.Millisecond || most > time.Minute || least > most {
			t.Errorf("attempt %d waits %s to %s", attempt, least, most)
		}
	}
	if domain.Backoff(1, 0) != time.Second || domain.Backoff(2, 0) != 2*time.Second || domain.Backoff(3, 0) != 4*time.Second {
		t.Error("the delay does not double")
	}
}

func TestErrorsKeepCauseAndCode(t *testing.T) {
	cause := errors.New("disk")
	err := fmt.Errorf("store: %w", &domain.Error{Code: domain.CodeUnavailable, Message: "later", Cause: cause})
	if domain.CodeOf(err) != domain.CodeUnavailable || !errors.Is(err, cause) || !errors.Is(err, &domain.Error{Code: domain.CodeUnavailable}) {
		t.Errorf("%v lost its code or its cause", err)
	}
	if domain.CodeOf(cause) != "" || errors.Is(err, &domain.Error{Code: domain.CodeConflict}) {
		t.Error("a code was made up")
	}
}
