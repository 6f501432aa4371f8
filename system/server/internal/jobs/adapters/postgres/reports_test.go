package postgres_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"glovebox/system/protocol"
	"glovebox/system/protocol/failure"
	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/adapters/postgres"
	"glovebox/system/server/internal/jobs/domain"
	"glovebox/threat-model/evidence"
)

// Faults that other systems shipped and their users reported, each by the number
// of its row in the list of such reports. Q10 and Q15 stand beside what they are
// about (sweep_test.go, servers_test.go).

// claimBy gives the next job to a worker. It waits for it as a worker does: of
// claims at the same instant one may pass every job that it sees, since others
// have their hands on them.
func (s *swept) claimBy(t *testing.T, worker string) domain.Fence {
	t.Helper()
	a, err := s.server.Claim(t.Context(), jobs.ClaimCall{WorkerID: worker, RequestID: uuid.NewString(), Wait: 20 * time.Second, SlotsTotal: 1})
	if err != nil || a == nil {
		t.Fatalf("claim: %v, %v", a, err)
	}
	return domain.Fence{JobID: a.ID, WorkerID: worker, FencingToken: a.FencingToken}
}

// lose ends the lease and lets the clock's part run; the job is claimable at once.
func (s *swept) lose(t *testing.T, jobID string) {
	t.Helper()
	s.leaseOver(t, jobID)
	if n, err := s.server.Expire(t.Context()); n != 1 || err != nil {
		t.Fatalf("expire: %d, %v", n, err)
	}
	s.exec(t, "UPDATE app.jobs SET next_attempt_at = now() WHERE id = $1", jobID)
}

// rescuer is a store whose rescue of a job is held up between what it read and
// what it writes.
type rescuer struct {
	*postgres.Store
	meanwhile func()
}

func (r *rescuer) Transition(ctx context.Context, change jobs.Change) (domain.Job, error) {
	decide := change.Decide
	change.Decide = func(job domain.Job, now time.Time) (domain.Job, *domain.Event, error) {
		next, event, err := decide(job, now)
		if r.meanwhile != nil {
			r.meanwhile()
			r.meanwhile = nil
		}
		return next, event, err
	}
	return r.Store.Transition(ctx, change)
}

// The rescuer decides on a lease that ran out; before it writes, another server
// takes the job back, another worker completes it. The rescuer must change nothing.
func TestQ1RescuerNeverOverwritesCompletion(t *testing.T) {
	evidence.Record(t, evidence.Claim{Requirements: []string{"JOB-01", "JOB-06", "ARC-04"}, Threats: []string{"INT-T1"}})
	t.Parallel()
	s := setupSweep(t)
	id := s.submit(t)
	s.claimBy(t, "w-1")
	s.leaseOver(t, id)
	slow := &rescuer{Store: s.store, meanwhile: func() {
		s.lose(t, id)
		if err := s.finish(t.Context(), s.claimBy(t, "w-2"), "out"); err != nil {
			t.Fatalf("finish: %v", err)
		}
	}}
	n, err := jobs.New(jobs.Parts{Store: slow, Queue: s.store}, jobs.Settings{}).Expire(t.Context())
	if n != 0 || err != nil || slow.meanwhile != nil {
		t.Fatalf("the rescuer took back %d jobs, %v; it was held up: %v", n, err, slow.meanwhile == nil)
	}
	view, err := s.server.Status(t.Context(), s.owner, id)
	if err != nil || view.Status != domain.Completed || view.SHA256 != sha256.Sum256([]byte("out")) {
		t.Errorf("the job is %+v, %v", view, err)
	}
	if events := s.history(t, id); len(events) != 5 || events[4].Cause != domain.CauseFinished || events[4].FencingToken != 2 {
		t.Errorf("the history is %+v", events)
	}
}

// The worker that lost its lease comes back with a heartbeat, while the same
// worker holds the job again, and while another does.
func TestQ3LateHeartbeatTakesNothingBack(t *testing.T) {
	evidence.Record(t, evidence.Claim{Requirements: []string{"JOB-03", "JOB-08"}, Threats: []string{"INT-T1"}})
	t.Parallel()
	for _, next := range []string{"w-1", "w-2"} {
		s := setupSweep(t)
		id := s.submit(t)
		late := s.claimBy(t, "w-1")
		s.leaseOver(t, id)
		if _, err := s.server.Heartbeat(t.Context(), late, protocol.Saturation{SlotsTotal: 1}); domain.CodeOf(err) != domain.CodeLeaseLost {
			t.Errorf("a heartbeat after the lease: %v", err)
		}
		s.lose(t, id)
		current := s.claimBy(t, next)
		before, err := s.store.Look(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.server.Heartbeat(t.Context(), late, protocol.Saturation{SlotsTotal: 1}); domain.CodeOf(err) != domain.CodeLeaseLost {
			t.Errorf("a heartbeat with the old token, held by %s: %v", next, err)
		}
		after, err := s.store.Look(t.Context(), id)
		if err != nil || after.Job != before.Job {
			t.Errorf("it changed the job from %+v to %+v, %v", before.Job, after.Job, err)
		}
		// The control: the one who holds it is heard.
		if _, err := s.server.Heartbeat(t.Context(), current, protocol.Saturation{SlotsTotal: 1}); err != nil {
			t.Errorf("the holder's heartbeat: %v", err)
		}
	}
}

// A job that takes its worker down each time ends with a reason, and nobody gets
// it again.
func TestQ6AJobThatKillsItsWorkersEnds(t *testing.T) {
	evidence.Record(t, evidence.Claim{Requirements: []string{"JOB-06", "JOB-02"}, Threats: []string{"INT-D1"}})
	t.Parallel()
	s := setupSweep(t)
	id := s.submit(t)
	for attempt := range 3 {
		f := s.claimBy(t, "w-"+string(rune('1'+attempt)))
		if f.JobID != id || f.FencingToken != int64(attempt+1) {
			t.Fatalf("attempt %d is %+v", attempt+1, f)
		}
		s.lose(t, id)
	}
	if a, err := s.server.Claim(t.Context(), jobs.ClaimCall{WorkerID: "w-9", RequestID: uuid.NewString(), SlotsTotal: 1}); a != nil || err != nil {
		t.Errorf("a fourth worker got %+v, %v", a, err)
	}
	view, err := s.server.Status(t.Context(), s.owner, id)
	if err != nil || view.Status != domain.Failed || view.ErrorCode != "attempts_exhausted" {
		t.Errorf("the job is %+v, %v", view, err)
	}
	var causes []domain.Cause
	for _, e := range s.history(t, id) {
		causes = append(causes, e.Cause)
	}
	if len(causes) != 7 || causes[2] != domain.CauseLeaseLost || causes[6] != domain.CauseExhausted {
		t.Errorf("the history is %v", causes)
	}
}

// A run that takes ten leases, each renewed in its last seconds, is one attempt.
func TestQ9ARunLongerThanItsLeaseRunsOnce(t *testing.T) {
	evidence.Record(t, evidence.Claim{Requirements: []string{"JOB-06", "JOB-08"}, Threats: []string{"INT-T1"}})
	t.Parallel()
	s := setupSweep(t)
	other := s.bundle.server(t, s.dir)
	id := s.submit(t)
	f := s.claimBy(t, "w-1")
	for range 10 {
		s.exec(t, "UPDATE app.jobs SET lease_expires_at = clock_timestamp() + interval '10 seconds' WHERE id = $1 AND status = 'processing'", id)
		for _, server := range []*jobs.Service{s.server, other} {
			if n, err := server.Expire(t.Context()); n != 0 || err != nil {
				t.Fatalf("a living lease was taken back: %d, %v", n, err)
			}
		}
		if a, err := other.Claim(t.Context(), jobs.ClaimCall{WorkerID: "w-2", RequestID: uuid.NewString(), SlotsTotal: 1}); a != nil || err != nil {
			t.Fatalf("another worker got %+v, %v", a, err)
		}
		left, err := s.server.Heartbeat(t.Context(), f, protocol.Saturation{SlotsTotal: 1})
		if err != nil {
			t.Fatalf("heartbeat: %v", err)
		}
		record, err := s.store.Look(t.Context(), id)
		if err != nil || left != 30*time.Second || record.Job.LeaseExpires.Sub(record.Now) < 20*time.Second {
			t.Fatalf("the lease now lives %s, until %s at %s, %v", left, record.Job.LeaseExpires, record.Now, err)
		}
	}
	if err := s.finish(t.Context(), f, "out"); err != nil {
		t.Fatalf("finish: %v", err)
	}
	if events := s.history(t, id); len(events) != 3 {
		t.Errorf("the history is %+v", events)
	}
	// The control: without the heartbeat the job is another's.
	id = s.submit(t)
	f = s.claimBy(t, "w-1")
	s.lose(t, id)
	if again := s.claimBy(t, "w-2"); again.JobID != id {
		t.Errorf("the lost job was not given to another: %+v", again)
	}
	if err := s.finish(t.Context(), f, "out"); domain.CodeOf(err) != domain.CodeLeaseLost {
		t.Errorf("the first worker's result: %v", err)
	}
}

// The worker sends its result again and again, to both servers, at once and later:
// one answer, one transition, one file. Other bytes are refused.
func TestQ12ARepeatedCompletionHasOneAnswer(t *testing.T) {
	evidence.Record(t, evidence.Claim{Requirements: []string{"JOB-04", "STO-02"}, Threats: []string{"INT-T2"}})
	t.Parallel()
	s := setupSweep(t)
	servers := []*jobs.Service{s.server, s.bundle.server(t, s.dir)}
	id := s.submit(t)
	f := s.claimBy(t, "w-1")
	const requests = 20
	var (
		all   sync.WaitGroup
		views [requests]jobs.View
		errs  [requests]error
	)
	send := func(server *jobs.Service, content string) (view jobs.View, err error) {
		// A server takes a few results of one attempt at a time; a worker that is told
		// to comes again.
		for range 1000 {
			view, err = server.Finish(t.Context(), f, sha256.Sum256([]byte(content)), "", bytes.NewReader([]byte(content)))
			if domain.CodeOf(err) != domain.CodeUnavailable {
				break
			}
			runtime.Gosched()
		}
		return view, err
	}
	for i := range requests {
		all.Go(func() { views[i], errs[i] = send(servers[i%2], "out") })
	}
	all.Wait()
	late, err := send(servers[1], "out")
	if err != nil {
		t.Errorf("the result sent once more: %v", err)
	}
	for i := range requests {
		if errs[i] != nil || views[i] != late {
			t.Errorf("request %d: %+v, %v; want %+v", i, views[i], errs[i], late)
		}
	}
	if _, err := send(servers[0], "other"); domain.CodeOf(err) != domain.CodeConflict {
		t.Errorf("other bytes: %v", err)
	}
	if events := s.history(t, id); len(events) != 3 || late.Status != domain.Completed {
		t.Errorf("the history is %+v, the answer %+v", events, late)
	}
	s.round(t, -time.Hour) // the files of those who came second are orphans
	results, err := filepath.Glob(filepath.Join(s.dir, "objects", "*", "result~*"))
	if err != nil || len(results) != 1 {
		t.Errorf("the results in storage are %v, %v", results, err)
	}
}

// Output without end is one verdict, for good: it is not judged again, and the
// next job is served.
func TestQ25AnOutputWithoutEndIsOneVerdict(t *testing.T) {
	evidence.Record(t, evidence.Claim{Requirements: []string{"JOB-09", "JOB-11"}, Threats: []string{"INT-D2"}})
	t.Parallel()
	s := setupSweep(t)
	endless := s.submit(t)
	f := s.claimBy(t, "w-1")
	_, err := s.server.Finish(t.Context(), f, [32]byte{}, "", strings.NewReader(strings.Repeat("x", 1<<20+1)))
	if domain.CodeOf(err) != domain.CodeTooLarge {
		t.Errorf("a result over the limit: %v", err)
	}
	status, err := s.server.Fail(t.Context(), f, "output_too_large", false, "", "")
	if err != nil || status != domain.Failed {
		t.Fatalf("the report: %s, %v", status, err)
	}
	next := s.submit(t)
	if got := s.claimBy(t, "w-1"); got.JobID != next {
		t.Errorf("the next claim got %s, not %s", got.JobID, next)
	}
	if a, err := s.server.Claim(t.Context(), jobs.ClaimCall{WorkerID: "w-2", RequestID: uuid.NewString(), SlotsTotal: 1}); a != nil || err != nil {
		t.Errorf("job %s was given out again: %+v, %v", endless, a, err)
	}
	staged, err := filepath.Glob(filepath.Join(s.dir, "tmp", "*"))
	if err != nil || len(staged) != 0 {
		t.Errorf("left in storage: %v, %v", staged, err)
	}
}

// full is a storage that has no room for results until it is told.
type full struct {
	jobs.Blobs
	full bool
}

func (f *full) Stage(ctx context.Context, body io.Reader, limit int64) (jobs.Staged, error) {
	if f.full {
		return nil, &domain.Error{Code: domain.CodeInsufficientStorage, Message: "no space", Cause: errors.New("enospc")}
	}
	return f.Blobs.Stage(ctx, body, limit)
}

// A disk that is full is a typed refusal on both sides, completes nothing, costs
// no attempt, and is over when there is room.
func TestQ28AFullDiskRefusesAndRecovers(t *testing.T) {
	evidence.Record(t, evidence.Claim{Requirements: []string{"JOB-05", "UPL-04"}, Threats: []string{"INT-D2"}})
	t.Parallel()
	s := setupSweep(t)
	disk := &full{Blobs: s.storage}
	s.server.Blobs = disk
	id := s.submit(t)
	f := s.claimBy(t, "w-1")
	disk.full = true
	for range 3 {
		if err := s.finish(t.Context(), f, "out"); domain.CodeOf(err) != domain.CodeInsufficientStorage {
			t.Errorf("a result without room: %v", err)
		}
		_, err := s.server.Submit(t.Context(), jobs.Submission{UserID: s.owner, FileName: "a", IdempotencyKey: "k"}, strings.NewReader("x"))
		if domain.CodeOf(err) != domain.CodeInsufficientStorage {
			t.Errorf("a submission without room: %v", err)
		}
	}
	view, err := s.server.Status(t.Context(), s.owner, id)
	if err != nil || view.Status != domain.Processing {
		t.Errorf("the job is %+v, %v", view, err)
	}
	if _, err := s.server.OpenResult(t.Context(), s.owner, id); domain.CodeOf(err) != domain.CodeNotCompleted {
		t.Errorf("its result: %v", err)
	}
	disk.full = false
	if err := s.finish(t.Context(), f, "out"); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if _, err := s.server.Submit(t.Context(), jobs.Submission{UserID: s.owner, FileName: "a", IdempotencyKey: "k"}, strings.NewReader("x")); err != nil {
		t.Errorf("with room again the key is not free: %v", err)
	}
	if events := s.history(t, id); len(events) != 3 {
		t.Errorf("the history is %+v", events)
	}
}

// What the kernel told apart stays apart to the owner and in the history.
func TestQ22ReasonsStayApart(t *testing.T) {
	evidence.Record(t, evidence.Claim{Requirements: []string{"JOB-11"}, Threats: []string{"INT-T3"}})
	t.Parallel()
	s := setupSweep(t)
	for code, retryable := range map[failure.Code]bool{
		failure.OutOfMemory: true, failure.Timeout: true, failure.CoreCrashed: false, failure.CoreForbiddenCall: false, failure.SandboxFailure: true,
	} {
		id := s.submit(t)
		s.exec(t, "UPDATE app.jobs SET max_attempts = 1 WHERE id = $1", id)
		f := s.claimBy(t, "w-1")
		if _, err := s.server.Fail(t.Context(), f, code, !retryable, "", ""); domain.CodeOf(err) != domain.CodeInvalidFailure {
			t.Errorf("%s with the wrong retryable: %v", code, err)
		}
		if _, err := s.server.Fail(t.Context(), f, code, retryable, "", ""); err != nil {
			t.Fatal(err)
		}
		view, err := s.server.Status(t.Context(), s.owner, id)
		if events := s.history(t, id); err != nil || view.ErrorCode != code || events[len(events)-1].ErrorCode != code {
			t.Errorf("%s became %q for the owner, %v, and %+v", code, view.ErrorCode, err, events)
		}
	}
}

// claimCost is how many pages the search for the next job touches.
func (s *swept) claimCost(t *testing.T) (pages int) {
	t.Helper()
	var plan []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	err := s.admin.QueryRow(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)
		SELECT p.id FROM app.jobs p WHERE p.status = 'pending' AND p.next_attempt_at <= now() ORDER BY p.fair_key, p.id LIMIT 1 FOR UPDATE SKIP LOCKED`).Scan(&plan)
	if err != nil || len(plan) != 1 {
		t.Fatalf("explain: %v", err)
	}
	return plan[0].Plan.Hit + plan[0].Plan.Read
}

// A session holds an old snapshot open, so that no dead row can be cleared away.
// The figure for it rises, a claim costs a few pages for each job that passed and
// no more, and all is well again when the snapshot has gone.
func TestQ40AnOldSnapshotIsSeenBoundedAndSurvived(t *testing.T) {
	evidence.Proves(t, "JOB-02")
	t.Parallel()
	s := setupSweep(t)
	const lives = 100
	live := func(jobs int) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range jobs / 4 {
					s.submit(t)
					if err := s.finish(t.Context(), s.claimBy(t, "w-1"), "out"); err != nil {
						t.Errorf("finish: %v", err)
					}
				}
			})
		}
		all.Wait()
	}
	snapshot, err := s.admin.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	var seen int
	if err := snapshot.QueryRow(t.Context(), "SELECT count(*) FROM app.jobs").Scan(&seen); err != nil {
		t.Fatal(err)
	}
	live(lives)
	s.exec(t, "VACUUM app.jobs")
	held := s.claimCost(t)
	dead := s.awaitDeadRows(t, func(rows int64) bool { return rows >= lives })
	if held < 40 || held > 10*lives { // below 40 nothing was held, see the bound after it
		t.Errorf("under an old snapshot a claim touches %d pages after %d jobs", held, lives)
	}
	if err := snapshot.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.exec(t, "VACUUM app.jobs")
	free := s.claimCost(t)
	if free > 20 {
		t.Errorf("without the snapshot a claim still touches %d pages", free)
	}
	s.awaitDeadRows(t, func(rows int64) bool { return rows == 0 })
	live(8) // and the work goes on
	t.Logf("%d jobs under an old snapshot: %d dead rows, a claim touches %d pages; after it %d", lives, dead, held, free)
}

// awaitDeadRows asks as the metrics do until the figure is as wanted: the database
// brings its counters up to date now and then.
func (s *swept) awaitDeadRows(t *testing.T, wanted func(int64) bool) int64 {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		rows, err := s.store.DeadRows(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if wanted(rows) {
			return rows
		}
		if time.Now().After(deadline) {
			t.Fatalf("the database counts %d dead rows", rows)
		}
	}
}
