package jobs_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"glovebox/system/protocol"
	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
	"glovebox/system/server/internal/jobs/storefake"
	"glovebox/system/server/internal/storage/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kit is a service on fakes that pass the real adapters' conformance suites.
type kit struct {
	*jobs.Service
	store *storefake.Store
	blobs *flaky
	user  string
}

const maxBytes = 1000

var limits = jobs.Limits{Uploads: 100, ActiveJobs: 100, StoredBytes: 1 << 20}

func setup(t *testing.T, edit ...func(*jobs.Parts, *jobs.Settings)) *kit {
	t.Helper()
	k := &kit{store: storefake.New(), blobs: &flaky{Store: memory.New(0)}, user: uuid.NewString()}
	parts := jobs.Parts{Store: k.store, Queue: k.store, Uploads: k.store, Blobs: k.blobs, Roster: silent{}}
	settings := jobs.Settings{
		MaxInputBytes: maxBytes, MaxResultBytes: maxBytes, MaxAttempts: 3, Limits: limits,
		Lease: 30 * time.Second, Heartbeat: 10 * time.Second, Timeout: time.Minute, ClaimPoll: time.Hour, Retention: 7 * 24 * time.Hour,
	}
	for _, e := range edit {
		e(&parts, &settings)
	}
	k.Service = jobs.New(parts, settings)
	return k
}

type silent struct{}

func (silent) Seen(context.Context, string, int, int) error { return nil }

// flaky is the memory store with faults to order.
type flaky struct {
	*memory.Store
	mu                  sync.Mutex
	stage, commit, open error
	// gone makes committed bytes vanish at once.
	gone bool
}

func (f *flaky) set(change func(*flaky)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *flaky) Stage(ctx context.Context, body io.Reader, limit int64) (jobs.Staged, error) {
	f.mu.Lock()
	refused := f.stage
	f.mu.Unlock()
	if refused != nil {
		return nil, refused
	}
	staged, err := f.Store.Stage(ctx, body, limit)
	if err != nil {
		return nil, err
	}
	return &flakyStaged{staged, f}, nil
}

func (f *flaky) Open(ctx context.Context, key string) (io.ReadSeekCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open != nil {
		return nil, f.open
	}
	return f.Store.Open(ctx, key)
}

type flakyStaged struct {
	jobs.Staged
	store *flaky
}

func (s *flakyStaged) Commit(ctx context.Context, key string) error {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if s.store.commit != nil {
		return s.store.commit
	}
	if err := s.Staged.Commit(ctx, key); err != nil || !s.store.gone {
		return err
	}
	return s.store.Remove(ctx, key)
}

var errDisk = errors.New("the disk is on fire")

func (k *kit) submission() jobs.Submission {
	return jobs.Submission{UserID: k.user, FileName: "a.lua", CorrelationID: "c-1"}
}

func (k *kit) submit(t *testing.T, content string) jobs.Receipt {
	t.Helper()
	receipt, err := k.Submit(t.Context(), k.submission(), bytes.NewReader([]byte(content)))
	if err != nil {
		t.Fatalf("submit: %v", err)
	}
	return receipt
}

func (k *kit) claim(t *testing.T) (domain.Fence, *protocol.Assignment) {
	t.Helper()
	a, err := k.Claim(t.Context(), jobs.ClaimCall{WorkerID: "w-1", RequestID: uuid.NewString(), SlotsTotal: 1})
	if err != nil || a == nil {
		t.Fatalf("claim: %v, %v", a, err)
	}
	return domain.Fence{JobID: a.ID, WorkerID: "w-1", FencingToken: a.FencingToken}, a
}

func (k *kit) finish(t *testing.T, fence domain.Fence, content string) (jobs.View, error) {
	t.Helper()
	return k.Finish(t.Context(), fence, sha256.Sum256([]byte(content)), "", bytes.NewReader([]byte(content)))
}

// completed submits, claims and finishes.
func (k *kit) completed(t *testing.T, result string) string {
	t.Helper()
	receipt := k.submit(t, "input")
	fence, _ := k.claim(t)
	if _, err := k.finish(t, fence, result); err != nil {
		t.Fatalf("finish: %v", err)
	}
	return receipt.ID
}

func (k *kit) status(t *testing.T, id string) jobs.View {
	t.Helper()
	v, err := k.Status(t.Context(), k.user, id)
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	return v
}

func wantCode(t *testing.T, err error, want domain.Code) {
	t.Helper()
	if err == nil || domain.CodeOf(err) != want {
		t.Fatalf("error is %v with code %q, want code %q", err, domain.CodeOf(err), want)
	}
}

// clean requires that nothing is staged and that exactly n objects are stored.
func (k *kit) clean(t *testing.T, n int) {
	t.Helper()
	if keys := k.blobs.Keys(); len(keys) != n || k.blobs.Reserved() != 0 {
		t.Errorf("storage holds %v and %d reserved bytes, want %d objects and none", keys, k.blobs.Reserved(), n)
	}
}

func digest(content string) *[32]byte {
	sum := sha256.Sum256([]byte(content))
	return &sum
}
