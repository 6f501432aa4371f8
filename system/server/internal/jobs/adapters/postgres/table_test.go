package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
	"glovebox/threat-model/evidence"
)

// TestTheTableRefusesImpossibleStates tries, as the owner of everything, to store
// what the state machine excludes.
func TestTheTableRefusesImpossibleStates(t *testing.T) {
	evidence.Proves(t, "JOB-01", "JOB-05", "JOB-06", "JOB-13")
	t.Parallel()
	b := setup(t)
	pending := b.job(t, b.user(t))
	for name, set := range map[string]string{
		"an unknown status":                   "status = 'cancelled'",
		"processing without a worker":         "status = 'processing', attempt = 1, fencing_token = 1",
		"processing without a lease":          "status = 'processing', attempt = 1, fencing_token = 1, worker_id = 'w', heartbeat_at = now()",
		"pending with a worker":               "worker_id = 'w', lease_expires_at = now(), heartbeat_at = now()",
		"completed without a result":          "status = 'completed', terminal_at = now()",
		"completed with half a result":        "status = 'completed', terminal_at = now(), result_key = 'result/x', result_size = 1",
		"a result on a pending job":           "result_key = 'result/x', result_size = 1, result_sha256 = sha256('x'), result_worker_id = 'w', result_fencing_token = 0",
		"a result of an earlier claim":        "status = 'completed', terminal_at = now(), attempt = 2, fencing_token = 2, result_key = 'result/x', result_size = 1, result_sha256 = sha256('x'), result_worker_id = 'w', result_fencing_token = 1",
		"failed without a code":               "status = 'failed', terminal_at = now()",
		"failed without a time":               "status = 'failed', error_code = 'timeout', error_retryable = true",
		"an unknown code":                     "error_code = 'made_up', error_retryable = true",
		"a code without retryable":            "error_code = 'timeout'",
		"more attempts than allowed":          "attempt = 4, fencing_token = 4",
		"a token that lags behind its claims": "attempt = 2, fencing_token = 1",
		"more hand-backs than allowed":        "hand_backs = 11, fencing_token = 11",
		"purged before the end":               "purged_at = now()",
		"a negative size":                     "input_size = -1",
		"a key that is a path":                "result_key = '../../etc/passwd'",
		"no owner":                            "user_id = NULL",
		"an owner who does not own the asset": "user_id = '" + b.user(t) + "'",
	} {
		_, err := b.admin.Exec(t.Context(), "UPDATE app.jobs SET "+set+" WHERE id = $1", pending.ID)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || !strings.HasPrefix(refused.Code, "23") {
			t.Errorf("%s: %v, want a violated constraint", name, err)
		}
	}
	if got, err := b.store.Look(t.Context(), pending.ID); err != nil || got.Job != pending {
		t.Errorf("the job became %+v, %v", got.Job, err)
	}
}

// TestEachAttemptEndsOnceInTheHistory: the history's own indexes refuse a second
// claim or a second end under one token.
func TestEachAttemptEndsOnceInTheHistory(t *testing.T) {
	evidence.Proves(t, "JOB-04")
	t.Parallel()
	b := setup(t)
	job := b.job(t, b.user(t))
	insert := func(from any, to, cause string, token int) error {
		_, err := b.admin.Exec(t.Context(), `
			INSERT INTO app.job_events (job_id, from_status, to_status, cause, attempt, fencing_token, worker_id) VALUES ($1, $2, $3, $4, 1, $5, 'w')`,
			job.ID, from, to, cause, token)
		return err
	}
	for _, e := range []struct {
		from, to, cause string
		good            bool
	}{
		{"pending", "processing", "claimed", true}, {"pending", "processing", "claimed", false},
		{"processing", "completed", "finished", true}, {"processing", "completed", "finished", false}, {"processing", "pending", "lease_lost", false},
		{"completed", "pending", "retry", false}, {"pending", "completed", "finished", false}, {"failed", "pending", "retry", false},
		{"pending", "failed", "failed", false},
	} {
		if err := insert(e.from, e.to, e.cause, 1); (err == nil) != e.good {
			t.Errorf("%s -> %s (%s): %v, want accepted: %v", e.from, e.to, e.cause, err, e.good)
		}
	}
}

// TestTheHistoryBoundsWhatAWorkerSays: the length, and that it stands with a report.
func TestTheHistoryBoundsWhatAWorkerSays(t *testing.T) {
	evidence.Proves(t, "ARC-08")
	t.Parallel()
	b := setup(t)
	job := b.job(t, b.user(t))
	insert := func(token int, from, to, cause, said string) error {
		_, err := b.admin.Exec(t.Context(), `
			INSERT INTO app.job_events (job_id, from_status, to_status, cause, attempt, fencing_token, worker_id, provenance) VALUES ($1, $2, $3, $4, 1, $5, 'w', $6)`,
			job.ID, from, to, cause, token, said)
		return err
	}
	for i, c := range []struct {
		from, to, cause string
		length          int
		good            bool
	}{
		{"processing", "completed", "finished", 512, true}, {"processing", "completed", "finished", 513, false}, {"processing", "completed", "finished", 0, false},
		{"processing", "failed", "failed", 1, true}, {"processing", "pending", "retry", 1, true}, {"processing", "pending", "handed_back", 1, true},
		{"pending", "processing", "claimed", 1, false}, {"processing", "pending", "lease_lost", 1, false}, {"processing", "failed", "exhausted", 1, false},
		{"pending", "failed", "rejected", 1, false},
	} {
		if err := insert(i+1, c.from, c.to, c.cause, strings.Repeat("x", c.length)); (err == nil) != c.good {
			t.Errorf("%d bytes with %s: %v, want accepted: %v", c.length, c.cause, err, c.good)
		}
	}
}

// TestAClaimIsOneStepOfAnIndex fills the table with finished jobs and asks the
// planner.
func TestAClaimIsOneStepOfAnIndex(t *testing.T) {
	t.Parallel()
	b := setup(t)
	user := b.user(t)
	b.exec(t, `
		WITH made AS (SELECT gen_random_uuid() AS id, n FROM generate_series(1, 20000) AS n),
		a AS (INSERT INTO app.assets (id, user_id) SELECT id, $1 FROM made RETURNING id),
		v AS (INSERT INTO app.asset_versions (asset_id, version, name, size, sha256, storage_key)
		      SELECT id, 1, 'x', 1, sha256('x'), 'input/' || id FROM a RETURNING asset_id)
		INSERT INTO app.jobs (id, user_id, asset_id, asset_version, input_size, status, max_attempts, fair_key, error_code, error_retryable, terminal_at)
		SELECT v.asset_id, $1, v.asset_id, 1, 1, 'failed', 3, m.n, 'core_error', false, now() FROM v JOIN made m ON m.id = v.asset_id`, user)
	for range 20 {
		b.job(t, user)
	}
	b.exec(t, "ANALYZE app.jobs, app.asset_versions")
	rows, err := b.admin.Query(t.Context(), "EXPLAIN SELECT p.id FROM app.jobs p WHERE p.status = 'pending' AND p.next_attempt_at <= now() ORDER BY p.fair_key, p.id LIMIT 1 FOR UPDATE SKIP LOCKED")
	if err != nil {
		t.Fatal(err)
	}
	var plan strings.Builder
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(line + "\n")
	}
	if !strings.Contains(plan.String(), "Index Scan using jobs_pending") || strings.Contains(plan.String(), "Sort") {
		t.Errorf("a claim is planned as\n%s", plan.String())
	}
}

// TestALeaseThatEndsBetweenTheReadingAndTheChange: what was judged alive must be
// alive when it is stored.
func TestALeaseThatEndsBetweenTheReadingAndTheChange(t *testing.T) {
	evidence.Proves(t, "JOB-03", "ARC-04")
	t.Parallel()
	b := setup(t)
	b.job(t, b.user(t))
	const lease = 300 * time.Millisecond
	record, ok, err := b.store.Claim(t.Context(), jobs.Claim{WorkerID: "w", RequestID: uuid.NewString(), Lease: lease})
	if err != nil || !ok {
		t.Fatalf("claim: %v", err)
	}
	fence := domain.Fence{JobID: record.Job.ID, WorkerID: "w", FencingToken: 1}
	turns := 0
	_, err = b.store.Transition(t.Context(), jobs.Change{JobID: fence.JobID, Decide: func(j domain.Job, now time.Time) (domain.Job, *domain.Event, error) {
		turns++
		next, event, err := j.Fail(fence, "core_error", "", 0, now)
		b.exec(t, "SELECT pg_sleep($1)", lease.Seconds()) // the database's own clock passes the lease's end
		return next, &event, err
	}})
	if domain.CodeOf(err) != domain.CodeLeaseLost || turns != 2 {
		t.Errorf("after %d readings: %v, want lease_lost after two", turns, err)
	}
	if got, err := b.store.Look(t.Context(), fence.JobID); err != nil || got.Job != record.Job {
		t.Errorf("the job became %+v, %v", got.Job, err)
	}
}

// TestExpiryPassesARowThatSomebodyHolds: a forgotten transaction on one job must
// not hold up the others.
func TestExpiryPassesARowThatSomebodyHolds(t *testing.T) {
	evidence.Proves(t, "JOB-06")
	t.Parallel()
	b := setup(t)
	user := b.user(t)
	var ids []string
	for range 3 {
		b.job(t, user)
		record, _, err := b.store.Claim(t.Context(), jobs.Claim{WorkerID: "w", RequestID: uuid.NewString(), Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		b.leaseOver(t, record.Job.ID)
		ids = append(ids, record.Job.ID)
	}
	tx, err := b.admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM app.jobs WHERE id = $1 FOR UPDATE", ids[0]); err != nil {
		t.Fatal(err)
	}
	service := jobs.New(jobs.Parts{Store: b.store, Queue: b.store}, jobs.Settings{})
	if n, err := service.Expire(t.Context()); n != 2 || err != nil {
		t.Errorf("%d of the two free jobs were taken back, %v", n, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := service.Expire(t.Context()); n != 1 || err != nil {
		t.Errorf("the held one afterwards: %d, %v", n, err)
	}
}

func TestADatabaseThatIsAwayIsUnavailable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	job := b.job(t, b.user(t))
	b.db.Outside(t, fmt.Sprintf("ALTER DATABASE %s WITH ALLOW_CONNECTIONS false", b.db.Name))
	b.db.Outside(t, fmt.Sprintf("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '%s'", b.db.Name))
	for range 3 {
		_, err := b.store.Look(t.Context(), job.ID)
		if domain.CodeOf(err) != domain.CodeUnavailable {
			t.Errorf("error is %v with code %q, want unavailable", err, domain.CodeOf(err))
		}
	}
	b.db.Outside(t, fmt.Sprintf("ALTER DATABASE %s WITH ALLOW_CONNECTIONS true", b.db.Name))
	if _, err := b.store.Look(t.Context(), job.ID); err != nil {
		t.Errorf("once it is back: %v", err)
	}
}

// TestAClaimPassesAJobThatSomebodyHolds: the next free job is given at once.
func TestAClaimPassesAJobThatSomebodyHolds(t *testing.T) {
	evidence.Proves(t, "JOB-02")
	t.Parallel()
	b := setup(t)
	user := b.user(t)
	first, second := b.job(t, user), b.job(t, user)
	tx, err := b.admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "SELECT FROM app.jobs WHERE id = $1 FOR UPDATE", first.ID); err != nil {
		t.Fatal(err)
	}
	record, ok, err := b.store.Claim(t.Context(), jobs.Claim{WorkerID: "w", RequestID: uuid.NewString(), Lease: time.Minute})
	if err != nil || !ok || record.Job.ID != second.ID {
		t.Errorf("while the first job is held, a claim gives %q, %v, %v; want the second", record.Job.ID, ok, err)
	}
}

// TestAJudgementOfAnEarlierStateIsMadeAgain changes the job while it is judged,
// in such a way that only its token tells.
func TestAJudgementOfAnEarlierStateIsMadeAgain(t *testing.T) {
	evidence.Proves(t, "ARC-04")
	t.Parallel()
	b := setup(t)
	job := b.job(t, b.user(t))
	turns := 0
	_, err := b.store.Transition(t.Context(), jobs.Change{JobID: job.ID, Decide: func(j domain.Job, now time.Time) (domain.Job, *domain.Event, error) {
		if turns++; turns == 1 {
			record, ok, err := b.store.Claim(t.Context(), jobs.Claim{WorkerID: "w", RequestID: uuid.NewString(), Lease: time.Minute})
			if err != nil || !ok {
				t.Fatalf("claim: %v", err)
			}
			b.leaseOver(t, job.ID)
			if n, err := jobs.New(jobs.Parts{Store: b.store, Queue: b.store}, jobs.Settings{}).Expire(t.Context()); n != 1 || err != nil {
				t.Fatalf("expire %s: %d, %v", record.Job.ID, n, err)
			}
		}
		next, event, err := j.Reject("rejected_too_large", now)
		return next, &event, err
	}})
	if err != nil || turns != 2 {
		t.Fatalf("judged %d times, %v; want twice", turns, err)
	}
	if history := b.history(t, job.ID); len(history) != 4 || history[3].FencingToken != 1 {
		t.Errorf("the history is %+v", history)
	}
}
