package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"glovebox/ci/local"
	"glovebox/migrations"
	"glovebox/threat-model/evidence"
)

// TestOperation is what an operator does to a system that people use: certificates,
// restarts, a worker taken away, the loss of everything and its restore, a new
// schema. One system, in this order.
func TestOperation(t *testing.T) {
	t.Parallel()
	s := start(t, "operation", 23200, local.Options{
		Servers: 2, Workers: 2, Image: image(t, compile(t, "cores/acts.c")),
		Set: []string{"lease.duration=6s lease.heartbeat=2s worker.grace=2s jobs.claim_poll=500ms sweeper.interval=1s sandbox.slots=1 worker.slots=1"},
	})
	w := &edgeWorld{System: s, db: observer(t, s), people: []person{login(t, s, 0), login(t, s, 1)}}
	for _, part := range []struct {
		name string
		run  func(*testing.T, *edgeWorld)
	}{
		{"certificates, restarts and a drain under traffic", rollingTest},
		{"everything lost and restored", drillTest},
		{"a new schema under running binaries", schemaTest},
	} {
		if !t.Run(part.name, func(t *testing.T) {
			for i := range w.people {
				w.people[i].t = t
			}
			part.run(t, w)
		}) {
			return // the next would only repeat it
		}
	}
}

// rollingTest renews every certificate, drains and replaces a worker, and restarts
// one server after the other, while two people submit.
func rollingTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"REL-05", "MTL-05", "ARC-05", "JOB-06"},
		Tried:        "pki renew of every leaf, SIGTERM and restart of a worker, then of both servers in turn, under submissions to both",
		Oracle:       "each request's answer, observer's events, bytes of each result, serials that the listeners show",
	})
	traffic := w.stream(t)
	server, worker := w.leaves(t)
	shown := serial(t, w, w.Servers[0].InternalURL)
	w.admin(t, append([]string{"pki", "renew", "--dir", w.pki()}, append(server, worker...)...)...)
	eventually(t, 10*time.Second, "the renewed certificate is shown", func() string {
		if now := serial(t, w, w.Servers[0].InternalURL); now == shown {
			return now
		}
		return ""
	})
	// The worker in mid-run finishes or hands back; it must not be insisted upon.
	for _, name := range []string{"worker-0", "server-0", "server-1"} {
		if err := w.Stop(name, 35*time.Second); err != nil {
			t.Errorf("%s did not end by itself: %v", name, err)
		}
		if err := w.Restart(context.Background(), name); err != nil {
			t.Fatal(err)
		}
	}
	traffic.reach(20)
	traffic.end(20)
}

// drillTest is the restore drill: a backup with jobs in each state, the loss of
// both servers, the database and the storage, while the workers live on; then an
// empty machine up to the first job that completes on it, by the clock.
func drillTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"DBS-03", "JOB-03", "JOB-05"},
		Tried:        "backup under work; SIGKILL of servers and sweeper, database and storage lost, workers left alive with their old tokens; restore, verify, resume",
		Oracle:       "observer's rows and events, what the lost system's workers are answered, SHA-256 of results, time from the empty machine to the first completed job",
	})
	alice, bob := w.people[0], w.people[1]
	done := alice.caller(0).created("done", []byte("done before"))
	alice.must("wait", done)
	before := look(t, w.db, done)
	sum, _, err := alice.caller(0).download(done)
	if err != nil {
		t.Fatal(err)
	}
	// Both workers' one slot is taken, so that the third job waits.
	const run = 4 * time.Second
	first, _ := w.running(t, run, "in work")
	second := bob.caller(1).created("second", fmt.Appendf(nil, "#!act sleep %d\nin work too", run.Milliseconds()))
	eventually(t, 20*time.Second, "both workers are at work", func() string {
		if j := look(t, w.db, second); j.status != "processing" {
			return j.status
		}
		return ""
	})
	waiting := alice.caller(0).created("waiting", []byte("begun after the restore"))
	held := map[string]job{first: look(t, w.db, first), second: look(t, w.db, second)}

	dir := filepath.Join(t.TempDir(), "backup")
	began := time.Now()
	w.admin(t, "backup", "--out", dir, "--json")
	took := time.Since(began)
	for _, name := range []string{"server-0", "server-1", "sweeper"} {
		if err := w.Kill(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.LoseData(context.Background()); err != nil {
		t.Fatal(err)
	}

	clock := time.Now()
	var report struct {
		TokenBase int64 `json:"token_base"`
		TakenBack int64 `json:"jobs_taken_back"`
		Files     int64 `json:"files"`
		Bytes     int64 `json:"bytes"`
		Revoked   int64 `json:"tokens_revoked"`
	}
	if err := json.Unmarshal([]byte(w.admin(t, "restore", "--from", dir, "--json")), &report); err != nil {
		t.Fatal(err)
	}
	restored := time.Since(clock)
	for _, name := range []string{"server-0", "server-1", "sweeper"} {
		if err := w.Restart(context.Background(), name); err != nil {
			t.Fatal(err)
		}
	}
	w.db = observer(t, w.System)
	w.admin(t, "verify", "--from", dir, "--json")
	verified := time.Since(clock)
	for i, p := range w.people { // their tokens are gone, their passwords not
		if a := p.caller(i).do("GET", "/api/v1/auth/me", nil); a.status != http.StatusUnauthorized {
			t.Errorf("a token from before the restore is answered %d", a.status)
		}
		p.must("login", p.user.Login, "--password-file", p.user.PasswordFile)
	}
	c := alice.caller(0)
	if a, err := c.upload("too early", []byte("x")); err != nil || a.status != http.StatusServiceUnavailable || !bytes.Contains(a.body, []byte("resume")) {
		t.Errorf("while paused an upload is answered %d %s (%v)", a.status, a.body, err)
	}
	for id := range held {
		if j := look(t, w.db, id); j.status != "pending" || j.token != report.TokenBase {
			t.Errorf("while paused job %s is %+v", id, j)
		}
	}
	w.admin(t, "resume")
	lateResults(t, w, held)
	eventually(t, 30*time.Second, "the first job has completed", func() string {
		for _, id := range []string{first, second, waiting} {
			if look(t, w.db, id).status == "completed" {
				return ""
			}
		}
		return fmt.Sprint(look(t, w.db, first))
	})
	t.Logf("backup %s; on the empty machine: restored after %s (%d files, %d bytes), verified after %s, first job completed after %s",
		took.Round(time.Millisecond), restored.Round(time.Millisecond), report.Files, report.Bytes, verified.Round(time.Millisecond), time.Since(clock).Round(time.Millisecond))
	w.settled(t)
	lateResults(t, w, held)

	if now := look(t, w.db, done); now != before {
		t.Errorf("a job that had completed was %+v and is %+v", before, now)
	}
	if again, _, err := c.download(done); err != nil || again != sum {
		t.Errorf("its result is another: %v", err)
	}
	for id, old := range held {
		j, events := look(t, w.db, id), history(t, w.db, id)
		if j.status != "completed" || j.token != report.TokenBase+1 || j.attempt != old.attempt+1 || count(events, "restored") != 1 || count(events, "claimed") != 2 || count(events, ">completed") != 1 {
			t.Errorf("job %s, in work before: %+v, %v", id, j, events)
		}
	}
	if j, events := look(t, w.db, waiting), history(t, w.db, waiting); j.status != "completed" || j.attempt != 1 || count(events, "claimed") != 1 {
		t.Errorf("the job that waited: %+v, %v", j, events)
	}
	trial := filepath.Join(t.TempDir(), "trial")
	if err := os.WriteFile(trial, []byte("a job after it"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := w.admin(t, "verify", "--json", "--job", trial, "--url", w.PublicURL, "--ca-file", w.CAFile, "--token-file", filepath.Join(alice.home, "token"))
	if !strings.Contains(out, `"status":"completed"`) {
		t.Errorf("the job that verify ran: %s", out)
	}
	w.nothingBeside(t)
	clean(t, w.System)
}

// lateResults plays the workers of the lost system: they show the tokens that they
// were given, which are good for nothing any more.
func lateResults(t *testing.T, w *edgeWorld, held map[string]job) {
	t.Helper()
	for id, old := range held {
		late := asWorker(t, w.System, old.worker, w.Servers[0].InternalURL)
		content := []byte("a late result")
		a := late.do("PUT", "/internal/v1/jobs/"+id+"/result", bytes.NewReader(content), "Glovebox-Fencing-Token", fmt.Sprint(old.token), "Repr-Digest", digest(content))
		if a.status != http.StatusConflict || a.code() != "lease_lost" {
			t.Errorf("the late result of job %s under token %d is answered %d %s", id, old.token, a.status, a.body)
		}
	}
}

// schemaTest applies the next release's migrations under this release's running
// binaries: one that keeps the three-state rule while people submit, and one that
// does not, which is refused for as long as they run.
func schemaTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"DBS-04"},
		Tried:        "a column, an index and a view added under two running servers and traffic; then a migration that says it ends such binaries",
		Oracle:       "each request's answer, observer's events, the schema's version, /ready",
	})
	w.db = observer(t, w.System) // the one before ended with its test
	next := migrations.Latest() + 1
	folder := fstest.MapFS{
		fmt.Sprintf("%04d_adds.sql", next): {Data: []byte(`-- +goose Up
ALTER TABLE app.jobs ADD COLUMN remark text NOT NULL DEFAULT '';
ALTER TABLE app.job_events ADD COLUMN remark text;
CREATE VIEW app.remarks AS SELECT id, remark FROM app.jobs;
`)},
		fmt.Sprintf("%04d_indexes.sql", next+1): {Data: []byte(`-- +goose NO TRANSACTION
-- +goose Up
CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_remark ON app.jobs (remark);
`)},
	}
	if err := addOwnMigrations(folder); err != nil {
		t.Fatal(err)
	}
	login, err := pgx.ParseConfig(strings.TrimSpace(string(mustRead(t, filepath.Join(filepath.Dir(w.BinDir), "secrets", "migrator.url")))))
	if err != nil {
		t.Fatal("the migrator's login is not usable")
	}
	traffic := w.stream(t)
	traffic.reach(3)
	report, err := migrations.UpFrom(context.Background(), login, folder)
	if err != nil || report.Version != next+1 {
		t.Errorf("the compatible migrations: %+v, %v", report, err)
	}
	folder[fmt.Sprintf("%04d_ends.sql", next+2)] = &fstest.MapFile{Data: fmt.Appendf(nil, "-- glovebox: oldest-binary %d\n-- +goose Up\nALTER TABLE app.jobs DROP COLUMN hand_backs CASCADE;\n", next)}
	if _, err := migrations.UpFrom(context.Background(), login, folder); err == nil || !strings.Contains(err.Error(), "is connected") {
		t.Errorf("a migration that ends the running binaries: %v", err)
	}
	traffic.reach(10)
	traffic.end(10)
	for i := range w.Servers {
		if a := w.people[0].caller(i).do("GET", "/ready", nil); a.status != http.StatusOK {
			t.Errorf("server %d after the new schema: %d %s", i, a.status, a.body)
		}
	}
}

// addOwnMigrations adds this release's files, which the next one carries too.
func addOwnMigrations(folder fstest.MapFS) error {
	names, err := filepath.Glob(filepath.Join(root, "migrations", "[0-9]*.sql"))
	if err != nil {
		return err
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		folder[filepath.Base(name)] = &fstest.MapFile{Data: content}
	}
	return nil
}
