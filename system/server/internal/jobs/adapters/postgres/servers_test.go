package postgres_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/adapters/postgres"
	"glovebox/system/server/internal/jobs/domain"
	"glovebox/system/server/internal/storage/fs"
	workerstore "glovebox/system/server/internal/workers/adapters/postgres"
	"glovebox/system/testdb"
	"glovebox/threat-model/evidence"
)

// server is a Service on the real database and a real folder, with a pool of its
// own, as a process would have.
func (b *bundle) server(t *testing.T, dir string, edit ...func(*jobs.Settings)) *jobs.Service {
	t.Helper()
	storage, err := fs.New(dir, fs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = storage.Close() })
	pool := b.db.Pool(t, testdb.ServerRole)
	store := postgres.New(pool)
	settings := jobs.Settings{
		MaxInputBytes: 1 << 20, MaxResultBytes: 1 << 20, MaxAttempts: 3,
		Limits: jobs.Limits{Uploads: 1000, ActiveJobs: 10_000, StoredBytes: 1 << 40},
		Lease:  30 * time.Second, Heartbeat: 10 * time.Second, Timeout: time.Minute, ClaimPoll: time.Hour, Retention: 7 * 24 * time.Hour,
	}
	for _, e := range edit {
		e(&settings)
	}
	service := jobs.New(jobs.Parts{Store: store, Queue: store, Uploads: store, Blobs: storage, Roster: workerstore.New(pool)}, settings)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = postgres.NewListener(pool, service.Wake, slog.New(slog.DiscardHandler)).Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return service
}

func TestQ15TwoHundredEqualSubmissionsAreOneJob(t *testing.T) {
	evidence.Record(t, evidence.Claim{Requirements: []string{"API-04", "ARC-05"}, Threats: []string{"PUB-T3"}})
	t.Parallel()
	b := setup(t)
	dir := filepath.Join(t.TempDir(), "storage")
	servers := []*jobs.Service{b.server(t, dir), b.server(t, dir)}
	user := b.user(t)
	sum := sha256.Sum256([]byte("content"))
	const requests = 200
	var (
		all      sync.WaitGroup
		receipts [requests]jobs.Receipt
		errs     [requests]error
	)
	for i := range requests {
		all.Go(func() {
			sub := jobs.Submission{UserID: user, FileName: "a.lua", IdempotencyKey: "k"}
			if i%2 == 0 {
				sub.Declared = &sum
			}
			receipts[i], errs[i] = servers[i%2].Submit(t.Context(), sub, strings.NewReader("content"))
		})
	}
	all.Wait()
	made, ids := 0, map[string]bool{}
	for i := range requests {
		switch {
		case errs[i] == nil:
			ids[receipts[i].ID] = true
			if !receipts[i].Replayed {
				made++
			}
		case domain.CodeOf(errs[i]) != domain.CodeIdempotencyInFlight:
			t.Errorf("request %d: %v", i, errs[i])
		}
	}
	if made != 1 || len(ids) != 1 {
		t.Errorf("%d requests made %d jobs %v", requests, made, ids)
	}
	var rows, uploads int
	if err := b.admin.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM app.jobs), (SELECT count(*) FROM app.uploads_in_flight)").Scan(&rows, &uploads); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*", "*", "*"))
	if rows != 1 || uploads != 0 || len(files) != 1 {
		t.Errorf("there are %d jobs, %d uploads in flight and the files %v", rows, uploads, files)
	}
	_, err := servers[1].Submit(t.Context(), jobs.Submission{UserID: user, FileName: "a.lua", IdempotencyKey: "k"}, strings.NewReader("other"))
	if domain.CodeOf(err) != domain.CodeIdempotencyMismatch {
		t.Errorf("another body under the key: %v", err)
	}
}

// TestARefusalByALimitLeavesNoByte: whoever is at the cap cannot fill the disk
// with files that are refused one after another, or all at once.
func TestARefusalByALimitLeavesNoByte(t *testing.T) {
	evidence.Proves(t, "UPL-10", "UPL-03")
	t.Parallel()
	b := setup(t)
	dir := filepath.Join(t.TempDir(), "storage")
	const size, room = 1000, 5
	server := b.server(t, dir, func(s *jobs.Settings) { s.Limits.StoredBytes = room*size + size/2 })
	user := b.user(t)
	var taken, refused atomic.Int32
	for range 3 {
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				_, err := server.Submit(t.Context(), jobs.Submission{UserID: user, FileName: "a"}, bytes.NewReader(make([]byte, size)))
				switch {
				case err == nil:
					taken.Add(1)
				case domain.CodeOf(err) == domain.CodeLimitExceeded:
					refused.Add(1)
				default:
					t.Errorf("submit: %v", err)
				}
			})
		}
		all.Wait()
	}
	files, _ := filepath.Glob(filepath.Join(dir, "objects", "*", "*"))
	staged, _ := filepath.Glob(filepath.Join(dir, "tmp", "*"))
	if taken.Load() != room || refused.Load() != 3*12-room || len(files) != room || len(staged) != 0 {
		t.Errorf("%d were taken and %d refused; %d files and %d temporary ones are left, want %d and none", taken.Load(), refused.Load(), len(files), len(staged), room)
	}
}

// TestAJobOnOneServerWakesAClaimOnAnother: the slow poll is an hour away.
func TestAJobOnOneServerWakesAClaimOnAnother(t *testing.T) {
	evidence.Proves(t, "ARC-05", "API-02")
	t.Parallel()
	b := setup(t)
	dir := filepath.Join(t.TempDir(), "storage")
	one, two := b.server(t, dir), b.server(t, dir)
	user := b.user(t)
	claim := func() <-chan string {
		got := make(chan string, 1)
		go func() {
			a, err := two.Claim(t.Context(), jobs.ClaimCall{WorkerID: "w-1", RequestID: uuid.NewString(), Wait: 20 * time.Second, SlotsTotal: 1})
			if err != nil || a == nil {
				got <- "nothing"
				return
			}
			got <- a.ID
		}()
		return got
	}
	submit := func() string {
		receipt, err := one.Submit(t.Context(), jobs.Submission{UserID: user, FileName: "a"}, bytes.NewReader([]byte("x")))
		if err != nil {
			t.Fatal(err)
		}
		return receipt.ID
	}
	waiting := claim()
	if id := submit(); <-waiting != id {
		t.Fatal("the waiting claim did not get the job")
	}
	// Cut every listener; they come back, and look for what they missed.
	b.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'")
	waiting = claim()
	if id := submit(); <-waiting != id {
		t.Fatal("after a lost connection the waiting claim did not get the job")
	}
}

func TestAWholeLifeOnTheRealParts(t *testing.T) {
	evidence.Proves(t, "JOB-02", "JOB-05", "STO-04")
	t.Parallel()
	b := setup(t)
	dir := filepath.Join(t.TempDir(), "storage")
	one, two := b.server(t, dir), b.server(t, dir)
	user := b.user(t)
	receipt, err := one.Submit(t.Context(), jobs.Submission{UserID: user, FileName: "a.lua", CorrelationID: "c"}, strings.NewReader("input"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := two.Claim(t.Context(), jobs.ClaimCall{WorkerID: "w-1", RequestID: uuid.NewString(), SlotsTotal: 1})
	if err != nil || a == nil || a.ID != receipt.ID {
		t.Fatalf("claim: %+v, %v", a, err)
	}
	fence := domain.Fence{JobID: a.ID, WorkerID: "w-1", FencingToken: a.FencingToken}
	view, err := one.Finish(t.Context(), fence, sha256.Sum256([]byte("out")), "", strings.NewReader("out"))
	if err != nil || view.Status != domain.Completed {
		t.Fatalf("finish: %+v, %v", view, err)
	}
	result, err := two.OpenResult(t.Context(), user, a.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer result.Content.Close()
	if result.Size != 3 || result.SHA256 != view.SHA256 {
		t.Errorf("the result is %+v", result)
	}
	record, events, err := postgres.New(b.db.Pool(t, testdb.Operator)).History(t.Context(), a.ID)
	if err != nil || record.Job.Status != domain.Completed || len(events) != 3 || events[2].Cause != "finished" || events[1].WorkerID != "w-1" || events[0].CorrelationID != "c" {
		t.Errorf("the operator sees %+v, %v", events, err)
	}
	depth, err := b.store.Depth(t.Context())
	if err != nil || depth != (postgres.Depth{}) {
		t.Errorf("the queue's depth is %+v, %v", depth, err)
	}
}
