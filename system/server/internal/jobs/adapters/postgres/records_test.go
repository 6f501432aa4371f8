package postgres_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/adapters/postgres"
	"glovebox/system/server/internal/jobs/domain"
	"glovebox/system/server/internal/jobs/sweep"
	"glovebox/system/testdb"
	"glovebox/threat-model/evidence"
)

const quarter = 90 * 24 * time.Hour

// recordSweeper keeps records for a quarter and pages by two.
func (s *swept) recordSweeper() *sweep.Sweeper {
	return sweep.New(s.ledger, listed{s.storage}, sweep.Settings{
		Retention: week, Records: quarter, OrphanAge: time.Hour, StagedAge: time.Hour, Page: 2, Log: slog.New(slog.DiscardHandler),
	})
}

func (s *swept) recordRound(t *testing.T) sweep.Report {
	t.Helper()
	report, err := s.recordSweeper().Round(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// rowsOf counts what the database still knows of a job, in all tables.
func (s *swept) rowsOf(t *testing.T, jobID, assetID string) (n int) {
	t.Helper()
	err := s.db.Pool(t, testdb.Admin).QueryRow(t.Context(), `
		SELECT (SELECT count(*) FROM app.jobs WHERE id = $1) + (SELECT count(*) FROM app.job_events WHERE job_id = $1)
		     + (SELECT count(*) FROM app.idempotency_keys WHERE job_id = $1)
		     + (SELECT count(*) FROM app.assets WHERE id = $2) + (SELECT count(*) FROM app.asset_versions WHERE asset_id = $2)`, jobID, assetID).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *swept) assetOf(t *testing.T, jobID string) string {
	t.Helper()
	view, err := s.server.Status(t.Context(), s.owner, jobID)
	if err != nil {
		t.Fatal(err)
	}
	return view.AssetID
}

func (s *swept) submitKeyed(t *testing.T, key string) string {
	t.Helper()
	receipt, err := s.server.Submit(t.Context(), jobs.Submission{UserID: s.owner, FileName: "a", IdempotencyKey: key}, strings.NewReader("input"))
	if err != nil {
		t.Fatal(err)
	}
	return receipt.ID
}

// TestRecordsEndLongAfterTheirBytes: the rows of ended jobs go, page by page, a
// stated time after their files, and nothing else does.
func TestRecordsEndLongAfterTheirBytes(t *testing.T) {
	evidence.Proves(t, "STO-05", "DBS-02")
	t.Parallel()
	s := setupSweep(t)
	var old []string
	for range 5 { // more than two pages
		id := s.submitKeyed(t, uuid.NewString())
		if err := s.finish(t.Context(), s.claim(t), "out"); err != nil {
			t.Fatal(err)
		}
		old = append(old, id)
	}
	assets := map[string]string{}
	for _, id := range old {
		assets[id] = s.assetOf(t, id)
	}
	recent := s.submit(t)
	if err := s.finish(t.Context(), s.claim(t), "out"); err != nil {
		t.Fatal(err)
	}
	kept := s.submit(t)
	if err := s.finish(t.Context(), s.claim(t), "out"); err != nil {
		t.Fatal(err)
	}
	running := s.submit(t)
	s.claim(t)
	waiting := s.submit(t)
	for _, id := range []string{recent, kept, running, waiting} {
		assets[id] = s.assetOf(t, id)
	}

	s.exec(t, "UPDATE app.jobs SET created_at = now() - interval '1 year', updated_at = now() - interval '1 year'")
	s.exec(t, "UPDATE app.jobs SET terminal_at = now() - interval '1 year' WHERE id = ANY ($1)", append([]string{recent}, old...))
	if report := s.recordRound(t); report.JobsPurged != 6 || report.RecordsDeleted != 0 {
		t.Fatalf("bytes first, records a quarter later: %+v", report)
	}
	s.exec(t, "UPDATE app.jobs SET purged_at = now() - interval '90 days' WHERE id = ANY ($1)", old)
	s.exec(t, "UPDATE app.asset_versions v SET purged_at = now() - interval '90 days' FROM app.jobs j WHERE j.asset_id = v.asset_id AND j.id = ANY ($1)", old)
	s.exec(t, "UPDATE app.jobs SET purged_at = now() - interval '89 days' WHERE id = $1", recent)
	if report := s.recordRound(t); report.RecordsDeleted != len(old) {
		t.Errorf("%d records were over, and the sweeper reports %+v", len(old), report)
	}
	for _, id := range old {
		if n := s.rowsOf(t, id, assets[id]); n != 0 {
			t.Errorf("%d rows of job %s are left", n, id)
		}
		if _, err := s.server.Status(t.Context(), s.owner, id); domain.CodeOf(err) != domain.CodeNotFound {
			t.Errorf("the owner of a job without records is told %v", err)
		}
	}
	for _, id := range []string{recent, kept, running, waiting} {
		if _, err := s.server.Status(t.Context(), s.owner, id); err != nil || s.rowsOf(t, id, assets[id]) < 4 {
			t.Errorf("job %s lost rows: %v, %d left", id, err, s.rowsOf(t, id, assets[id]))
		}
	}
	if report := s.recordRound(t); report.RecordsDeleted != 0 {
		t.Errorf("a second round deletes again: %+v", report)
	}
}

// TestTheSweeperCannotDeleteALiveRecord: what the function takes is decided in it,
// whatever the sweeper's process asks for.
func TestTheSweeperCannotDeleteALiveRecord(t *testing.T) {
	evidence.Proves(t, "DBS-02", "STO-05")
	t.Parallel()
	s := setupSweep(t)
	done := s.submit(t)
	if err := s.finish(t.Context(), s.claim(t), "out"); err != nil {
		t.Fatal(err)
	}
	running := s.submit(t)
	s.claim(t)
	waiting := s.submit(t)
	if n, err := s.ledger.DeleteRecords(t.Context(), 0, 1000); err != nil || n != 0 {
		t.Fatalf("of jobs that live or whose bytes are kept, %d were deleted (%v)", n, err)
	}
	pool := s.db.Pool(t, testdb.Sweeper)
	for _, call := range []string{"SELECT app.delete_records('-1 day', 10)", "SELECT app.delete_records('0', 0)", "SELECT app.delete_records('0', 100001)", "SELECT app.delete_records(NULL, 10)"} {
		if _, err := pool.Exec(t.Context(), call); err == nil {
			t.Errorf("%s was taken", call)
		}
	}
	// Control: the same call takes the one that is over.
	s.exec(t, "UPDATE app.jobs SET purged_at = now() WHERE id = $1", done)
	if n, err := s.ledger.DeleteRecords(t.Context(), 0, 1000); err != nil || n != 1 {
		t.Errorf("of one job that is over, %d were deleted (%v)", n, err)
	}
	for _, id := range []string{running, waiting} {
		if _, err := s.server.Status(t.Context(), s.owner, id); err != nil {
			t.Errorf("a live job: %v", err)
		}
	}
}

// TestNoFileGoesWhileABackupIsTaken: retention and orphans wait for the lock that a
// backup holds, in both orders.
func TestNoFileGoesWhileABackupIsTaken(t *testing.T) {
	evidence.Proves(t, "DBS-03", "STO-03")
	t.Parallel()
	s := setupSweep(t)
	s.submit(t)
	if err := s.finish(t.Context(), s.claim(t), "out"); err != nil {
		t.Fatal(err)
	}
	s.exec(t, "UPDATE app.jobs SET terminal_at = now() - interval '8 days'")
	s.place(t, "result/an-orphan")
	backup, err := s.db.Pool(t, testdb.Backup).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer backup.Release()
	if _, err := backup.Exec(t.Context(), "SELECT pg_advisory_lock($1)", postgres.BackupLock); err != nil {
		t.Fatal(err)
	}
	if report := s.round(t, -time.Second); report.HeldBack == "" || report.JobsPurged+report.ObjectsRemoved+report.OrphansRemoved != 0 || len(s.objects(t)) != 3 {
		t.Errorf("during a backup the sweeper reports %+v and leaves %v", report, s.objects(t))
	}
	if _, err := backup.Exec(t.Context(), "SELECT pg_advisory_unlock($1)", postgres.BackupLock); err != nil {
		t.Fatal(err)
	}
	// The other order: while a sweeper is between mark and removal, no backup begins.
	if _, err := s.ledger.WhileDeletable(t.Context(), func(ctx context.Context) error {
		var got bool
		if err := backup.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", postgres.BackupLock).Scan(&got); err != nil || got {
			t.Errorf("a backup began in the midst of a round: %v, %v", got, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if report := s.round(t, -time.Second); report.HeldBack != "" || report.ObjectsRemoved != 2 || report.OrphansRemoved != 1 {
		t.Errorf("after it: %+v", report)
	}
}

// TestNothingBeginsWhileTheInstallationIsPaused: between a restore and `resume` no
// job is claimed, none submitted, no file removed; reading goes on.
func TestNothingBeginsWhileTheInstallationIsPaused(t *testing.T) {
	evidence.Proves(t, "DBS-03")
	t.Parallel()
	s := setupSweep(t)
	done := s.submit(t)
	if err := s.finish(t.Context(), s.claim(t), "out"); err != nil {
		t.Fatal(err)
	}
	s.submit(t)
	s.place(t, "result/an-orphan")
	s.exec(t, `INSERT INTO app.restores (id, backup_id, backup_at, completed_at, token_base, jobs_taken_back)
		VALUES (gen_random_uuid(), gen_random_uuid(), now(), now(), 1, 0)`)
	call := jobs.ClaimCall{WorkerID: "w-1", RequestID: uuid.NewString(), SlotsTotal: 1}
	if a, err := s.server.Claim(t.Context(), call); err != nil || a != nil {
		t.Errorf("a claim got %+v, %v", a, err)
	}
	_, err := s.server.Submit(t.Context(), jobs.Submission{UserID: s.owner, FileName: "a"}, strings.NewReader("input"))
	var refusal *domain.Error
	if !errors.As(err, &refusal) || refusal.Code != domain.CodeUnavailable || refusal.Message != domain.PausedMessage {
		t.Errorf("a submission got %v", err)
	}
	if report := s.round(t, -time.Second); report.HeldBack == "" || report.OrphansRemoved != 0 {
		t.Errorf("the sweeper reports %+v", report)
	}
	if result, err := s.server.OpenResult(t.Context(), s.owner, done); err != nil {
		t.Errorf("a result cannot be read: %v", err)
	} else {
		_ = result.Content.Close()
	}
	// Control: all of it goes on with the row's one column.
	s.exec(t, "UPDATE app.restores SET resumed_at = now()")
	if a, err := s.server.Claim(t.Context(), call); err != nil || a == nil {
		t.Errorf("after resume a claim got %+v, %v", a, err)
	}
	s.submit(t)
	if report := s.round(t, -time.Second); report.OrphansRemoved != 1 {
		t.Errorf("after resume the sweeper reports %+v", report)
	}
}
