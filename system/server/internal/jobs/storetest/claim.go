package storetest

import (
	"slices"
	"testing"
	"time"

	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
)

var claimCases = []testCase{
	{"a claim raises attempt and token by one and assigns the job", []string{"JOB-02", "JOB-13"}, claimAssigns},
	{"an empty queue gives nothing", nil, claimEmpty},
	{"the same request gives the same assignment while its lease lives", []string{"JOB-04"}, claimRepeated},
	{"the same request at the same instant gives one assignment", []string{"JOB-04"}, claimRepeatedAtOnce},
	{"a request is another worker's if another worker sends it", []string{"JOB-04"}, claimRequestIsOfWorker},
	{"parallel claims never give a job twice", []string{"JOB-02", "ARC-05"}, claimParallel},
	{"a job that waits for its next attempt is passed", []string{"JOB-09"}, claimPassesWaiting},
	{"two thousand files of one user do not delay another's first", []string{"PIP-11"}, claimFair},
	{"users who queue together are served in turn", nil, claimAlternates},
	{"a job that waits for its next attempt does not let newcomers pass everybody", nil, claimFairDespiteRetry},
	{"leases that ran out are listed page by page", []string{"JOB-06"}, expiredPages},
}

func claimAssigns(t *testing.T, s Subject) {
	user := s.User(t)
	made := create(t, s, user)
	record, ok, err := s.Store.Claim(t.Context(), jobs.Claim{WorkerID: "w-1", RequestID: id(), Lease: lease})
	if err != nil || !ok {
		t.Fatalf("claim: ok %v, %v", ok, err)
	}
	// The adapter's one statement must do what the domain says.
	want, event, err := made.Claim("w-1", lease, record.Job.HeartbeatAt)
	if err != nil {
		t.Fatal(err)
	}
	if record.Job != want {
		t.Errorf("the claimed job is\n%+v, want\n%+v", record.Job, want)
	}
	if record.Input.Size != 10 || record.Input.FileName != "a file.lua" {
		t.Errorf("the input is %+v", record.Input)
	}
	if history := s.History(t, made.ID); len(history) != 2 || history[1] != event {
		t.Errorf("the history is %+v, want submitted and %+v", history, event)
	}
}

func claimEmpty(t *testing.T, s Subject) {
	_, ok, err := s.Store.Claim(t.Context(), jobs.Claim{WorkerID: "w-1", RequestID: id(), Lease: lease})
	if ok || err != nil {
		t.Fatalf("claim of an empty queue: ok %v, %v", ok, err)
	}
}

func claimRepeated(t *testing.T, s Subject) {
	user := s.User(t)
	first, second := create(t, s, user), create(t, s, user)
	request := jobs.Claim{WorkerID: "w-1", RequestID: id(), Lease: lease}
	for range 3 {
		record, ok, err := s.Store.Claim(t.Context(), request)
		if err != nil || !ok || record.Job.ID != first.ID || record.Job.FencingToken != 1 || record.Job.Attempt != 1 {
			t.Fatalf("claim again: %+v, ok %v, %v", record.Job, ok, err)
		}
	}
	if look(t, s, second.ID).Status != domain.Pending {
		t.Error("the repeated request took another job")
	}
	s.LeaseOver(t, first.ID)
	_, _, err := s.Store.Claim(t.Context(), request)
	wantCode(t, err, domain.CodeConflict)
}

func claimRepeatedAtOnce(t *testing.T, s Subject) {
	user := s.User(t)
	for range 20 {
		create(t, s, user)
	}
	for range 10 {
		request := jobs.Claim{WorkerID: "w-1", RequestID: id(), Lease: lease}
		ids := together(8, func(int) string {
			record, ok, err := s.Store.Claim(t.Context(), request)
			if err != nil || !ok {
				t.Errorf("claim: ok %v, %v", ok, err)
			}
			return record.Job.ID
		})
		if len(slices.Compact(ids)) != 1 {
			t.Fatalf("one request led to jobs %v", ids)
		}
	}
}

func claimRequestIsOfWorker(t *testing.T, s Subject) {
	user := s.User(t)
	create(t, s, user)
	create(t, s, user)
	request := id()
	one, _, err1 := s.Store.Claim(t.Context(), jobs.Claim{WorkerID: "w-1", RequestID: request, Lease: lease})
	two, _, err2 := s.Store.Claim(t.Context(), jobs.Claim{WorkerID: "w-2", RequestID: request, Lease: lease})
	if err1 != nil || err2 != nil || one.Job.ID == two.Job.ID {
		t.Fatalf("two workers with one request id got %q (%v) and %q (%v)", one.Job.ID, err1, two.Job.ID, err2)
	}
}

func claimParallel(t *testing.T, s Subject) {
	users := []string{s.User(t), s.User(t), s.User(t)}
	const amount = 120
	for i := range amount {
		create(t, s, users[i%len(users)])
	}
	const callers = 16
	taken := together(callers, func(i int) []string {
		var mine []string
		for {
			record, ok, err := s.Store.Claim(t.Context(), jobs.Claim{WorkerID: "w-" + string(rune('a'+i)), RequestID: id(), Lease: lease})
			if err != nil {
				t.Errorf("claim: %v", err)
			}
			if err != nil || !ok {
				return mine
			}
			mine = append(mine, record.Job.ID)
		}
	})
	seen := map[string]bool{}
	for _, list := range taken {
		for _, job := range list {
			if seen[job] {
				t.Errorf("job %s was given twice", job)
			}
			seen[job] = true
		}
	}
	// A claim may pass a job that another holds at that instant, and say that
	// there is none while that one's claim succeeds: none is left all the same.
	if len(seen) != amount {
		t.Errorf("%d jobs were given of %d", len(seen), amount)
	}
}

func claimPassesWaiting(t *testing.T, s Subject) {
	user := s.User(t)
	first, second := create(t, s, user), create(t, s, user)
	held := claim(t, s, "w-1")
	_, err := s.Store.Transition(t.Context(), jobs.Change{JobID: first.ID, Decide: func(j domain.Job, now time.Time) (domain.Job, *domain.Event, error) {
		next, event, err := j.Fail(fenceOf(held), "timeout", "", time.Hour, now)
		return next, &event, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := claim(t, s, "w-1"); got.ID != second.ID {
		t.Fatalf("claimed %s, want the job that is due", got.ID)
	}
	if _, ok, err := s.Store.Claim(t.Context(), jobs.Claim{WorkerID: "w-1", RequestID: id(), Lease: lease}); ok || err != nil {
		t.Fatalf("a job that is not due was claimed (%v)", err)
	}
	s.Due(t, first.ID)
	if got := claim(t, s, "w-1"); got.ID != first.ID || got.Attempt != 2 || got.FencingToken != 2 {
		t.Fatalf("claimed %+v, want the second attempt of the first job", got)
	}
}

func claimFair(t *testing.T, s Subject) {
	bulk, other := s.User(t), s.User(t)
	const amount = 2000
	for range amount {
		create(t, s, bulk)
	}
	for _, claimedBefore := range []int{0, 100} {
		for range claimedBefore {
			claim(t, s, "w-1")
		}
		mine := create(t, s, other)
		one, two := claim(t, s, "w-1"), claim(t, s, "w-1")
		if one.ID != mine.ID && two.ID != mine.ID {
			t.Fatalf("after %d claims the other user's job was neither the next nor the one after", claimedBefore)
		}
	}
}

func claimAlternates(t *testing.T, s Subject) {
	users := []string{s.User(t), s.User(t), s.User(t)}
	for _, user := range users {
		for range 10 {
			create(t, s, user)
		}
	}
	served := map[string]int{}
	for i := range 30 {
		served[claim(t, s, "w-1").UserID]++
		low, high := 1000, 0
		for _, user := range users {
			low, high = min(low, served[user]), max(high, served[user])
		}
		if high-low > 2 {
			t.Fatalf("after %d claims the users were served %v", i+1, served)
		}
	}
}

func claimFairDespiteRetry(t *testing.T, s Subject) {
	unlucky, bulk, late := s.User(t), s.User(t), s.User(t)
	create(t, s, unlucky)
	held := claim(t, s, "w-1")
	_, err := s.Store.Transition(t.Context(), jobs.Change{JobID: held.ID, Decide: func(j domain.Job, now time.Time) (domain.Job, *domain.Event, error) {
		next, event, err := j.Fail(fenceOf(held), "timeout", "", time.Hour, now)
		return next, &event, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	for range 60 {
		create(t, s, bulk)
	}
	for range 40 {
		claim(t, s, "w-1")
	}
	for range 20 {
		create(t, s, late)
	}
	served := map[string]int{}
	for range 10 {
		served[claim(t, s, "w-1").UserID]++
	}
	if served[bulk] < 4 || served[late] < 4 {
		t.Fatalf("of ten claims %d went to the user who came first and %d to the one who came late", served[bulk], served[late])
	}
}

func expiredPages(t *testing.T, s Subject) {
	user := s.User(t)
	want := map[string]bool{}
	for range 7 {
		create(t, s, user)
	}
	for i := range 6 {
		job := claim(t, s, "w-1")
		if i > 0 {
			s.LeaseOver(t, job.ID)
			want[job.ID] = true
		}
	}
	got := map[string]bool{}
	for after := ""; ; {
		page, err := s.Store.Expired(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range page {
			if got[job] || !want[job] {
				t.Errorf("job %s is listed, again or without reason", job)
			}
			got[job] = true
		}
		if len(page) < 2 {
			break
		}
		after = page[1]
	}
	if len(got) != len(want) {
		t.Errorf("%d jobs were listed, want %d", len(got), len(want))
	}
}
