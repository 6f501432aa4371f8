// Package storefake is the jobs module's store in memory: a fake, not a mock. It
// passes the same conformance suite as the PostgreSQL adapter, so that what is
// tested on it holds there too. Its clock stands still until Advance.
package storefake

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
)

// Store is jobs.Store, jobs.Queue and jobs.Uploads.
type Store struct {
	mu      sync.Mutex
	now     time.Time
	jobs    map[string]*row
	uploads map[string]*upload
	keys    map[[2]string]*key // user, key
	fair    map[string]int64   // user
	events  []Event
}

// Event is a recorded transition.
type Event struct {
	domain.Event
	JobID, RequestID string
}

type row struct {
	job   domain.Job
	input jobs.Input
	fair  int64
}

type upload struct {
	userID    string
	heartbeat time.Time
	reserved  *int64
}

type key struct {
	uploadID    string
	fingerprint *[32]byte
	jobID       string
	created     time.Time
}

// New returns an empty store.
func New() *Store {
	return &Store{
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), jobs: map[string]*row{}, uploads: map[string]*upload{},
		keys: map[[2]string]*key{}, fair: map[string]int64{},
	}
}

// Advance moves the clock.
func (s *Store) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// Events returns the history of a job.
func (s *Store) Events(jobID string) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Event
	for _, e := range s.events {
		if e.JobID == jobID {
			found = append(found, e)
		}
	}
	return found
}

// Edit changes a job behind the state machine's back, for tests that need a job
// which time or damage has touched.
func (s *Store) Edit(jobID string, edit func(*domain.Job)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	edit(&s.jobs[jobID].job)
}

func (s *Store) record(r *row) jobs.Record {
	record := jobs.Record{Job: r.job, Input: r.input, Now: s.now}
	if r.job.Result != nil {
		result := *r.job.Result
		record.Job.Result = &result
	}
	return record
}

// Create implements jobs.Store.
func (s *Store) Create(ctx context.Context, n jobs.NewJob) (jobs.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.withinLimits(n.UserID, n.UploadID, n.Limits, n.Input.Size); err != nil {
		return jobs.Record{}, err
	}
	k := s.keys[[2]string{n.UserID, n.Key}]
	if n.Key != "" && (k == nil || k.uploadID != n.UploadID || k.jobID != "") {
		return jobs.Record{}, domain.Refuse(domain.CodeIdempotencyInFlight, "the key is another's")
	}
	if err := n.Pin.Exists(ctx); err != nil {
		return jobs.Record{}, &domain.Error{Code: domain.CodeUnavailable, Message: "the bytes have gone", Cause: err}
	}
	if n.Key != "" {
		k.jobID, k.fingerprint = n.ID, &n.Fingerprint
	}
	delete(s.uploads, n.UploadID)
	s.fair[n.UserID] = max(s.fair[n.UserID]+1, 1, s.virtualTime())
	r := &row{fair: s.fair[n.UserID], input: n.Input, job: domain.Job{
		ID: n.ID, UserID: n.UserID, AssetID: n.AssetID, AssetVersion: 1, Status: domain.Pending, MaxAttempts: n.MaxAttempts,
		NextAttemptAt: s.now, CreatedAt: s.now, UpdatedAt: s.now, CorrelationID: n.CorrelationID,
	}}
	s.jobs[n.ID] = r
	s.events = append(s.events, Event{JobID: n.ID, Event: domain.Event{To: domain.Pending, Cause: domain.CauseSubmitted}})
	return s.record(r), nil
}

// virtualTime is the adapter's rule; see postgres.nextFairKey.
func (s *Store) virtualTime() int64 {
	var lowest, highest, ever int64
	for _, r := range s.jobs {
		switch {
		case r.job.Status == domain.Pending && !s.now.Before(r.job.NextAttemptAt) && (lowest == 0 || r.fair < lowest):
			lowest = r.fair
		case r.job.Status == domain.Processing:
			highest = max(highest, r.fair)
		}
	}
	if v := max(lowest, highest); v > 0 {
		return v
	}
	for _, v := range s.fair {
		ever = max(ever, v)
	}
	return ever
}

func (s *Store) withinLimits(userID, uploadID string, limits jobs.Limits, size int64) error {
	active := 0
	for id, u := range s.uploads {
		if u.userID == userID && id != uploadID && u.reserved != nil && s.living(id) {
			active++
		}
	}
	for _, r := range s.jobs {
		if r.job.UserID == userID && !r.job.Status.Terminal() {
			active++
		}
	}
	if active >= limits.ActiveJobs || s.storedBytes(userID, uploadID)+size > limits.StoredBytes {
		return domain.Refuse(domain.CodeLimitExceeded, "beyond a limit")
	}
	return nil
}

func (s *Store) storedBytes(userID, uploadID string) (stored int64) {
	for id, u := range s.uploads {
		if u.userID == userID && id != uploadID && u.reserved != nil && s.living(id) {
			stored += *u.reserved
		}
	}
	for _, r := range s.jobs {
		if r.job.UserID == userID && r.job.PurgedAt.IsZero() {
			stored += r.input.Size
			if r.job.Result != nil {
				stored += r.job.Result.Size
			}
		}
	}
	return stored
}

// StoredBytes implements jobs.Store.
func (s *Store) StoredBytes(_ context.Context, userID string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.storedBytes(userID, ""), nil
}

// Get implements jobs.Store.
func (s *Store) Get(_ context.Context, userID, jobID string) (jobs.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.jobs[jobID]; r != nil && r.job.UserID == userID {
		return s.record(r), nil
	}
	return jobs.Record{}, domain.Refuse(domain.CodeNotFound, "there is no such job")
}

// Look implements jobs.Store.
func (s *Store) Look(_ context.Context, jobID string) (jobs.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.jobs[jobID]; r != nil {
		return s.record(r), nil
	}
	return jobs.Record{}, domain.Refuse(domain.CodeNotFound, "there is no such job")
}

// Transition implements jobs.Store.
func (s *Store) Transition(ctx context.Context, change jobs.Change) (domain.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.jobs[change.JobID]
	if r == nil {
		return domain.Job{}, domain.Refuse(domain.CodeNotFound, "there is no such job")
	}
	next, event, err := change.Decide(s.record(r).Job, s.now)
	if err != nil {
		return r.job, err
	}
	if change.StoredBytes > 0 && next.Result != nil && r.job.Result == nil &&
		s.storedBytes(r.job.UserID, "")+next.Result.Size > change.StoredBytes {
		return r.job, jobs.BeyondCap(change.StoredBytes)
	}
	if event != nil && change.Pin != nil {
		if err := change.Pin.Exists(ctx); err != nil {
			return r.job, &domain.Error{Code: domain.CodeUnavailable, Message: "the bytes have gone", Cause: err}
		}
	}
	r.job = next
	if event != nil {
		s.events = append(s.events, Event{JobID: change.JobID, Event: *event})
	}
	return next, nil
}

// Claim implements jobs.Queue.
func (s *Store) Claim(_ context.Context, claim jobs.Claim) (jobs.Record, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Cause == domain.CauseClaimed && e.WorkerID == claim.WorkerID && e.RequestID == claim.RequestID {
			r := s.jobs[e.JobID]
			if !r.job.HoldsLease(domain.Fence{JobID: e.JobID, WorkerID: e.WorkerID, FencingToken: e.FencingToken}, s.now) {
				return jobs.Record{}, false, domain.Refuse(domain.CodeConflict, "the assignment is over")
			}
			return s.record(r), true, nil
		}
	}
	var free []*row
	for _, r := range s.jobs {
		if r.job.Status == domain.Pending && !s.now.Before(r.job.NextAttemptAt) {
			free = append(free, r)
		}
	}
	if len(free) == 0 {
		return jobs.Record{}, false, nil
	}
	r := slices.MinFunc(free, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.fair, b.fair), cmp.Compare(a.job.ID, b.job.ID))
	})
	next, event, err := r.job.Claim(claim.WorkerID, claim.Lease, s.now)
	if err != nil {
		return jobs.Record{}, false, err
	}
	r.job = next
	s.events = append(s.events, Event{JobID: r.job.ID, RequestID: claim.RequestID, Event: event})
	return s.record(r), true, nil
}

// Expired implements jobs.Queue.
func (s *Store) Expired(_ context.Context, after string, limit int) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for id, r := range s.jobs {
		if r.job.Status == domain.Processing && !s.now.Before(r.job.LeaseExpires) && id > after {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[:min(len(ids), limit)], nil
}

// AnsweredFailure implements jobs.Queue.
func (s *Store) AnsweredFailure(_ context.Context, fence domain.Fence, code string) (domain.Status, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		reported := e.Cause == domain.CauseFailed || e.Cause == domain.CauseRetry || e.Cause == domain.CauseHandedBack
		if reported && e.JobID == fence.JobID && e.FencingToken == fence.FencingToken && e.WorkerID == fence.WorkerID && string(e.ErrorCode) == code {
			return e.To, true, nil
		}
	}
	return "", false, nil
}
