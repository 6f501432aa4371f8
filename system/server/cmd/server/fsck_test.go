package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"glovebox/system/server/internal/recovery"
	"glovebox/threat-model/evidence"
)

// fsck runs the command and returns what it found, by kind and subject.
func (in *installation) fsck(args ...string) (found map[recovery.Kind][]recovery.Finding, report checkReport, code int) {
	in.t.Helper()
	out, errOut, code := in.administer(append([]string{"fsck", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		in.t.Fatalf("fsck printed %s %s: %v", out, errOut, err)
	}
	found = map[recovery.Kind][]recovery.Finding{}
	for _, f := range report.List {
		found[f.Kind] = append(found[f.Kind], f)
		if f.Detail == "" || f.Remedy == "" {
			in.t.Errorf("%s of %s is not explained", f.Kind, f.Subject)
		}
	}
	return found, report, code
}

// object is where the file of a key lies.
func (in *installation) object(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(in.storage, "objects", hex.EncodeToString(sum[:1]), strings.ReplaceAll(key, "/", "~"))
}

func (in *installation) text(query string, args ...any) (value string) {
	in.t.Helper()
	if err := in.admin.QueryRow(in.t.Context(), query, args...).Scan(&value); err != nil {
		in.t.Fatal(err)
	}
	return value
}

func (in *installation) resultOf(id string) string {
	in.t.Helper()
	return in.text("SELECT result_key FROM app.jobs WHERE id = $1", id)
}

func (in *installation) inputOf(id string) string {
	in.t.Helper()
	return in.text("SELECT v.storage_key FROM app.jobs j JOIN app.asset_versions v ON v.asset_id = j.asset_id AND v.version = j.asset_version WHERE j.id = $1", id)
}

func (in *installation) exec(sql string, args ...any) {
	in.t.Helper()
	if _, err := in.admin.Exec(in.t.Context(), sql, args...); err != nil {
		in.t.Fatalf("%s: %v", sql, err)
	}
}

// expectation is one planted mismatch.
type expectation struct {
	kind    recovery.Kind
	subject string // the key or path, or the job where the subject is a table
}

// plants ruins an installation in every way that fsck knows, each in a job of its
// own, and says what must be found.
func (in *installation) plants(jobs []job, retried, running, waiting job) (want []expectation) {
	t := in.t
	next := 0
	take := func() job { next++; return jobs[next-1] }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	plant := func(kind recovery.Kind, subject string) { want = append(want, expectation{kind, subject}) }
	old := time.Now().Add(-48 * time.Hour)

	key := in.resultOf(take().ID)
	must(os.Remove(in.object(key)))
	plant(recovery.MissingFile, key)

	key = in.resultOf(take().ID)
	must(os.Truncate(in.object(key), 1))
	plant(recovery.WrongSize, key)

	key = in.resultOf(take().ID)
	content, err := os.ReadFile(in.object(key))
	must(err)
	must(os.WriteFile(in.object(key), flipped(content), 0o600))
	plant(recovery.WrongHash, key)

	key = in.resultOf(take().ID)
	must(os.Remove(in.object(key)))
	must(os.Symlink(filepath.Join(in.storage, "tmp"), in.object(key)))
	plant(recovery.NotPlain, key)

	key = in.resultOf(take().ID)
	must(os.Link(in.object(key), filepath.Join(t.TempDir(), "another-name")))
	plant(recovery.ExtraLink, key)

	key = in.inputOf(take().ID)
	must(os.Chmod(in.object(key), 0o644))
	plant(recovery.WrongMode, key)

	key = in.inputOf(take().ID)
	must(os.Chown(in.object(key), 61234, -1))
	plant(recovery.WrongOwner, key)

	for key, age := range map[string]time.Time{"result/orphan": old, "result/young": time.Now(), "input/orphan": old} {
		must(os.WriteFile(in.object(key), []byte("x"), 0o600))
		must(os.Chtimes(in.object(key), age, age))
		if age.Equal(old) {
			plant(recovery.Orphan, key)
		}
	}
	for name, age := range map[string]time.Time{"left": old, "fresh": time.Now()} {
		path := filepath.Join(in.storage, "tmp", name)
		must(os.WriteFile(path, []byte("x"), 0o600))
		must(os.Chtimes(path, age, age))
	}
	plant(recovery.Temporary, "tmp/left")
	for _, place := range []string{"stray", "objects/stray", "objects/7f/stray~"} {
		must(os.WriteFile(filepath.Join(in.storage, place), []byte("x"), 0o600))
		plant(recovery.Foreign, place)
	}

	id := take().ID
	in.exec("DELETE FROM app.job_events WHERE job_id = $1 AND cause = 'finished'", id)
	plant(recovery.StatusHistory, id)
	plant(recovery.ResultHistory, id)

	in.exec("UPDATE app.jobs SET attempt = 0, fencing_token = 0 WHERE id = $1", retried.ID)
	plant(recovery.TokenHistory, retried.ID)

	in.exec("UPDATE app.jobs SET lease_expires_at = now() - interval '1 hour' WHERE id = $1", running.ID)
	plant(recovery.LeaseOverdue, running.ID)

	key = in.inputOf(waiting.ID)
	in.exec("UPDATE app.asset_versions SET purged_at = now() WHERE storage_key = $1", key)
	plant(recovery.LiveInputGone, key)

	id = take().ID
	in.exec("UPDATE app.jobs SET purged_at = now() WHERE id = $1", id)
	plant(recovery.PurgeDiffers, id)

	id = take().ID
	in.exec("UPDATE app.jobs SET input_size = input_size + 1 WHERE id = $1", id)
	plant(recovery.InputSize, in.inputOf(id))

	id = take().ID
	in.exec(`INSERT INTO app.users (id, login, password_hash) VALUES (gen_random_uuid(), 'mallory', '$argon2id$')`)
	in.exec(`INSERT INTO app.idempotency_keys (user_id, key, upload_id, fingerprint, job_id)
		SELECT id, 'k', gen_random_uuid(), sha256('x'), $1 FROM app.users WHERE login = 'mallory'`, id)
	plant(recovery.ForeignKeyRow, id)

	id = take().ID
	key = in.resultOf(id)
	other := "result/another/1-name"
	in.exec("UPDATE app.jobs SET result_key = $2 WHERE id = $1", id, other)
	must(os.Rename(in.object(key), in.object(other)))
	plant(recovery.ResultKey, other)

	in.exec("ALTER TABLE app.jobs ADD CONSTRAINT planted CHECK (id IS NOT NULL) NOT VALID")
	plant(recovery.Unvalidated, "app.jobs")

	in.exec("INSERT INTO app.restores (id, backup_id, backup_at) VALUES (gen_random_uuid(), gen_random_uuid(), now())")
	plant(recovery.BrokenRestore, "app.restores")
	if next != len(jobs) {
		t.Fatalf("%d of %d jobs were ruined", next, len(jobs))
	}
	return want
}

// TestFsckFindsEveryMismatchAndMendsTheSafeOnes plants each kind once, wants
// exactly those found, then mends.
func TestFsckFindsEveryMismatchAndMendsTheSafeOnes(t *testing.T) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"DBS-03", "STO-03", "JOB-05"},
		Tried:        "each mismatch of rows and files that fsck knows, planted in a job of its own; then --mend, with --expire-lost",
		Oracle:       "the findings against what was planted; files and rows after mending; what the owners are answered",
	})
	in := install(t)
	s := in.start(nil)
	user, worker := s.user("alice"), s.worker("w-1")
	var jobs []job
	for n := range 12 {
		jobs = append(jobs, completed(user, worker, fmt.Appendf(nil, "input %d", n), fmt.Appendf(nil, "the result of job %d", n)))
	}
	retried := user.submit([]byte("to be retried"))
	a := worker.claim()
	worker.json("POST", attemptPath("/internal/v1/jobs/{id}/fail", a.ID), map[string]any{"code": "timeout", "retryable": true, "detail": ""}, fenced(a.FencingToken)).want(http.StatusOK)
	in.exec("UPDATE app.jobs SET next_attempt_at = now() + interval '1 hour' WHERE id = $1", retried.ID)
	running := user.submit([]byte("in work"))
	if a := worker.claim(); a.ID != running.ID {
		t.Fatalf("claimed %s", a.ID)
	}
	waiting := user.submit([]byte("not begun"))
	s.stop()

	if found, report, code := in.fsck(); code != exitOK || len(found) != 0 || report.Hashed != 12*2+3 {
		t.Fatalf("control: of a whole installation fsck finds %+v (%d), hashed %d", found, code, report.Hashed)
	}
	want := in.plants(jobs, retried, running, waiting)
	found, report, code := in.fsck()
	if code != exitFindings || report.Remaining != int64(len(want)) {
		t.Errorf("status %d, %d findings of %d planted", code, report.Remaining, len(want))
	}
	planted := map[recovery.Kind]bool{}
	for _, w := range want {
		planted[w.kind] = true
		if !slices.ContainsFunc(found[w.kind], func(f recovery.Finding) bool { return f.Subject == w.subject || f.Job == w.subject }) {
			t.Errorf("%s of %s was planted and not found", w.kind, w.subject)
		}
	}
	for kind := range found {
		if !planted[kind] {
			t.Errorf("%s was found and not planted: %+v", kind, found[kind])
		}
	}
	for _, kind := range recovery.FsckKinds() {
		if !planted[kind] {
			t.Errorf("nobody planted %s", kind)
		}
	}

	// While paused nothing is deleted, by mending neither.
	if found, _, _ := in.fsck("--mend"); found[recovery.Orphan][0].Mended {
		t.Error("an orphan was removed while the installation is paused")
	}
	in.exec("DELETE FROM app.restores")
	mended, _, _ := in.fsck("--mend", "--expire-lost")
	for kind, list := range mended {
		safe := slices.Contains([]recovery.Kind{recovery.Orphan, recovery.Temporary, recovery.MissingFile, recovery.WrongSize, recovery.WrongHash}, kind)
		for _, f := range list {
			if f.Mended != safe {
				t.Errorf("%s of %s: mended is %v", kind, f.Subject, f.Mended)
			}
		}
	}
	rest, _, code := in.fsck()
	left := slices.Sorted(maps.Keys(rest))
	wantLeft := []recovery.Kind{recovery.NotPlain, recovery.ExtraLink, recovery.Foreign, recovery.StatusHistory, recovery.ResultHistory, recovery.TokenHistory,
		recovery.LeaseOverdue, recovery.LiveInputGone, recovery.PurgeDiffers, recovery.InputSize, recovery.ForeignKeyRow, recovery.ResultKey, recovery.Unvalidated}
	slices.Sort(wantLeft)
	if code != exitFindings || !slices.Equal(left, wantLeft) {
		t.Errorf("after mending %v are left, want %v", left, wantLeft)
	}
	for _, name := range []string{"result/young"} {
		if _, err := os.Stat(in.object(name)); err != nil {
			t.Errorf("a young file without a row was taken: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(in.storage, "tmp", "fresh")); err != nil {
		t.Errorf("a fresh temporary file was taken: %v", err)
	}
}

// TestAFilesNameWritesNoLineOfTheReport: nor does it steer the terminal.
func TestAFilesNameWritesNoLineOfTheReport(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	x := &examination{cmd: newFsckCommand()}
	x.cmd.SetOut(&out)
	x.found(recovery.Finding{Kind: recovery.Foreign, Subject: "a\nmended  orphan  b\x1b[2J\r", Detail: "d", Remedy: "r"})
	x.found(recovery.Finding{Kind: recovery.Foreign, Subject: "objects/7f/plain", Detail: "d", Remedy: "r"})
	want := "FOUND   foreign  \"a\\nmended  orphan  b\\x1b[2J\\r\"\n        d\n        remedy: r\nFOUND   foreign  objects/7f/plain\n        d\n        remedy: r\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

// TestWhatTheOwnerOfALostResultIsTold: an internal error until somebody decides,
// never other bytes; 410 once the operator gave the result up.
func TestWhatTheOwnerOfALostResultIsTold(t *testing.T) {
	evidence.Proves(t, "DBS-03", "JOB-05", "STO-04")
	in := install(t)
	s := in.start(nil)
	user, worker := s.user("alice"), s.worker("w-1")
	whole, lost, damaged := completed(user, worker, []byte("1"), []byte("kept")), completed(user, worker, []byte("2"), []byte("lost")), completed(user, worker, []byte("3"), []byte("damaged"))
	if err := os.Remove(in.object(in.resultOf(lost.ID))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in.object(in.resultOf(damaged.ID)), []byte("DAMAGED"), 0o600); err != nil {
		t.Fatal(err)
	}
	result := func(j job) *answer { return user.get("/api/v1/jobs/" + j.ID + "/result") }
	for _, j := range []job{lost, damaged} {
		result(j).refused(http.StatusInternalServerError, "internal")
	}
	if _, _, code := in.fsck("--mend"); code != exitFindings {
		t.Errorf("mending alone gave up a result: %d", code)
	}
	if _, _, code := in.fsck("--mend", "--expire-lost"); code != exitOK {
		t.Errorf("giving up: %d", code)
	}
	for _, j := range []job{lost, damaged} {
		result(j).refused(http.StatusGone, "result_expired")
		if now := user.status(j.ID); now.Status != "completed" {
			t.Errorf("the job is %s", now.Status)
		}
	}
	result(whole).want(http.StatusOK)
}
