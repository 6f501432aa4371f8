package storetest

import (
	"sync"
	"testing"

	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
)

var createCases = []testCase{
	{"a new job is pending, with its event", []string{"JOB-01", "JOB-13"}, createPending},
	{"active jobs stay within the limit, however many come at once", []string{"UPL-03"}, activeLimit},
	{"stored bytes stay within the cap, however many come at once", []string{"UPL-10"}, storedLimit},
	{"a finished job frees its place and keeps its bytes", []string{"UPL-03", "UPL-10"}, finishedFreesPlace},
	{"results that end at once stay within the cap of stored bytes", []string{"UPL-10"}, resultsKeepToTheCap},
	{"one user's limits are not another's", []string{"UPL-03"}, limitsAreOwn},
}

func createPending(t *testing.T, s Subject) {
	user := s.User(t)
	wanted := newJob(user)
	record, err := s.Store.Create(t.Context(), wanted)
	if err != nil {
		t.Fatal(err)
	}
	j := record.Job
	if j.ID != wanted.ID || j.UserID != user || j.AssetID != wanted.AssetID || j.AssetVersion != 1 || j.Status != domain.Pending ||
		j.Attempt != 0 || j.FencingToken != 0 || j.MaxAttempts != 3 || j.CreatedAt.IsZero() || j.CorrelationID != "test" {
		t.Errorf("the new job is %+v", j)
	}
	if record.Input != wanted.Input {
		t.Errorf("its input is %+v, want %+v", record.Input, wanted.Input)
	}
	history := s.History(t, j.ID)
	if len(history) != 1 || history[0] != (domain.Event{To: domain.Pending, Cause: domain.CauseSubmitted}) {
		t.Errorf("its history is %+v", history)
	}
}

func createAtOnce(t *testing.T, s Subject, user string, n int, limits jobs.Limits) []error {
	return together(n, func(int) error {
		job := newJob(user)
		job.Limits = limits
		_, err := s.Store.Create(t.Context(), job)
		return err
	})
}

func activeLimit(t *testing.T, s Subject) {
	user := s.User(t)
	limits := wide
	limits.ActiveJobs = 10
	good, refused := count(t, createAtOnce(t, s, user, 32, limits), domain.CodeLimitExceeded)
	if good != 10 || refused != 22 {
		t.Fatalf("of 32 at once %d were taken and %d refused, want 10 and 22", good, refused)
	}
}

func storedLimit(t *testing.T, s Subject) {
	user := s.User(t)
	limits := wide
	limits.StoredBytes = 75 // each input has 10
	good, refused := count(t, createAtOnce(t, s, user, 24, limits), domain.CodeLimitExceeded)
	if good != 7 || refused != 17 {
		t.Fatalf("of 24 at once %d were taken and %d refused, want 7 and 17", good, refused)
	}
}

func finishedFreesPlace(t *testing.T, s Subject) {
	user := s.User(t)
	limits := wide
	limits.ActiveJobs = 1
	limits.StoredBytes = 24 // an input of 10, its result of 3, and one more input
	if good, _ := count(t, createAtOnce(t, s, user, 2, limits), domain.CodeLimitExceeded); good != 1 {
		t.Fatalf("%d were taken, want 1", good)
	}
	if _, err := finish(t.Context(), s, fenceOf(claim(t, s, "w-1"))); err != nil {
		t.Fatal(err)
	}
	if good, _ := count(t, createAtOnce(t, s, user, 1, limits), domain.CodeLimitExceeded); good != 1 {
		t.Fatal("a finished job still holds its place")
	}
	if _, err := finish(t.Context(), s, fenceOf(claim(t, s, "w-1"))); err != nil {
		t.Fatal(err)
	}
	if good, _ := count(t, createAtOnce(t, s, user, 1, limits), domain.CodeLimitExceeded); good != 0 {
		t.Fatal("bytes of finished jobs do not count")
	}
}

func resultsKeepToTheCap(t *testing.T, s Subject) {
	user := s.User(t)
	const inputs, fitting = 8, 3
	limit := int64(inputs*10 + fitting*3) // an input has 10 bytes, a result 3
	if good, _ := count(t, createAtOnce(t, s, user, inputs, wide), domain.CodeLimitExceeded); good != inputs {
		t.Fatalf("%d were taken, want %d", good, inputs)
	}
	var fences []domain.Fence
	for range inputs {
		fences = append(fences, fenceOf(claim(t, s, "w-1")))
	}
	ends := make([]error, inputs)
	var wg sync.WaitGroup
	for i, fence := range fences {
		wg.Go(func() { _, ends[i] = finishWithin(t.Context(), s, fence, limit) })
	}
	wg.Wait()
	if good, refused := count(t, ends, domain.CodeTooLarge); good != fitting || refused != inputs-fitting {
		t.Fatalf("%d results were taken and %d refused, want %d and %d", good, refused, fitting, inputs-fitting)
	}
	if kept, err := s.Store.StoredBytes(t.Context(), user); err != nil || kept != limit {
		t.Fatalf("%d bytes are kept (%v), want %d", kept, err, limit)
	}
}

func limitsAreOwn(t *testing.T, s Subject) {
	limits := wide
	limits.ActiveJobs = 1
	for range 3 {
		if good, _ := count(t, createAtOnce(t, s, s.User(t), 1, limits), domain.CodeLimitExceeded); good != 1 {
			t.Fatal("another user's job counted")
		}
	}
}
