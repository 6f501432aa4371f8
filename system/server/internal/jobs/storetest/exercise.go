// Package storetest is the conformance suite of the jobs module's store: the
// PostgreSQL adapter runs it, and the fake.
package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
	"glovebox/threat-model/evidence"
)

// Store is the whole port.
type Store interface {
	jobs.Store
	jobs.Queue
	jobs.Uploads
}

// Subject is a store under test, with the hands of somebody who can reach behind it.
type Subject struct {
	Store Store
	// User makes a user and returns the id.
	User func(t *testing.T) string
	// LeaseOver makes the job's lease run out now.
	LeaseOver func(t *testing.T, jobID string)
	// Due makes a pending job claimable now.
	Due func(t *testing.T, jobID string)
	// UploadDies makes an upload look as if nobody had renewed it.
	UploadDies func(t *testing.T, uploadID string)
	// KeyAges makes an Idempotency-Key older than its lifetime.
	KeyAges func(t *testing.T, userID, key string)
	// History returns the job's events, oldest first.
	History func(t *testing.T, jobID string) []domain.Event
}

type testCase struct {
	name   string
	proves []string
	run    func(t *testing.T, s Subject)
}

// Exercise runs the suite; open gives a fresh, empty store for each case.
func Exercise(t *testing.T, open func(t *testing.T) Subject) {
	for _, group := range [][]testCase{claimCases, transitionCases, createCases, uploadCases} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				if len(c.proves) > 0 {
					evidence.Proves(t, c.proves...)
				}
				t.Parallel()
				c.run(t, open(t))
			})
		}
	}
}

const lease = 30 * time.Second

// wide are limits that no case reaches by accident.
var wide = jobs.Limits{Uploads: 1000, ActiveJobs: 100_000, StoredBytes: 1 << 50}

func id() string { return uuid.Must(uuid.NewV7()).String() }

// present is a pin whose bytes are there.
func present() jobs.Pin {
	return jobs.Pin{Key: "input/" + id(), Exists: func(context.Context) error { return nil }}
}

func newJob(userID string) jobs.NewJob {
	return jobs.NewJob{
		ID: id(), UserID: userID, AssetID: id(), MaxAttempts: 3, UploadID: id(), Limits: wide, Pin: present(), CorrelationID: "test",
		Input: jobs.Input{StorageKey: "input/" + id(), FileName: "a file.lua", Size: 10, SHA256: sha256.Sum256([]byte("input"))},
	}
}

func create(t *testing.T, s Subject, userID string) domain.Job {
	t.Helper()
	record, err := s.Store.Create(t.Context(), newJob(userID))
	if err != nil {
		t.Fatalf("create a job: %v", err)
	}
	return record.Job
}

func claim(t *testing.T, s Subject, worker string) domain.Job {
	t.Helper()
	record, ok, err := s.Store.Claim(t.Context(), jobs.Claim{WorkerID: worker, RequestID: id(), Lease: lease})
	if err != nil || !ok {
		t.Fatalf("claim a job: ok %v, %v", ok, err)
	}
	return record.Job
}

func fenceOf(j domain.Job) domain.Fence {
	return domain.Fence{JobID: j.ID, WorkerID: j.WorkerID, FencingToken: j.FencingToken}
}

func result() domain.Result {
	return domain.Result{StorageKey: "result/" + id(), Size: 3, SHA256: sha256.Sum256([]byte("out"))}
}

func finish(ctx context.Context, s Subject, fence domain.Fence) (domain.Job, error) {
	return finishWithin(ctx, s, fence, wide.StoredBytes)
}

func finishWithin(ctx context.Context, s Subject, fence domain.Fence, storedBytes int64) (domain.Job, error) {
	pin := present()
	return s.Store.Transition(ctx, jobs.Change{JobID: fence.JobID, Pin: &pin, StoredBytes: storedBytes, Decide: func(j domain.Job, now time.Time) (domain.Job, *domain.Event, error) {
		next, event, repeat, err := j.Finish(fence, result(), now)
		if err != nil || repeat {
			return next, nil, err
		}
		return next, &event, nil
	}})
}

func expire(ctx context.Context, s Subject, jobID string) (domain.Job, error) {
	return s.Store.Transition(ctx, jobs.Change{JobID: jobID, SkipLocked: true, Decide: func(j domain.Job, now time.Time) (domain.Job, *domain.Event, error) {
		next, event, err := j.Expire(time.Minute, now)
		return next, &event, err
	}})
}

func look(t *testing.T, s Subject, jobID string) domain.Job {
	t.Helper()
	record, err := s.Store.Look(t.Context(), jobID)
	if err != nil {
		t.Fatalf("look at the job: %v", err)
	}
	return record.Job
}

func wantCode(t *testing.T, err error, want domain.Code) {
	t.Helper()
	if domain.CodeOf(err) != want {
		t.Fatalf("error is %v with code %q, want code %q", err, domain.CodeOf(err), want)
	}
}

// together runs n callers at the same instant and returns what each got.
func together[T any](n int, call func(i int) T) []T {
	var (
		all   sync.WaitGroup
		start = make(chan struct{})
		got   = make([]T, n)
	)
	for i := range n {
		all.Go(func() {
			<-start
			got[i] = call(i)
		})
	}
	close(start)
	all.Wait()
	return got
}

// count returns how many of the errors are nil and how many have the code; any
// other fails the test.
func count(t *testing.T, errs []error, code domain.Code) (good, refused int) {
	t.Helper()
	for _, err := range errs {
		switch {
		case err == nil:
			good++
		case domain.CodeOf(err) == code:
			refused++
		default:
			t.Errorf("unexpected error: %v", err)
		}
	}
	return good, refused
}

var errGone = errors.New("the file is not there")
