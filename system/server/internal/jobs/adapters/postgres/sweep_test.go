package postgres_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
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
	"glovebox/system/server/internal/jobs/sweep"
	"glovebox/system/server/internal/storage/fs"
	"glovebox/system/testdb"
	"glovebox/threat-model/evidence"
)

// swept is a bundle with a storage, a server and a sweeper under its own role.
type swept struct {
	*bundle
	dir     string
	storage *fs.Store
	server  *jobs.Service
	ledger  *postgres.Ledger
	owner   string
}

const week = 7 * 24 * time.Hour

func setupSweep(t *testing.T) *swept {
	t.Helper()
	s := &swept{bundle: setup(t), dir: filepath.Join(t.TempDir(), "storage")}
	storage, err := fs.New(s.dir, fs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = storage.Close() })
	s.storage, s.server, s.owner = storage, s.bundle.server(t, s.dir), s.user(t)
	s.ledger = postgres.NewLedger(s.db.Pool(t, testdb.Sweeper))
	return s
}

func (s *swept) sweeper(orphanAge time.Duration) *sweep.Sweeper {
	return sweep.New(s.ledger, listed{s.storage}, sweep.Settings{
		Retention: week, OrphanAge: orphanAge, StagedAge: time.Hour, Page: 3, Log: slog.New(slog.DiscardHandler),
	})
}

// listed is fs.Store in the sweeper's words, as cmd/server has it.
type listed struct{ *fs.Store }

func (l listed) List(ctx context.Context, after string, limit int) ([]sweep.Object, string, error) {
	entries, next, err := l.Store.List(ctx, after, limit)
	page := make([]sweep.Object, len(entries))
	for i, e := range entries {
		page[i] = sweep.Object{Key: e.Key, Modified: e.ModTime}
	}
	return page, next, err
}

func (l listed) SweepStaged(ctx context.Context, age time.Duration) (int, error) {
	return l.SweepTemp(ctx, age)
}

func (s *swept) round(t *testing.T, orphanAge time.Duration) sweep.Report {
	t.Helper()
	report, err := s.sweeper(orphanAge).Round(t.Context())
	if err != nil {
		t.Fatalf("sweep: %v", err)
	}
	return report
}

func (s *swept) submit(t *testing.T) string {
	t.Helper()
	receipt, err := s.server.Submit(t.Context(), jobs.Submission{UserID: s.owner, FileName: "a"}, strings.NewReader("input"))
	if err != nil {
		t.Fatal(err)
	}
	return receipt.ID
}

func (s *swept) claim(t *testing.T) domain.Fence {
	t.Helper()
	a, err := s.server.Claim(t.Context(), jobs.ClaimCall{WorkerID: "w-1", RequestID: uuid.NewString(), SlotsTotal: 1})
	if err != nil || a == nil {
		t.Fatalf("claim: %v, %v", a, err)
	}
	return domain.Fence{JobID: a.ID, WorkerID: "w-1", FencingToken: a.FencingToken}
}

func (s *swept) finish(ctx context.Context, f domain.Fence, content string) error {
	_, err := s.server.Finish(ctx, f, sha256.Sum256([]byte(content)), "", strings.NewReader(content))
	return err
}

func (s *swept) objects(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "objects", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// place puts an object into storage that no row names.
func (s *swept) place(t *testing.T, key string) {
	t.Helper()
	staged, err := s.storage.Stage(t.Context(), strings.NewReader("x"), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := staged.Commit(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

func TestRetentionCountsFromTheEndAndSparesLiveJobs(t *testing.T) {
	evidence.Proves(t, "STO-05", "JOB-05")
	t.Parallel()
	s := setupSweep(t)
	old, failed, running := s.submit(t), s.submit(t), s.submit(t)
	if err := s.finish(t.Context(), s.claim(t), "out"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.server.Fail(t.Context(), s.claim(t), "invalid_input", false, "", ""); err != nil {
		t.Fatal(err)
	}
	s.claim(t)
	waiting := s.submit(t)
	// Everything began long ago; what counts is when it ended.
	s.exec(t, "UPDATE app.jobs SET created_at = now() - interval '1 year', updated_at = now() - interval '1 year'")
	if report := s.round(t, time.Hour); report != (sweep.Report{}) {
		t.Fatalf("nothing was over, and the sweeper reports %+v", report)
	}
	reading, err := s.server.OpenResult(t.Context(), s.owner, old)
	if err != nil {
		t.Fatal(err)
	}
	defer reading.Content.Close()
	s.exec(t, "UPDATE app.jobs SET terminal_at = now() - interval '7 days' WHERE terminal_at IS NOT NULL")
	report := s.round(t, time.Hour)
	if report.JobsPurged != 2 || report.ObjectsRemoved != 3 || report.OrphansRemoved != 0 {
		t.Errorf("the sweeper reports %+v, want two jobs with two inputs and a result", report)
	}
	if len(s.objects(t)) != 2 {
		t.Errorf("left are %v, want the inputs of the live jobs", s.objects(t))
	}
	if content, err := io.ReadAll(reading.Content); err != nil || string(content) != "out" {
		t.Errorf("the download in progress got %q, %v", content, err)
	}
	for _, id := range []string{old, failed} {
		if _, err := s.server.OpenResult(t.Context(), s.owner, id); err == nil {
			t.Error("a purged result is served")
		}
		if view, err := s.server.Status(t.Context(), s.owner, id); err != nil || !view.Status.Terminal() {
			t.Errorf("the status of a purged job is %+v, %v", view, err)
		}
	}
	_, err = s.server.OpenResult(t.Context(), s.owner, old)
	if domain.CodeOf(err) != domain.CodeExpired {
		t.Errorf("a purged result is %v", err)
	}
	for _, id := range []string{running, waiting} {
		if view, err := s.server.Status(t.Context(), s.owner, id); err != nil || view.Status.Terminal() {
			t.Errorf("a live job is %+v, %v", view, err)
		}
	}
	if report := s.round(t, time.Hour); report != (sweep.Report{}) {
		t.Errorf("a second round reports %+v", report)
	}
}

func TestOrphansGoWhenOldAndUnnamedOnly(t *testing.T) {
	evidence.Proves(t, "STO-03", "UPL-08")
	t.Parallel()
	s := setupSweep(t)
	s.submit(t)
	if err := s.finish(t.Context(), s.claim(t), "out"); err != nil {
		t.Fatal(err)
	}
	s.submit(t)
	for i := range 5 {
		s.place(t, fmt.Sprintf("input/orphan%d", i))
		s.place(t, fmt.Sprintf("result/%s/1-orphan%d", uuid.NewString(), i))
	}
	s.place(t, "asset/of-a-newer-version")
	if report := s.round(t, time.Hour); report != (sweep.Report{}) {
		t.Errorf("young orphans were taken: %+v", report)
	}
	if report := s.round(t, 0); report.OrphansRemoved != 10 || report.ObjectsRemoved != 0 {
		t.Errorf("the sweeper reports %+v, want ten orphans", report)
	}
	if len(s.objects(t)) != 4 {
		t.Errorf("left are %v, want two inputs, one result and the unknown kind", s.objects(t))
	}
}

// TestBytesThatOutlivedTheirMarkAreOrphans: the sweeper died between the mark and
// the removal.
func TestBytesThatOutlivedTheirMarkAreOrphans(t *testing.T) {
	evidence.Proves(t, "STO-03", "STO-05")
	t.Parallel()
	s := setupSweep(t)
	s.submit(t)
	if err := s.finish(t.Context(), s.claim(t), "out"); err != nil {
		t.Fatal(err)
	}
	s.exec(t, "UPDATE app.jobs SET terminal_at = now() - interval '7 days'")
	keys, count, err := s.ledger.Purge(t.Context(), week, 10)
	if err != nil || count != 1 || len(keys) != 2 {
		t.Fatalf("purge: %v, %d, %v", keys, count, err)
	}
	if report := s.round(t, 0); report.OrphansRemoved != 2 {
		t.Errorf("the next round reports %+v", report)
	}
}

// TestACompletionAndTheSweeperCannotBothHaveAFile puts the sweeper's look into
// the middle of a completion, and a completion into the middle of a removal.
func TestACompletionAndTheSweeperCannotBothHaveAFile(t *testing.T) {
	evidence.Proves(t, "STO-02", "STO-03")
	t.Parallel()
	s := setupSweep(t)
	s.submit(t)
	fence := s.claim(t)
	complete := func(key string, exists func(context.Context) error) error {
		_, err := s.store.Transition(t.Context(), jobs.Change{JobID: fence.JobID, Pin: &jobs.Pin{Key: key, Exists: exists},
			Decide: func(j domain.Job, now time.Time) (domain.Job, *domain.Event, error) {
				next, event, _, err := j.Finish(fence, domain.Result{StorageKey: key, Size: 1, SHA256: sha256.Sum256([]byte("x"))}, now)
				return next, &event, err
			}})
		return err
	}
	opens := func(key string) func(context.Context) error {
		return func(ctx context.Context) error {
			content, err := s.storage.Open(ctx, key)
			if err != nil {
				return err
			}
			return content.Close()
		}
	}

	// The sweeper has the file in its hands: the completion waits, and sees it gone.
	lost := "result/" + fence.JobID + "/1-lost"
	s.place(t, lost)
	var completing sync.WaitGroup
	var refused error
	removed, err := s.ledger.HoldUnnamed(t.Context(), lost, func(ctx context.Context) error {
		completing.Go(func() { refused = complete(lost, opens(lost)) })
		s.awaitLockWait(t)
		return s.storage.Remove(ctx, lost)
	})
	completing.Wait()
	if err != nil || !removed {
		t.Fatalf("the sweeper: removed %v, %v", removed, err)
	}
	if domain.CodeOf(refused) != domain.CodeUnavailable {
		t.Fatalf("a completion whose file was swept: %v", refused)
	}
	if view, err := s.server.Status(t.Context(), s.owner, fence.JobID); err != nil || view.Status != domain.Processing {
		t.Fatalf("the job is %+v, %v", view, err)
	}

	// The completion holds the file: the sweeper leaves it, before and after.
	kept := "result/" + fence.JobID + "/1-kept"
	s.place(t, kept)
	take := func() (bool, error) {
		return s.ledger.HoldUnnamed(t.Context(), kept, func(ctx context.Context) error { return s.storage.Remove(ctx, kept) })
	}
	err = complete(kept, func(ctx context.Context) error {
		if unnamed, err := s.ledger.Unnamed(ctx, []string{kept}); err != nil || len(unnamed) != 1 {
			t.Errorf("before the commit the first look says %v, %v", unnamed, err)
		}
		if removed, err := take(); removed || err != nil {
			t.Errorf("in the middle of a completion its file was taken: %v, %v", removed, err)
		}
		return opens(kept)(ctx)
	})
	if err != nil {
		t.Fatalf("the completion: %v", err)
	}
	if removed, err := take(); removed || err != nil {
		t.Errorf("a completed job's file was taken: %v, %v", removed, err)
	}
	if err := opens(kept)(t.Context()); err != nil {
		t.Errorf("the completed job's file: %v", err)
	}
}

// awaitLockWait returns when a session of the test's database waits for a lock.
func (s *swept) awaitLockWait(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for waiting := false; !waiting; {
		if time.Now().After(deadline) {
			t.Error("nobody waits for a lock")
			return
		}
		err := s.admin.QueryRow(context.Background(), `
			SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waiting)
		if err != nil {
			t.Error(err)
			return
		}
	}
}

// TestQ10NothingAcknowledgedIsEverSwept runs sweepers without any age limit against
// clients and workers at full speed.
func TestQ10NothingAcknowledgedIsEverSwept(t *testing.T) {
	evidence.Record(t, evidence.Claim{Requirements: []string{"STO-03", "JOB-05"}, Threats: []string{"STO-T3"}})
	t.Parallel()
	s := setupSweep(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var sweepers, clients sync.WaitGroup
	var orphans atomic.Int64
	for range 2 {
		sweepers.Go(func() {
			for ctx.Err() == nil {
				// An age below zero: even a file of this instant is old.
				report, err := s.sweeper(-time.Hour).Round(ctx)
				if err != nil && ctx.Err() == nil {
					t.Errorf("sweep: %v", err)
				}
				orphans.Add(int64(report.OrphansRemoved))
			}
		})
	}
	const callers, rounds = 6, 15
	var mu sync.Mutex
	done := map[string]string{}
	retried := 0
	for i := range callers {
		clients.Go(func() {
			for round := range rounds {
				name := fmt.Sprintf("%d-%d", i, round)
				// A refusal because the file was swept first is honest: the client sends it again.
				for {
					_, err := s.server.Submit(t.Context(), jobs.Submission{UserID: s.owner, FileName: name}, strings.NewReader(name))
					if err == nil {
						break
					}
					if domain.CodeOf(err) != domain.CodeUnavailable {
						t.Errorf("submit: %v", err)
						return
					}
					mu.Lock()
					retried++
					mu.Unlock()
				}
				a, err := s.server.Claim(t.Context(), jobs.ClaimCall{WorkerID: "w-1", RequestID: uuid.NewString(), Wait: 20 * time.Second, SlotsTotal: 1})
				if err != nil || a == nil {
					t.Errorf("claim: %v, %v", a, err)
					return
				}
				fence := domain.Fence{JobID: a.ID, WorkerID: "w-1", FencingToken: a.FencingToken}
				input, err := s.server.OpenInput(t.Context(), fence)
				if err != nil {
					t.Errorf("the input of an acknowledged job: %v", err)
					return
				}
				content, err := io.ReadAll(input.Content)
				_ = input.Content.Close()
				if err != nil || sha256.Sum256(content) != input.SHA256 {
					t.Errorf("the input of an acknowledged job is %q, %v", content, err)
				}
				for {
					err := s.finish(t.Context(), fence, "result of "+string(content))
					if err == nil {
						break
					}
					if domain.CodeOf(err) != domain.CodeUnavailable {
						t.Errorf("finish: %v", err)
						return
					}
				}
				mu.Lock()
				done[fence.JobID] = "result of " + string(content)
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	cancel()
	sweepers.Wait()
	if len(done) != callers*rounds {
		t.Errorf("%d jobs were completed of %d", len(done), callers*rounds)
	}
	for id, want := range done {
		result, err := s.server.OpenResult(t.Context(), s.owner, id)
		if err != nil {
			t.Errorf("an acknowledged result: %v", err)
			continue
		}
		content, err := io.ReadAll(result.Content)
		_ = result.Content.Close()
		if err != nil || string(content) != want {
			t.Errorf("an acknowledged result is %q, %v; want %q", content, err, want)
		}
	}
	t.Logf("%d orphans were taken in flight, %d submissions sent again", orphans.Load(), retried)
}

func TestRowsWithoutMeaningAreDeleted(t *testing.T) {
	evidence.Proves(t, "UPL-08")
	t.Parallel()
	s := setupSweep(t)
	for i := range 8 {
		s.exec(t, "INSERT INTO app.idempotency_keys (user_id, key, upload_id, created_at) VALUES ($1, $2, gen_random_uuid(), now() - interval '49 hours')", s.owner, fmt.Sprint(i))
		s.exec(t, "INSERT INTO app.uploads_in_flight (id, user_id, heartbeat_at) VALUES (gen_random_uuid(), $1, now() - interval '2 hours')", s.owner)
		s.exec(t, "INSERT INTO app.login_attempts (scope, subject, window_start) VALUES ('address', $1, now() - interval '3 days')", fmt.Sprint(i))
		s.exec(t, "INSERT INTO app.tokens (token_hash, id, user_id, created_at, expires_at) VALUES (sha256($1), gen_random_uuid(), $2, now() - interval '90 days', now() - interval '31 days')", []byte{byte(i)}, s.owner)
	}
	s.exec(t, "INSERT INTO app.idempotency_keys (user_id, key, upload_id, created_at) VALUES ($1, 'young', gen_random_uuid(), now() - interval '25 hours')", s.owner)
	s.exec(t, "INSERT INTO app.tokens (token_hash, id, user_id, expires_at) VALUES (sha256('x'), gen_random_uuid(), $1, now() + interval '1 day')", s.owner)
	if report := s.round(t, time.Hour); report.RowsDeleted != 32 {
		t.Errorf("the sweeper reports %+v, want 32 rows", report)
	}
	var left int
	if err := s.admin.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM app.idempotency_keys) + (SELECT count(*) FROM app.tokens)").Scan(&left); err != nil || left != 2 {
		t.Errorf("%d rows are left, %v; want the young key and the good token", left, err)
	}
}

func TestAFailingStepDoesNotKeepTheOthersFromTheirWork(t *testing.T) {
	t.Parallel()
	s := setupSweep(t)
	s.place(t, "input/orphan")
	s.exec(t, "INSERT INTO app.uploads_in_flight (id, user_id, heartbeat_at) VALUES (gen_random_uuid(), $1, now() - interval '2 hours')", s.owner)
	broken := sweep.New(s.ledger, readOnly{listed{s.storage}}, sweep.Settings{Retention: week, Page: 10, Log: slog.New(slog.DiscardHandler)})
	report, err := broken.Round(t.Context())
	if !errors.Is(err, os.ErrPermission) || report.RowsDeleted != 1 || report.OrphansRemoved != 0 {
		t.Errorf("the round reports %+v, %v", report, err)
	}
	if len(s.objects(t)) != 1 {
		t.Errorf("left are %v", s.objects(t))
	}
}

// readOnly is a storage that refuses removal.
type readOnly struct{ listed }

func (readOnly) Remove(context.Context, string) error { return os.ErrPermission }
