package domain_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"glovebox/system/protocol/failure"
	"glovebox/system/server/internal/jobs/domain"
	"glovebox/threat-model/evidence"
)

// model is what a job must be, written without the code under test: a list of
// claims, each with its holder and the end of its lease, and one final answer.
type model struct {
	now     time.Time
	claims  []modelClaim
	open    bool // the last claim is running
	counted int  // attempts that count
	backs   int
	final   string // "", "completed" or "failed"
	sum     string
	due     time.Time
}

type modelClaim struct {
	worker string
	ends   time.Time
}

// holds says whether this worker with this token has the job now.
func (m *model) holds(worker string, token int64) bool {
	if !m.open || token != int64(len(m.claims)) {
		return false
	}
	last := m.claims[len(m.claims)-1]
	return last.worker == worker && m.now.Before(last.ends)
}

// TestAnyInterleavingOfRequestsAgreesWithTheModel drives one job by claims,
// heartbeats, results, failures, expiries and the clock in any order, with right
// and wrong fences, and compares every answer with the model.
func TestAnyInterleavingOfRequestsAgreesWithTheModel(t *testing.T) {
	evidence.Proves(t, "HAR-05", "JOB-01", "JOB-02", "JOB-03", "JOB-04", "JOB-06", "JOB-08", "JOB-09")
	workers := rapid.SampledFrom([]string{"w-1", "w-2"})
	contents := rapid.SampledFrom([]string{"x", "y"})
	codes := rapid.SampledFrom([]failure.Code{failure.Timeout, failure.InvalidInput, failure.WorkerShutdown, failure.SandboxFailure})
	rapid.Check(t, func(t *rapid.T) {
		j := pending()
		j.MaxAttempts = rapid.IntRange(1, 4).Draw(t, "max attempts")
		m := &model{now: start, due: start}
		fence := func(t *rapid.T) domain.Fence {
			token := rapid.Int64Range(int64(len(m.claims))-1, int64(len(m.claims))+1).Draw(t, "token")
			return domain.Fence{JobID: "j", WorkerID: workers.Draw(t, "worker"), FencingToken: token}
		}
		apply := func(t *rapid.T, next domain.Job, event *domain.Event, err error, want domain.Code) bool {
			if domain.CodeOf(err) != want {
				t.Fatalf("answer %v, the model says code %q; job %+v", err, want, j)
			}
			if err != nil {
				if next != j {
					t.Fatalf("a refusal changed the job from %+v to %+v", j, next)
				}
				return false
			}
			if event != nil && !domain.Allowed(event.From, event.To, event.Cause) {
				t.Fatalf("an arrow that does not exist: %+v", *event)
			}
			if event != nil && (event.From != j.Status || event.To != next.Status) {
				t.Fatalf("the event %+v is not what happened to %s -> %s", *event, j.Status, next.Status)
			}
			j = next
			return true
		}
		ended := func(pending bool, wait time.Duration) {
			m.open = false
			if pending {
				m.due = m.now.Add(wait)
			} else {
				m.final = "failed"
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"clock": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			},
			"claim": func(t *rapid.T) {
				worker := workers.Draw(t, "worker")
				want := domain.Code("")
				if m.open || m.final != "" || m.now.Before(m.due) {
					want = domain.CodeConflict
				}
				next, event, err := j.Claim(worker, lease, m.now)
				if apply(t, next, &event, err, want) {
					m.claims = append(m.claims, modelClaim{worker, m.now.Add(lease)})
					m.open = true
					m.counted++
				}
			},
			"heartbeat": func(t *rapid.T) {
				f := fence(t)
				want := domain.CodeLeaseLost
				if m.holds(f.WorkerID, f.FencingToken) {
					want = ""
				}
				next, err := j.Heartbeat(f, lease, m.now)
				if apply(t, next, nil, err, want) {
					m.claims[len(m.claims)-1].ends = m.now.Add(lease)
				}
			},
			"finish": func(t *rapid.T) {
				f, content := fence(t), contents.Draw(t, "content")
				mine := m.final == "completed" && f.FencingToken == int64(len(m.claims)) && m.claims[len(m.claims)-1].worker == f.WorkerID
				want, wantRepeat := domain.CodeLeaseLost, false
				switch {
				case mine && m.sum == content:
					want, wantRepeat = "", true
				case mine:
					want = domain.CodeConflict
				case m.holds(f.WorkerID, f.FencingToken):
					want = ""
				}
				before := j
				next, event, repeat, err := j.Finish(f, stored(content), m.now)
				if repeat != wantRepeat || repeat && next != before {
					t.Fatalf("repeat %v, the model says %v", repeat, wantRepeat)
				}
				if repeat {
					return
				}
				if apply(t, next, &event, err, want) {
					m.open, m.final, m.sum = false, "completed", content
				}
			},
			"fail": func(t *rapid.T) {
				f, code := fence(t), codes.Draw(t, "code")
				want := domain.CodeLeaseLost
				if m.holds(f.WorkerID, f.FencingToken) {
					want = ""
				}
				next, event, err := j.Fail(f, code, "", 10*time.Second, m.now)
				if !apply(t, next, &event, err, want) {
					return
				}
				switch {
				case code == failure.WorkerShutdown && m.backs < domain.MaxHandBacks:
					m.backs++
					m.counted--
					ended(true, 0)
				case code == failure.InvalidInput:
					ended(false, 0)
				default:
					ended(m.counted < j.MaxAttempts, 10*time.Second)
				}
			},
			"expire": func(t *rapid.T) {
				want := domain.CodeConflict
				if m.open && !m.now.Before(m.claims[len(m.claims)-1].ends) {
					want = ""
				}
				next, event, err := j.Expire(10*time.Second, m.now)
				if apply(t, next, &event, err, want) {
					ended(m.counted < j.MaxAttempts, 10*time.Second)
				}
			},
			"": func(t *rapid.T) { agrees(t, j, m) },
		})
	})
}

// agrees compares the job with the model, and the job with its own invariants.
func agrees(t *rapid.T, j domain.Job, m *model) {
	status := domain.Pending
	switch {
	case m.open:
		status = domain.Processing
	case m.final == "completed":
		status = domain.Completed
	case m.final == "failed":
		status = domain.Failed
	}
	if j.Status != status || j.Attempt != m.counted || j.HandBacks != m.backs || j.FencingToken != int64(len(m.claims)) {
		t.Fatalf("the job is %+v, the model says %s, %d attempts, %d hand-backs, %d claims", j, status, m.counted, m.backs, len(m.claims))
	}
	if j.UserID != "u" || j.AssetID != "a" {
		t.Fatalf("the owner or the asset changed: %+v", j)
	}
	if (j.Status == domain.Processing) != (j.WorkerID != "" && !j.LeaseExpires.IsZero()) {
		t.Fatalf("processing and assigned are not the same: %+v", j)
	}
	if (j.Status == domain.Completed) != (j.Result != nil) || j.Status.Terminal() != !j.TerminalAt.IsZero() {
		t.Fatalf("completed without a result, or the end without a time: %+v", j)
	}
	if j.Status == domain.Failed && j.ErrorCode == "" || j.Status == domain.Completed && j.ErrorCode != "" {
		t.Fatalf("the error code does not fit the status: %+v", j)
	}
	if j.Result != nil && j.Result.SHA256 != stored(m.sum).SHA256 {
		t.Fatalf("the result is not the one that was accepted")
	}
}
