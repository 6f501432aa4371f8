package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"glovebox/migrations"
	"glovebox/system/protocol"
	"glovebox/system/server/internal/config"
	"glovebox/system/server/internal/jobs"
	jobstore "glovebox/system/server/internal/jobs/adapters/postgres"
	"glovebox/system/server/internal/jobs/sweep"
	"glovebox/system/server/internal/recovery"
	"glovebox/system/server/internal/storage/fs"
	"glovebox/system/testdb"
	"glovebox/threat-model/evidence"
)

// administer runs a command with every login but the server's.
func (in *installation) administer(args ...string) (out, errOut string, code int) {
	in.t.Helper()
	for name, role := range map[string]string{"BACKUP": testdb.Backup, "MIGRATOR": testdb.Migrator, "SWEEPER": testdb.Sweeper} {
		in.t.Setenv("GLOVEBOX_DATABASE_"+name+"_URL", in.db.URL(role).Reveal())
	}
	in.t.Setenv("GLOVEBOX_STORAGE_ROOT", in.storage)
	in.t.Setenv("GLOVEBOX_LIMITS_MIN_FREE_BYTES", "0")
	return in.operate("", args...)
}

// must runs a command, wants it to succeed and decodes what it printed.
func (in *installation) must(into any, args ...string) {
	in.t.Helper()
	out, errOut, code := in.administer(args...)
	if code != exitOK {
		in.t.Fatalf("%v: status %d\n%s%s", args, code, tail(out, 3000), errOut)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		in.t.Fatalf("%v printed %s: %v", args, out, err)
	}
}

// elsewhere is a new machine for the same installation: an empty database with
// roles and schema, an empty storage, the keys that were kept apart.
func (in *installation) elsewhere() *installation {
	in.t.Helper()
	db := testdb.NewEmpty(in.t)
	other := &installation{
		t: in.t, db: db, admin: db.Pool(in.t, testdb.Admin), pki: in.pki, storage: filepath.Join(in.t.TempDir(), "storage"),
		secret: in.secret, logs: in.logs,
	}
	conn, err := other.admin.Acquire(in.t.Context())
	if err != nil {
		in.t.Fatal(err)
	}
	defer conn.Release()
	if err := migrations.Bootstrap(in.t.Context(), conn.Conn()); err != nil {
		in.t.Fatal(err)
	}
	other.must(nil, "migrate", "up")
	return other
}

// records are all jobs as the store knows them.
func (in *installation) records() map[string]jobs.Record {
	in.t.Helper()
	rows, err := in.admin.Query(in.t.Context(), "SELECT id::text FROM app.jobs")
	if err != nil {
		in.t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		in.t.Fatal(err)
	}
	all := make(map[string]jobs.Record, len(ids))
	for _, id := range ids {
		if all[id], err = jobstore.New(in.admin).Look(in.t.Context(), id); err != nil {
			in.t.Fatal(err)
		}
	}
	return all
}

// backUp takes a backup into a new folder.
func (in *installation) backUp(args ...string) (dir string, manifest recovery.Manifest) {
	in.t.Helper()
	dir = filepath.Join(in.t.TempDir(), "backup")
	in.must(&manifest, append([]string{"backup", "--json", "--out", dir}, args...)...)
	return dir, manifest
}

// populated is an installation with a job in each state.
type populated struct {
	*installation
	server                             *server
	user, worker                       *caller
	done, running, last, waiting, fail job
	assignment, lastAssignment         protocol.Assignment
	result                             []byte
}

func populate(t *testing.T) *populated {
	t.Helper()
	in := install(t)
	s := in.start(func(c *config.Config) { c.Jobs.MaxAttempts = 2 })
	p := &populated{installation: in, server: s, user: s.user("alice"), worker: s.worker("w-1"), result: bytes.Repeat([]byte("result "), 300_000)}
	p.done = completed(p.user, p.worker, []byte("the first"), p.result)
	p.fail = p.user.submit([]byte("not lua"))
	a := p.worker.claim()
	p.worker.json("POST", attemptPath("/internal/v1/jobs/{id}/fail", a.ID), map[string]any{"code": "invalid_input", "retryable": false, "detail": "line 1"},
		fenced(a.FencingToken)).want(http.StatusOK)
	p.last = p.user.submit([]byte("in its last attempt"))
	first := p.worker.claim()
	p.worker.json("POST", attemptPath("/internal/v1/jobs/{id}/fail", first.ID), map[string]any{"code": "timeout", "retryable": true, "detail": ""},
		fenced(first.FencingToken)).want(http.StatusOK)
	if _, err := in.admin.Exec(t.Context(), "UPDATE app.jobs SET next_attempt_at = now() WHERE id = $1", p.last.ID); err != nil {
		t.Fatal(err)
	}
	p.lastAssignment = p.worker.claim()
	p.running = p.user.submit([]byte("in work"))
	p.assignment = p.worker.claim()
	p.waiting = p.user.submit([]byte("not begun"))
	if p.lastAssignment.ID != p.last.ID || p.lastAssignment.Attempt != 2 || p.assignment.ID != p.running.ID {
		t.Fatalf("the claims went otherwise: %+v %+v", p.lastAssignment, p.assignment)
	}
	return p
}

// TestARestoredInstallationRunsNothingTwice is the drill: a backup while the system
// runs, the loss of everything, a restore on an empty machine, a look, `resume`.
func TestARestoredInstallationRunsNothingTwice(t *testing.T) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"DBS-03", "JOB-03", "JOB-05"},
		Tried:        "backup of a running system with a job in each state; after it, work goes on and the system is lost; restore into an empty database and storage",
		Oracle:       "rows, history and files of the new installation; what workers of the lost system are answered",
	})
	p := populate(t)
	atBackup := p.records()
	dir, manifest := p.backUp()
	if manifest.Jobs["processing"] != 2 || manifest.Files != 6 || manifest.Rows["users"] != 1 {
		t.Errorf("the manifest counts %+v", manifest)
	}
	// What comes after the backup is lost with the system; the worker of the lost
	// system is not: it holds tokens that a careless restore would give out again.
	p.worker.finish(p.assignment, []byte("late")).want(http.StatusOK)
	again := p.worker.claim()
	if again.ID != p.waiting.ID {
		t.Fatalf("claimed %s", again.ID)
	}
	lost := p.user.submit([]byte("after the backup"))
	p.server.stop()

	other := p.elsewhere()
	var report recovery.Report
	other.must(&report, "restore", "--json", "--from", dir, "--digest", manifest.Digest, "--keep-tokens")
	if report.TakenBack != 2 || report.Files != 6 || len(report.RightsDiffer) != 0 || report.Pending || report.TokenBase <= p.assignment.FencingToken {
		t.Errorf("the restore reports %+v", report)
	}
	for id, after := range other.records() {
		want, _ := atBackup[id].Job.Restored(report.TokenBase, after.Job.UpdatedAt)
		if got := after.Job; !reflect.DeepEqual(got, want) {
			t.Errorf("job %s was restored as %+v, want %+v", id, got, want)
		}
	}
	if out, errOut, code := other.administer("verify", "--json", "--from", dir); code != exitOK {
		t.Errorf("verify: %d %s %s", code, out, errOut)
	}

	s := other.start(func(c *config.Config) { c.Jobs.MaxAttempts = 2 })
	user, worker := s.anonymous(), s.peer(s.pki.Worker("w-1"))
	user.token = p.user.token
	paused := func(a *answer) {
		t.Helper()
		if a.refused(http.StatusServiceUnavailable, "unavailable"); !bytes.Contains(a.body, []byte("resume")) {
			t.Errorf("%s %s: the pause is not named: %s", a.Request.Method, a.Request.URL.Path, a.body)
		}
	}
	paused(s.anonymous().get("/ready"))
	paused(user.upload("a.lua", []byte("meanwhile")))
	worker.tryClaim("0s").want(http.StatusNoContent)
	if got := user.get("/api/v1/jobs/" + p.done.ID + "/result").want(http.StatusOK); !bytes.Equal(got.body, p.result) {
		t.Error("the result is another one after the restore")
	}
	user.get("/api/v1/jobs/"+lost.ID).refused(http.StatusNotFound, "not_found")

	other.must(nil, "resume")
	if _, e, code := other.administer("resume"); code != exitUsage || !strings.Contains(e, "not paused") {
		t.Errorf("resume twice: %d %s", code, e)
	}
	eventually(t, 5*time.Second, "ready", func() bool { return s.anonymous().get("/ready").StatusCode == http.StatusOK })

	// The worker of the lost system: its late results are refused, before and after
	// the jobs are given out again under tokens that it cannot hold.
	late := func() {
		t.Helper()
		for _, a := range []protocol.Assignment{p.assignment, p.lastAssignment, again} {
			worker.finish(a, []byte("late")).refused(http.StatusConflict, "lease_lost")
		}
	}
	late()
	claims := map[string]protocol.Assignment{}
	for range 3 {
		a := worker.claim()
		claims[a.ID] = a
		if a.FencingToken != report.TokenBase+1 {
			t.Errorf("job %s got token %d, want the first after %d", a.ID, a.FencingToken, report.TokenBase)
		}
	}
	worker.tryClaim("0s").want(http.StatusNoContent)
	late()
	for id, attempt := range map[string]int{p.running.ID: 2, p.last.ID: 2, p.waiting.ID: 1} {
		a, ok := claims[id]
		if !ok || a.Attempt != attempt {
			t.Errorf("job %s was given out as %+v, want attempt %d", id, a, attempt)
		}
		worker.finish(a, []byte("result of "+id)).want(http.StatusOK)
		if j := user.status(id); j.Status != "completed" {
			t.Errorf("job %s is %s", id, j.Status)
		}
	}
	for id, attempt := range map[string]int{p.done.ID: 1, p.fail.ID: 1} {
		if n := other.count("SELECT attempt FROM app.jobs WHERE id = $1", id); n != attempt {
			t.Errorf("a job that had ended has %d attempts", n)
		}
	}
	if n := other.count("SELECT count(*) FROM app.job_events WHERE cause = 'restored'"); n != 2 {
		t.Errorf("%d jobs were taken back in the history, want 2", n)
	}
	other.nothingStored(6 + 3)
	if out, errOut, code := other.administer("fsck", "--json"); code != exitOK {
		t.Errorf("fsck at the end: %d %s %s", code, out, errOut)
	}
}

// TestTwoRestoresOfOneBackupShareNoToken: the first may have been lost too, and its
// workers may live.
func TestTwoRestoresOfOneBackupShareNoToken(t *testing.T) {
	evidence.Proves(t, "DBS-03", "JOB-03")
	p := populate(t)
	dir, _ := p.backUp()
	var bases []int64
	for range 2 {
		var report recovery.Report
		p.elsewhere().must(&report, "restore", "--json", "--from", dir)
		bases = append(bases, report.TokenBase)
	}
	const claims = 110 // 100 attempts and 10 hand-backs
	if bases[1]-bases[0] <= claims {
		t.Errorf("the bases are %v: the second gives out tokens of the first", bases)
	}
}

func TestARestoreRevokesTokensUnlessAsked(t *testing.T) {
	evidence.Proves(t, "DBS-03", "AUT-03")
	p := populate(t)
	dir, _ := p.backUp()
	for _, keep := range []bool{false, true} {
		other := p.elsewhere()
		args := []string{"restore", "--from", dir}
		if keep {
			args = append(args, "--keep-tokens")
		}
		other.must(nil, args...)
		s := other.start(nil)
		user := s.anonymous()
		user.token = p.user.token
		if a := user.get("/api/v1/auth/me"); (a.StatusCode == http.StatusOK) != keep {
			t.Errorf("keep %v: the old token is answered %d", keep, a.StatusCode)
		}
		s.login("alice") // the password is as it was
		s.stop()
	}
}

// TestARestoreRefusesWhatItWouldHarm: a database with rows, a storage with files,
// an installation at work, a backup that is not whole; and a refusal changes
// nothing.
func TestARestoreRefusesWhatItWouldHarm(t *testing.T) {
	evidence.Proves(t, "DBS-03")
	p := populate(t)
	dir, manifest := p.backUp()
	refused := func(in *installation, word string, args ...string) {
		t.Helper()
		before := in.count("SELECT count(*) FROM app.jobs")
		out, errOut, code := in.administer(append([]string{"restore", "--from", dir}, args...)...)
		if code == exitOK || !strings.Contains(errOut, word) {
			t.Errorf("status %d, want a refusal that says %q: %s%s", code, word, out, errOut)
		}
		if after := in.count("SELECT count(*) FROM app.jobs"); after != before {
			t.Errorf("the refusal changed %d jobs to %d", before, after)
		}
	}
	refused(p.installation, "stop every server")
	p.server.stop()
	eventually(t, 5*time.Second, "the server's sessions ended", func() bool {
		return p.count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'glovebox%'") == 0
	})
	refused(p.installation, "the database is not empty")

	other := p.elsewhere()
	refused(other, "another backup", "--digest", strings.Repeat("0", 64))
	if err := os.MkdirAll(filepath.Join(other.storage, "objects", "7f"), 0o700); err != nil {
		t.Fatal(err)
	}
	stray := filepath.Join(other.storage, "objects", "7f", "stray")
	if err := os.WriteFile(stray, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(other.storage, 0o700); err != nil {
		t.Fatal(err)
	}
	refused(other, "storage.root is not empty")
	if err := os.Remove(stray); err != nil {
		t.Fatal(err)
	}

	// Each file of the backup, changed by one byte and put back.
	object, err := filepath.Glob(filepath.Join(dir, "files", "objects", "*", "result*"))
	if err != nil || len(object) != 1 {
		t.Fatalf("the backup's results are %v, %v", object, err)
	}
	for _, name := range []string{"database.dump", "files.jsonl", "rights.txt", "manifest.json"} {
		object = append(object, filepath.Join(dir, name))
	}
	for _, name := range object {
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for what, content := range map[string][]byte{"flipped": flipped(whole), "cut": whole[:len(whole)-2], "gone": nil} {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			if content != nil {
				if err := os.WriteFile(name, content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, errOut, code := other.administer("restore", "--from", dir)
			if code == exitOK || !strings.Contains(errOut, "backup") {
				t.Fatalf("%s %s: status %d: %s", filepath.Base(name), what, code, errOut)
			}
			if n := other.count("SELECT count(*) FROM app.restores"); n != 0 {
				t.Fatalf("%s %s: the refusal left a restore behind", filepath.Base(name), what)
			}
			_ = os.Remove(name)
			if err := os.WriteFile(name, whole, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Control: the same backup, as it was, goes into the same place.
	other.must(nil, "restore", "--from", dir, "--digest", manifest.Digest)
}

func flipped(b []byte) []byte {
	out := bytes.Clone(b)
	out[len(out)/2] ^= 1
	return out
}

// TestABackupLeavesNothingHalf: an existing place, a full disk, a damaged file.
func TestABackupLeavesNothingHalf(t *testing.T) {
	evidence.Proves(t, "DBS-03")
	p := populate(t)
	parent := t.TempDir()
	existing := filepath.Join(parent, "existing")
	if err := os.Mkdir(existing, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, e, code := p.administer("backup", "--out", existing); code == exitOK || !strings.Contains(e, "exists already") {
		t.Errorf("into an existing folder: %d %s", code, e)
	}
	small := p.smallDisk(1 << 20) // less than the files have
	if _, e, code := p.administer("backup", "--out", filepath.Join(small, "b")); code == exitOK || !strings.Contains(e, "no room left") {
		t.Errorf("onto a disk that is too small: %d %s", code, e)
	}
	result, err := filepath.Glob(filepath.Join(p.storage, "objects", "*", "result*"))
	if err != nil || len(result) != 1 {
		t.Fatal(result, err)
	}
	if err := os.Truncate(result[0], 10); err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(parent, "damaged")
	if _, e, code := p.administer("backup", "--out", damaged); code == exitOK || !strings.Contains(e, "--allow-damaged") || !strings.Contains(e, "10 bytes") {
		t.Errorf("with a damaged file: %d %s", code, e)
	}
	for _, dir := range []string{parent, small} {
		left, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range left {
			if entry.Name() != "existing" {
				t.Errorf("left in %s: %s", filepath.Base(dir), entry.Name())
			}
		}
	}
	// Asked to, it notes the file; the restore brings the row, and fsck says so.
	dir, manifest := p.backUp("--allow-damaged")
	if manifest.Damaged != 1 {
		t.Errorf("the manifest counts %d damaged files", manifest.Damaged)
	}
	other := p.elsewhere()
	other.must(nil, "restore", "--from", dir)
	out, _, code := other.administer("fsck", "--json")
	if code != exitFindings || strings.Count(out, `"missing_file"`) != 2 /* count and finding */ || !strings.Contains(out, p.done.ID) {
		t.Errorf("fsck after it: %d %s", code, out)
	}
}

// TestABackupIsConsistentUnderWork: jobs are submitted and finished while a backup is
// taken, and a sweeper comes in the midst of the copying, when retention is over for
// every job that the snapshot names: it must wait. The backup restores to rows that
// all have their files.
func TestABackupIsConsistentUnderWork(t *testing.T) {
	evidence.Proves(t, "DBS-03", "STO-03")
	in := install(t)
	s := in.start(nil)
	user, worker := s.user("alice"), s.worker("w-1")
	const before = 6
	for n := range before {
		completed(user, worker, fmt.Appendf(nil, "input %d", n), fmt.Appendf(nil, "result %d", n))
	}
	in.exec("UPDATE app.jobs SET terminal_at = now() - interval '30 days'")
	sweepOnce := func() (report sweep.Report) {
		in.must(&report, "sweep", "--once")
		return report
	}
	storage, err := fs.New(in.storage, fs.Options{Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer storage.Close()
	dir := filepath.Join(t.TempDir(), "backup")
	came := false
	manifest, err := recovery.Backup(t.Context(), recovery.BackupOptions{
		Login: in.db.URL(testdb.Backup), Storage: storage, Out: dir, Patience: time.Minute,
		Progress: func(p recovery.Progress) {
			if p.Files != 1 || came {
				return
			}
			came = true
			completed(user, worker, []byte("meanwhile"), []byte("its result"))
			if report := sweepOnce(); report.HeldBack == "" || report.ObjectsRemoved != 0 {
				t.Errorf("in the midst of a backup the sweeper reports %+v", report)
			}
		},
	})
	if err != nil || !came || manifest.Files != 2*before || manifest.Damaged != 0 {
		t.Fatalf("the backup: %+v, %v", manifest, err)
	}
	if report := sweepOnce(); report.JobsPurged != before || report.ObjectsRemoved != 2*before {
		t.Errorf("control: after it the sweeper reports %+v", report)
	}
	other := in.elsewhere()
	other.must(nil, "restore", "--from", dir)
	other.must(nil, "verify", "--from", dir)
}
