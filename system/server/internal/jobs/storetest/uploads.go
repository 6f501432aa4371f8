package storetest

import (
	"crypto/sha256"
	"testing"

	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
)

var uploadCases = []testCase{
	{"uploads stay within the limit, however many come at once", []string{"UPL-03"}, uploadLimit},
	{"a slot is free again when its upload ends, or dies", []string{"UPL-03", "UPL-08"}, slotFreed},
	{"bodies that are here count, however many come at once", []string{"UPL-03", "UPL-10"}, reserveCounts},
	{"a place once reserved is kept for its job, and freed with its upload", []string{"UPL-03", "UPL-10"}, reserveKept},
	{"of many equal requests at once one gets the key", []string{"API-04"}, keyOnce},
	{"a key that led to a job is replayed, and takes no slot", []string{"API-04"}, keyReplayed},
	{"a declared digest that differs is refused at once, in flight too", []string{"API-04"}, keyMismatch},
	{"a key is another user's for another user", []string{"API-04"}, keyOfUser},
	{"a key whose upload failed is free", []string{"API-04"}, keyFreedByEnd},
	{"a key whose server died frees itself, and the dead one cannot use it", []string{"API-04"}, keyFreesItself},
	{"a key is forgotten after its lifetime", []string{"API-04"}, keyAges},
	{"an upload refused by a limit leaves the key free", []string{"API-04", "UPL-03"}, keyFreeAfterLimit},
}

func begin(t *testing.T, s Subject, u jobs.Upload) (string, error) {
	t.Helper()
	if u.Limits == (jobs.Limits{}) {
		u.Limits = wide
	}
	if u.ID == "" {
		u.ID = id()
	}
	return s.Store.Begin(t.Context(), u)
}

func mustBegin(t *testing.T, s Subject, u jobs.Upload) {
	t.Helper()
	if replay, err := begin(t, s, u); err != nil || replay != "" {
		t.Fatalf("begin: replay %q, %v", replay, err)
	}
}

// answer creates the job that the upload was for.
func answer(t *testing.T, s Subject, u jobs.Upload, content string) (domain.Job, error) {
	t.Helper()
	job := newJob(u.UserID)
	job.UploadID, job.Key, job.Fingerprint = u.ID, u.Key, sha256.Sum256([]byte(content))
	record, err := s.Store.Create(t.Context(), job)
	return record.Job, err
}

func fingerprint(content string) *[32]byte {
	sum := sha256.Sum256([]byte(content))
	return &sum
}

func uploadLimit(t *testing.T, s Subject) {
	user := s.User(t)
	limits := wide
	limits.Uploads = 5
	good, refused := count(t, together(20, func(int) error {
		_, err := begin(t, s, jobs.Upload{UserID: user, Limits: limits})
		return err
	}), domain.CodeLimitExceeded)
	if good != 5 || refused != 15 {
		t.Fatalf("of 20 at once %d began and %d were refused, want 5 and 15", good, refused)
	}
}

func slotFreed(t *testing.T, s Subject) {
	user := s.User(t)
	limits := wide
	limits.Uploads = 1
	first := jobs.Upload{ID: id(), UserID: user, Limits: limits}
	mustBegin(t, s, first)
	_, err := begin(t, s, jobs.Upload{UserID: user, Limits: limits})
	wantCode(t, err, domain.CodeLimitExceeded)
	if err := s.Store.End(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	second := jobs.Upload{ID: id(), UserID: user, Limits: limits}
	mustBegin(t, s, second)
	s.UploadDies(t, second.ID)
	third := jobs.Upload{ID: id(), UserID: user, Limits: limits}
	mustBegin(t, s, third)
	if _, err := answer(t, s, third, "x"); err != nil {
		t.Fatal(err)
	}
	mustBegin(t, s, jobs.Upload{UserID: user, Limits: limits})
}

func reserveCounts(t *testing.T, s Subject) {
	user := s.User(t)
	for name, limits := range map[string]jobs.Limits{
		"jobs":  {Uploads: 100, ActiveJobs: 7, StoredBytes: 1 << 40},
		"bytes": {Uploads: 100, ActiveJobs: 100, StoredBytes: 75}, // of 10 each
	} {
		uploads := make([]jobs.Upload, 20)
		for i := range uploads {
			uploads[i] = jobs.Upload{ID: id(), UserID: user, Limits: limits}
			mustBegin(t, s, uploads[i])
		}
		good, refused := count(t, together(len(uploads), func(i int) error {
			return s.Store.Reserve(t.Context(), uploads[i], 10)
		}), domain.CodeLimitExceeded)
		if good != 7 || refused != 13 {
			t.Errorf("limited by %s, %d of 20 got a place and %d were refused, want 7 and 13", name, good, refused)
		}
		for _, u := range uploads {
			if err := s.Store.End(t.Context(), u.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func reserveKept(t *testing.T, s Subject) {
	limits := wide
	limits.ActiveJobs = 1
	first := jobs.Upload{ID: id(), UserID: s.User(t), Limits: limits}
	second := jobs.Upload{ID: id(), UserID: first.UserID, Limits: limits}
	mustBegin(t, s, first)
	mustBegin(t, s, second)
	for range 2 { // asking again for the same is no second place
		if err := s.Store.Reserve(t.Context(), first, 10); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, s.Store.Reserve(t.Context(), second, 10), domain.CodeLimitExceeded)
	job := newJob(first.UserID)
	job.Limits, job.UploadID = limits, second.ID
	_, err := s.Store.Create(t.Context(), job)
	wantCode(t, err, domain.CodeLimitExceeded)
	s.UploadDies(t, first.ID)
	if err := s.Store.Reserve(t.Context(), second, 10); err != nil {
		t.Fatalf("the place of a dead upload: %v", err)
	}
	if _, err := s.Store.Create(t.Context(), job); err != nil {
		t.Fatalf("the job whose place was reserved: %v", err)
	}
}

func keyOnce(t *testing.T, s Subject) {
	user := s.User(t)
	good, refused := count(t, together(40, func(int) error {
		replay, err := begin(t, s, jobs.Upload{UserID: user, Key: "k", Fingerprint: fingerprint("x")})
		if replay != "" {
			t.Errorf("a replay of %s without a job", replay)
		}
		return err
	}), domain.CodeIdempotencyInFlight)
	if good != 1 || refused != 39 {
		t.Fatalf("%d of 40 got the key and %d were told that it is in flight, want 1 and 39", good, refused)
	}
}

func keyReplayed(t *testing.T, s Subject) {
	u := jobs.Upload{ID: id(), UserID: s.User(t), Key: "k"}
	mustBegin(t, s, u)
	job, err := answer(t, s, u, "x")
	if err != nil {
		t.Fatal(err)
	}
	none := wide
	none.Uploads, none.ActiveJobs = 0, 0
	for _, declared := range []*[32]byte{nil, fingerprint("x")} {
		replay, err := begin(t, s, jobs.Upload{UserID: u.UserID, Key: "k", Fingerprint: declared, Limits: none})
		if err != nil || replay != job.ID {
			t.Errorf("begin again: replay %q, %v; want %s", replay, err, job.ID)
		}
	}
	if got, err := s.Store.Match(t.Context(), u.UserID, "k", *fingerprint("x")); err != nil || got != job.ID {
		t.Errorf("match: %q, %v", got, err)
	}
	_, err = s.Store.Match(t.Context(), u.UserID, "k", *fingerprint("y"))
	wantCode(t, err, domain.CodeIdempotencyMismatch)
	if err := s.Store.End(t.Context(), u.ID); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Store.Match(t.Context(), u.UserID, "k", *fingerprint("x")); err != nil || got != job.ID {
		t.Errorf("after a late end, match: %q, %v", got, err)
	}
}

func keyMismatch(t *testing.T, s Subject) {
	u := jobs.Upload{ID: id(), UserID: s.User(t), Key: "k", Fingerprint: fingerprint("x")}
	mustBegin(t, s, u)
	other := jobs.Upload{UserID: u.UserID, Key: "k", Fingerprint: fingerprint("y")}
	_, err := begin(t, s, other)
	wantCode(t, err, domain.CodeIdempotencyMismatch)
	_, err = begin(t, s, jobs.Upload{UserID: u.UserID, Key: "k"})
	wantCode(t, err, domain.CodeIdempotencyInFlight)
	if _, err := answer(t, s, u, "x"); err != nil {
		t.Fatal(err)
	}
	_, err = begin(t, s, other)
	wantCode(t, err, domain.CodeIdempotencyMismatch)
}

func keyOfUser(t *testing.T, s Subject) {
	mustBegin(t, s, jobs.Upload{UserID: s.User(t), Key: "k", Fingerprint: fingerprint("x")})
	mustBegin(t, s, jobs.Upload{UserID: s.User(t), Key: "k", Fingerprint: fingerprint("y")})
}

func keyFreedByEnd(t *testing.T, s Subject) {
	u := jobs.Upload{ID: id(), UserID: s.User(t), Key: "k", Fingerprint: fingerprint("x")}
	mustBegin(t, s, u)
	if err := s.Store.End(t.Context(), u.ID); err != nil {
		t.Fatal(err)
	}
	mustBegin(t, s, jobs.Upload{UserID: u.UserID, Key: "k", Fingerprint: fingerprint("y")})
}

func keyFreesItself(t *testing.T, s Subject) {
	dead := jobs.Upload{ID: id(), UserID: s.User(t), Key: "k", Fingerprint: fingerprint("x")}
	mustBegin(t, s, dead)
	if err := s.Store.Renew(t.Context(), dead.ID); err != nil {
		t.Fatal(err)
	}
	s.UploadDies(t, dead.ID)
	next := jobs.Upload{ID: id(), UserID: dead.UserID, Key: "k", Fingerprint: fingerprint("x")}
	mustBegin(t, s, next)
	// The dead one was only asleep and comes back.
	_, err := answer(t, s, dead, "x")
	wantCode(t, err, domain.CodeIdempotencyInFlight)
	if err := s.Store.End(t.Context(), dead.ID); err != nil {
		t.Fatal(err)
	}
	job, err := answer(t, s, next, "x")
	if err != nil {
		t.Fatal(err)
	}
	if replay, err := begin(t, s, jobs.Upload{UserID: dead.UserID, Key: "k"}); err != nil || replay != job.ID {
		t.Errorf("replay %q, %v; want %s", replay, err, job.ID)
	}
}

func keyAges(t *testing.T, s Subject) {
	u := jobs.Upload{ID: id(), UserID: s.User(t), Key: "k", Fingerprint: fingerprint("x")}
	mustBegin(t, s, u)
	if _, err := answer(t, s, u, "x"); err != nil {
		t.Fatal(err)
	}
	s.KeyAges(t, u.UserID, "k")
	again := jobs.Upload{ID: id(), UserID: u.UserID, Key: "k", Fingerprint: fingerprint("y")}
	mustBegin(t, s, again)
	if _, err := answer(t, s, again, "y"); err != nil {
		t.Fatal(err)
	}
}

func keyFreeAfterLimit(t *testing.T, s Subject) {
	user := s.User(t)
	none := wide
	none.Uploads = 0
	_, err := begin(t, s, jobs.Upload{UserID: user, Key: "k", Limits: none})
	wantCode(t, err, domain.CodeLimitExceeded)
	full := wide
	full.ActiveJobs = 0
	_, err = begin(t, s, jobs.Upload{UserID: user, Key: "k", Limits: full})
	wantCode(t, err, domain.CodeLimitExceeded)
	mustBegin(t, s, jobs.Upload{UserID: user, Key: "k"})
}
