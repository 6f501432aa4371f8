package storetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"glovebox/system/protocol"
	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
)

var transitionCases = []testCase{
	{"another user's job and a missing one are the same refusal", []string{"AUT-06"}, foreignIsMissing},
	{"ids in another spelling are not found", []string{"AUT-06"}, otherSpelling},
	{"a refusal changes nothing", []string{"ARC-04"}, refusalChangesNothing},
	{"what was stored is what the domain said", []string{"JOB-13"}, storedWhole},
	{"a heartbeat extends the lease and leaves no event", []string{"JOB-08"}, heartbeatNoEvent},
	{"the same result many times at once completes once", []string{"JOB-04"}, finishOnce},
	{"a result and the end of its lease at once: exactly one counts", []string{"JOB-03", "JOB-06"}, finishAgainstExpiry},
	{"a result and a failure at once: exactly one counts", []string{"JOB-03"}, finishAgainstFail},
	{"many servers expire one lease once", []string{"JOB-06", "ARC-05"}, expireOnce},
	{"bytes that have gone complete nothing", []string{"STO-02", "STO-03"}, pinGone},
	{"an answered failure is found by its attempt and code alone", []string{"JOB-04"}, answeredFailure},
	{"what was said of a run is kept whole with the event of its report", []string{"ARC-08"}, provenanceKept},
	{"a failed row holds the last attempt's code", []string{"JOB-09", "JOB-11"}, failTerminal},
}

func foreignIsMissing(t *testing.T, s Subject) {
	mine := create(t, s, s.User(t))
	stranger := s.User(t)
	_, foreign := s.Store.Get(t.Context(), stranger, mine.ID)
	_, missing := s.Store.Get(t.Context(), stranger, id())
	wantCode(t, foreign, domain.CodeNotFound)
	if foreign.Error() != missing.Error() {
		t.Errorf("a foreign job is %q, a missing one %q", foreign, missing)
	}
	if record, err := s.Store.Get(t.Context(), mine.UserID, mine.ID); err != nil || record.Job != mine {
		t.Errorf("the owner gets %+v, %v; want %+v", record.Job, err, mine)
	}
}

func otherSpelling(t *testing.T, s Subject) {
	mine := create(t, s, s.User(t))
	for _, spelling := range []string{"", "x", "{" + mine.ID + "}", "urn:uuid:" + mine.ID, mine.ID + " ", "00000000-0000-0000-0000-00000000000G"} {
		_, err := s.Store.Get(t.Context(), mine.UserID, spelling)
		wantCode(t, err, domain.CodeNotFound)
		_, err = s.Store.Look(t.Context(), spelling)
		wantCode(t, err, domain.CodeNotFound)
	}
}

func refusalChangesNothing(t *testing.T, s Subject) {
	job := create(t, s, s.User(t))
	_, err := s.Store.Transition(t.Context(), jobs.Change{JobID: job.ID, Decide: func(j domain.Job, _ time.Time) (domain.Job, *domain.Event, error) {
		j.Status = domain.Failed
		return j, nil, domain.Refuse(domain.CodeConflict, "no")
	}})
	wantCode(t, err, domain.CodeConflict)
	if got := look(t, s, job.ID); got != job {
		t.Errorf("the job became %+v", got)
	}
}

func storedWhole(t *testing.T, s Subject) {
	create(t, s, s.User(t))
	held := claim(t, s, "w-1")
	done, err := finish(t.Context(), s, fenceOf(held))
	if err != nil {
		t.Fatal(err)
	}
	got := look(t, s, held.ID)
	if got.Result == nil || *got.Result != *done.Result {
		t.Fatalf("the stored result is %+v, want %+v", got.Result, done.Result)
	}
	got.Result, done.Result = nil, nil
	if got != done {
		t.Errorf("the stored job is\n%+v, want\n%+v", got, done)
	}
	if got.Status != domain.Completed || got.WorkerID != "" || !got.LeaseExpires.IsZero() || got.TerminalAt.IsZero() {
		t.Errorf("a completed job is %+v", got)
	}
}

func heartbeatNoEvent(t *testing.T, s Subject) {
	create(t, s, s.User(t))
	held := claim(t, s, "w-1")
	beat := func(fence domain.Fence, lease time.Duration) error {
		_, err := s.Store.Transition(t.Context(), jobs.Change{JobID: held.ID, Decide: func(j domain.Job, now time.Time) (domain.Job, *domain.Event, error) {
			next, err := j.Heartbeat(fence, lease, now)
			return next, nil, err
		}})
		return err
	}
	before := len(s.History(t, held.ID))
	if err := beat(fenceOf(held), time.Hour); err != nil {
		t.Fatal(err)
	}
	got := look(t, s, held.ID)
	if got.LeaseExpires.Sub(held.LeaseExpires) < 59*time.Minute || got.Attempt != held.Attempt || got.Status != domain.Processing {
		t.Errorf("after a heartbeat of an hour the job is %+v", got)
	}
	if after := len(s.History(t, held.ID)); after != before {
		t.Errorf("a heartbeat left %d events", after-before)
	}
	old := fenceOf(held)
	old.FencingToken++
	wantCode(t, beat(old, lease), domain.CodeLeaseLost)
	s.LeaseOver(t, held.ID)
	wantCode(t, beat(fenceOf(held), lease), domain.CodeLeaseLost)
}

func finishOnce(t *testing.T, s Subject) {
	create(t, s, s.User(t))
	held := claim(t, s, "w-1")
	for _, err := range together(8, func(int) error { _, err := finish(t.Context(), s, fenceOf(held)); return err }) {
		if err != nil {
			t.Errorf("the same result again: %v", err)
		}
	}
	if history := s.History(t, held.ID); len(history) != 3 {
		t.Errorf("the history has %d events, want submitted, claimed, finished: %+v", len(history), history)
	}
}

func finishAgainstExpiry(t *testing.T, s Subject) {
	user := s.User(t)
	finished := 0
	for round := range 30 {
		create(t, s, user)
		held := claim(t, s, "w-1")
		errs := together(3, func(i int) error {
			switch i {
			case 0:
				_, err := finish(t.Context(), s, fenceOf(held))
				return err
			case 1:
				for range round % 5 { // let the result come further each time
					_ = look(t, s, held.ID)
				}
				s.LeaseOver(t, held.ID)
				_, err := expire(t.Context(), s, held.ID)
				return err
			default:
				_, err := expire(t.Context(), s, held.ID)
				return err
			}
		})
		got := look(t, s, held.ID)
		switch {
		case errs[0] == nil && got.Status == domain.Completed:
			finished++
		case domain.CodeOf(errs[0]) == domain.CodeLeaseLost && got.Status == domain.Pending && got.Result == nil:
		case domain.CodeOf(errs[0]) == domain.CodeLeaseLost && got.Status == domain.Processing:
			// Nobody took it back yet: the lease ran out before the result came.
		default:
			t.Fatalf("the result was answered %v and the job is %+v", errs[0], got)
		}
		ends := 0
		for _, e := range s.History(t, held.ID) {
			if e.From == domain.Processing {
				ends++
			}
		}
		if ends > 1 {
			t.Fatalf("one attempt ended %d times", ends)
		}
	}
	t.Logf("%d of 30 races went to the result", finished)
}

func finishAgainstFail(t *testing.T, s Subject) {
	user := s.User(t)
	for range 20 {
		create(t, s, user)
		held := claim(t, s, "w-1")
		errs := together(2, func(i int) error {
			if i == 0 {
				_, err := finish(t.Context(), s, fenceOf(held))
				return err
			}
			_, err := fail(t.Context(), s, fenceOf(held))
			return err
		})
		good, refused := count(t, errs, domain.CodeLeaseLost)
		if good != 1 || refused != 1 {
			t.Fatalf("%d of two contradicting reports counted", good)
		}
	}
}

func fail(ctx context.Context, s Subject, fence domain.Fence) (domain.Job, error) {
	return s.Store.Transition(ctx, jobs.Change{JobID: fence.JobID, Decide: func(j domain.Job, now time.Time) (domain.Job, *domain.Event, error) {
		next, event, err := j.Fail(fence, "invalid_input", "line 1", 0, now)
		return next, &event, err
	}})
}

func expireOnce(t *testing.T, s Subject) {
	create(t, s, s.User(t))
	held := claim(t, s, "w-1")
	s.LeaseOver(t, held.ID)
	good, refused := count(t, together(8, func(int) error { _, err := expire(t.Context(), s, held.ID); return err }), domain.CodeConflict)
	if good != 1 || refused != 7 {
		t.Errorf("%d of 8 expired the lease and %d were refused, want 1 and 7", good, refused)
	}
	got := look(t, s, held.ID)
	if got.Status != domain.Pending || got.ErrorCode != "worker_lost" || !got.ErrorRetryable || got.WorkerID != "" {
		t.Errorf("after its lease ran out the job is %+v", got)
	}
}

func pinGone(t *testing.T, s Subject) {
	user := s.User(t)
	create(t, s, user)
	held := claim(t, s, "w-1")
	gone := jobs.Pin{Key: "result/" + id(), Exists: func(context.Context) error { return errGone }}
	_, err := s.Store.Transition(t.Context(), jobs.Change{JobID: held.ID, Pin: &gone, Decide: func(j domain.Job, now time.Time) (domain.Job, *domain.Event, error) {
		next, event, _, err := j.Finish(fenceOf(held), result(), now)
		return next, &event, err
	}})
	wantCode(t, err, domain.CodeUnavailable)
	if got := look(t, s, held.ID); got != held {
		t.Errorf("the job became %+v", got)
	}
	job := newJob(user)
	job.Pin = gone
	_, err = s.Store.Create(t.Context(), job)
	wantCode(t, err, domain.CodeUnavailable)
	_, err = s.Store.Look(t.Context(), job.ID)
	wantCode(t, err, domain.CodeNotFound)
}

func answeredFailure(t *testing.T, s Subject) {
	create(t, s, s.User(t))
	held := claim(t, s, "w-1")
	fence := fenceOf(held)
	if _, err := fail(t.Context(), s, fence); err != nil {
		t.Fatal(err)
	}
	status, ok, err := s.Store.AnsweredFailure(t.Context(), fence, "invalid_input")
	if err != nil || !ok || status != domain.Failed {
		t.Errorf("the answered failure is %q, %v, %v", status, ok, err)
	}
	other, otherWorker := fence, fence
	other.FencingToken++
	otherWorker.WorkerID = "w-2"
	for name, ask := range map[string]func() (domain.Status, bool, error){
		"another code": func() (domain.Status, bool, error) { return s.Store.AnsweredFailure(t.Context(), fence, "core_error") },
		"another token": func() (domain.Status, bool, error) {
			return s.Store.AnsweredFailure(t.Context(), other, "invalid_input")
		},
		"another worker": func() (domain.Status, bool, error) {
			return s.Store.AnsweredFailure(t.Context(), otherWorker, "invalid_input")
		},
	} {
		if _, ok, err := ask(); ok || err != nil {
			t.Errorf("%s: ok %v, %v", name, ok, err)
		}
	}
}

func failTerminal(t *testing.T, s Subject) {
	create(t, s, s.User(t))
	held := claim(t, s, "w-1")
	want, err := fail(t.Context(), s, fenceOf(held))
	if err != nil {
		t.Fatal(err)
	}
	got := look(t, s, held.ID)
	if got != want || got.Status != domain.Failed || got.ErrorCode != "invalid_input" || got.ErrorRetryable || got.ErrorDetail != "line 1" {
		t.Errorf("the failed job is\n%+v, want\n%+v", got, want)
	}
}

func provenanceKept(t *testing.T, s Subject) {
	said := domain.Provenance(`said="' ~; ` + strings.Repeat("x", protocol.MaxProvenanceBytes-11))
	for name, report := range map[string]func(j domain.Job, now time.Time) (domain.Job, domain.Event, error){
		"a result": func(j domain.Job, now time.Time) (domain.Job, domain.Event, error) {
			next, event, _, err := j.Finish(fenceOf(j), result(), now)
			return next, event, err
		},
		"a final failure": func(j domain.Job, now time.Time) (domain.Job, domain.Event, error) {
			return j.Fail(fenceOf(j), "invalid_input", "", 0, now)
		},
		"a failure that is tried again": func(j domain.Job, now time.Time) (domain.Job, domain.Event, error) {
			return j.Fail(fenceOf(j), "timeout", "", time.Hour, now)
		},
		"a hand-back": func(j domain.Job, now time.Time) (domain.Job, domain.Event, error) {
			return j.Fail(fenceOf(j), "worker_shutdown", "", 0, now)
		},
	} {
		for _, words := range []domain.Provenance{said, ""} {
			create(t, s, s.User(t))
			held := claim(t, s, "w-1")
			_, err := s.Store.Transition(t.Context(), jobs.Change{JobID: held.ID, Decide: func(j domain.Job, now time.Time) (domain.Job, *domain.Event, error) {
				next, event, err := report(j, now)
				event.Provenance = words
				return next, &event, err
			}})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			history := s.History(t, held.ID)
			claimed, reported := history[len(history)-2], history[len(history)-1]
			if claimed.Provenance != "" || reported.Provenance != words {
				t.Errorf("%s that says %.20q of its run: the claim's event has %q, the report's %q", name, words, claimed.Provenance, reported.Provenance)
			}
		}
	}
}
