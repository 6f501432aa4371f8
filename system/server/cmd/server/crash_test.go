package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"glovebox/system/platform/pki"
	"glovebox/system/protocol"
	"glovebox/system/server/internal/jobs/crashpoint"
	"glovebox/system/testdb"
	"glovebox/threat-model/evidence"
)

// site is an installation whose processes run a server with crash points in it.
type site struct {
	*installation
	binary string
	token  string // of a user; it outlives the processes
}

// TestTheServerMayDieAnywhere kills the real binary with SIGKILL at every named
// point and looks at the database and the disk from outside.
func TestTheServerMayDieAnywhere(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "glovebox-server")
	if out, err := exec.Command("go", "build", "-tags", "crashpoints", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build the server with its crash points: %v: %s", err, out)
	}
	for name, run := range map[string]func(*testing.T, *site){
		"in a submission, which is sent again under its key": deathInSubmission,
		"in a result, which is sent again under its token":   deathInResult,
		"in a sweep, which goes on":                          deathInSweep,
	} {
		t.Run(name, func(t *testing.T) {
			in := &site{installation: install(t), binary: binary}
			first := in.start(nil)
			in.token = first.user("alice").token
			in.allow("w-1")
			first.stop()
			run(t, in)
		})
	}
}

// process is a server of an installation as a process of its own.
type process struct {
	*site
	cmd              *exec.Cmd
	public, internal string
}

// command prepares one run of the binary on the installation, which dies at point.
func (in *site) command(point crashpoint.Point, skip string, args ...string) *exec.Cmd {
	in.t.Helper()
	publicCert, publicKey := in.pki.PublicServer()
	internalCert, internalKey := in.pki.InternalServer()
	cmd := exec.Command(in.binary, args...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "GLOVEBOX_CRASH_AT=" + string(point), "GLOVEBOX_CRASH_SKIP=" + skip,
		"GLOVEBOX_LISTEN_PUBLIC=127.0.0.1:0", "GLOVEBOX_LISTEN_INTERNAL=127.0.0.1:0", "GLOVEBOX_METRICS_LISTEN=127.0.0.1:0",
		"GLOVEBOX_TLS_PUBLIC_CERT=" + publicCert, "GLOVEBOX_TLS_PUBLIC_KEY=" + publicKey,
		"GLOVEBOX_TLS_INTERNAL_CERT=" + internalCert, "GLOVEBOX_TLS_INTERNAL_KEY=" + internalKey,
		"GLOVEBOX_TLS_INTERNAL_CLIENT_CA=" + in.pki.Bundle(pki.Internal),
		"GLOVEBOX_DATABASE_URL=" + in.db.URL(testdb.ServerRole).Reveal(),
		"GLOVEBOX_DATABASE_SWEEPER_URL=" + in.db.URL(testdb.Sweeper).Reveal(),
		"GLOVEBOX_AUTH_TOKEN_SECRET=" + in.secret.Reveal(), "GLOVEBOX_AUTH_ARGON2_TIME=1", "GLOVEBOX_AUTH_ARGON2_MEMORY=8MiB",
		"GLOVEBOX_STORAGE_ROOT=" + in.storage, "GLOVEBOX_LIMITS_MIN_FREE_BYTES=0",
	}
	return cmd
}

// spawn starts a serving process and waits until it serves.
func (in *site) spawn(point crashpoint.Point, skip string) *process {
	in.t.Helper()
	p := &process{site: in, cmd: in.command(point, skip, "serve")}
	log, err := p.cmd.StderrPipe()
	if err != nil {
		in.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		in.t.Fatal(err)
	}
	in.t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		_, _ = in.logs.Write(append(lines.Bytes(), '\n'))
		var line struct{ Msg, Public, Internal string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
			p.public, p.internal = line.Public, line.Internal
			go func() { _, _ = io.Copy(in.logs, log) }()
			return p
		}
	}
	in.t.Fatal("the server ended before it served")
	return nil
}

// died waits for the process and requires that it was killed, not that it failed.
func (in *site) died(cmd *exec.Cmd) {
	in.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		in.t.Fatal("the process did not die: the point is never reached")
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || status.Signal() != syscall.SIGKILL {
		in.t.Fatalf("the process ended with %v, want a kill", cmd.ProcessState)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *process) at(client *http.Client, address, token string) *caller {
	return &caller{t: p.t, base: func(path string) string { return "https://" + address + path }, http: client, token: token}
}

// people are the same user and worker, whichever process serves them.
func (p *process) people() (user, worker *caller) {
	user = p.at(p.client(p.tlsPublic(), false), p.public, p.token)
	worker = p.at(p.client(p.tlsWorker(p.pki.Worker("w-1")), false), p.internal, "")
	return user, worker
}

// timePasses makes everything look as old as it will be: dead uploads stale, files
// beyond the sweeper's ages.
func (in *site) timePasses() {
	in.t.Helper()
	if _, err := in.admin.Exec(in.t.Context(), "UPDATE app.uploads_in_flight SET heartbeat_at = heartbeat_at - interval '1 hour'"); err != nil {
		in.t.Fatal(err)
	}
	long := time.Now().Add(-48 * time.Hour)
	for _, pattern := range []string{"objects/*/*", "tmp/*"} {
		files, _ := filepath.Glob(filepath.Join(in.storage, pattern))
		for _, f := range files {
			if err := os.Chtimes(f, long, long); err != nil {
				in.t.Fatal(err)
			}
		}
	}
}

// sweepOnce runs one whole round of the sweeper.
func (in *site) sweepOnce() {
	in.t.Helper()
	if out, err := in.command("", "", "sweep", "--once").CombinedOutput(); err != nil {
		in.t.Fatalf("sweep: %v: %s", err, out)
	}
}

// deathInSubmission lets the client do what ours does after its server died: send
// the file again under the same key.
func deathInSubmission(t *testing.T, in *site) {
	evidence.Proves(t, "UPL-08", "API-04", "STO-03")
	points := []crashpoint.Point{
		crashpoint.SubmitBegun, crashpoint.SubmitStaged, crashpoint.StoreSynced, crashpoint.StoreRenamed,
		crashpoint.SubmitStored, crashpoint.SubmitBeforeCommit, crashpoint.SubmitCommitted,
	}
	for i, point := range points {
		key := header("Idempotency-Key", "key-"+strings.ReplaceAll(string(point), "/", "-"))
		dying := in.spawn(point, "0")
		user, _ := dying.people()
		body, kind := form("a.lua", []byte("return 1"))
		if answer, err := user.try("POST", "/api/v1/jobs", body, key, kind); err == nil {
			t.Fatalf("%s: the server answered %d", point, answer.StatusCode)
		}
		in.died(dying.cmd)
		if jobs, want := in.count("SELECT count(*) FROM app.jobs"), i+btoi(point == crashpoint.SubmitCommitted); jobs != want {
			t.Errorf("%s: there are %d jobs, want %d", point, jobs, want)
		}
		in.timePasses()
		living := in.spawn("", "")
		user, worker := living.people()
		again := user.upload("a.lua", []byte("return 1"), key)
		if want := map[bool]int{true: http.StatusOK, false: http.StatusCreated}[point == crashpoint.SubmitCommitted]; again.StatusCode != want {
			t.Errorf("%s: the same request again is %d, want %d: %s", point, again.StatusCode, want, again.body)
		}
		if jobs := in.count("SELECT count(*) FROM app.jobs"); jobs != i+1 {
			t.Errorf("%s: one request made %d jobs", point, jobs-i)
		}
		a := worker.claim()
		worker.finish(a, []byte("done")).want(http.StatusOK)
		if got := user.get("/api/v1/jobs/" + a.ID + "/result").want(http.StatusOK); !bytes.Equal(got.body, []byte("done")) {
			t.Errorf("%s: the result is %q", point, got.body)
		}
		living.kill()
		in.timePasses()
		in.sweepOnce()
		in.nothingStored(2 * (i + 1)) // an input and a result for each job, and nothing else
		if n := in.count("SELECT count(*) FROM app.uploads_in_flight"); n != 0 {
			t.Errorf("%s: %d uploads are still in flight", point, n)
		}
	}
}

// deathInResult lets the worker send the same result again, under the same token.
func deathInResult(t *testing.T, in *site) {
	evidence.Proves(t, "STO-02", "STO-03", "JOB-04", "JOB-05")
	for i, c := range []struct {
		point crashpoint.Point
		skip  string // storage's points are passed by the submission first
	}{
		{crashpoint.FinishChecked, "0"}, {crashpoint.FinishStaged, "0"}, {crashpoint.FinishVerified, "0"},
		{crashpoint.StoreSynced, "1"}, {crashpoint.StoreRenamed, "1"},
		{crashpoint.FinishStored, "0"}, {crashpoint.FinishBeforeCommit, "0"}, {crashpoint.FinishCommitted, "0"},
	} {
		dying := in.spawn(c.point, c.skip)
		user, worker := dying.people()
		j := user.submit([]byte("return 1"))
		a := worker.claim()
		if answer, err := worker.try("PUT", attemptPath(protocol.PathResult, a.ID), strings.NewReader("done"), fenced(a.FencingToken), header(protocol.HeaderReprDigest, digestOf([]byte("done")))); err == nil {
			t.Fatalf("%s: the server answered %d", c.point, answer.StatusCode)
		}
		in.died(dying.cmd)
		want := "processing"
		if c.point == crashpoint.FinishCommitted {
			want = "completed"
		}
		if n := in.count("SELECT count(*) FROM app.jobs WHERE id = $1 AND status = $2", j.ID, want); n != 1 {
			t.Errorf("%s: the job is not %s", c.point, want)
		}
		living := in.spawn("", "")
		user, worker = living.people()
		worker.finish(a, []byte("done")).want(http.StatusOK)
		worker.finish(a, []byte("other")).refused(http.StatusConflict, "conflict")
		if got := user.get("/api/v1/jobs/" + j.ID + "/result").want(http.StatusOK); !bytes.Equal(got.body, []byte("done")) {
			t.Errorf("%s: the result is %q", c.point, got.body)
		}
		if n := in.count("SELECT count(*) FROM app.job_events WHERE job_id = $1", j.ID); n != 3 {
			t.Errorf("%s: the history has %d events, want three", c.point, n)
		}
		living.kill()
		in.timePasses()
		in.sweepOnce()
		in.nothingStored(2 * (i + 1))
	}
}

// deathInSweep kills the sweeper between a mark and the removal, and with an
// orphan in its hands.
func deathInSweep(t *testing.T, in *site) {
	evidence.Proves(t, "STO-03", "STO-05")
	server := in.spawn("", "")
	user, worker := server.people()
	kept := completed(user, worker, []byte("return 1"), []byte("kept"))
	over := completed(user, worker, []byte("return 2"), []byte("over"))
	if _, err := in.admin.Exec(t.Context(), "UPDATE app.jobs SET terminal_at = now() - interval '8 days' WHERE id = $1", over.ID); err != nil {
		t.Fatal(err)
	}
	in.timePasses()
	for _, point := range []crashpoint.Point{crashpoint.SweepMarked, crashpoint.SweepHeld} {
		dying := in.command(point, "0", "sweep", "--once")
		if err := dying.Start(); err != nil {
			t.Fatal(err)
		}
		in.died(dying)
		in.nothingStored(4)
		user.get("/api/v1/jobs/"+over.ID+"/result").refused(http.StatusGone, "result_expired")
	}
	in.sweepOnce()
	in.nothingStored(2)
	if got := user.get("/api/v1/jobs/" + kept.ID + "/result").want(http.StatusOK); string(got.body) != "kept" {
		t.Errorf("the result that is not over is %q", got.body)
	}
	server.kill()
}

// TestEveryCrashPointIsTried: a point that no test names would be decoration.
func TestEveryCrashPointIsTried(t *testing.T) {
	source, err := os.ReadFile("crash_test.go")
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("../../internal/jobs/crashpoint/points.go")
	if err != nil {
		t.Fatal(err)
	}
	names := 0
	for line := range strings.Lines(string(table)) {
		if name, _, ok := strings.Cut(strings.TrimSpace(line), " Point = "); ok {
			names++
			if !bytes.Contains(source, []byte("crashpoint."+name)) {
				t.Errorf("no test kills the server at %s", name)
			}
		}
	}
	if names != len(crashpoint.All()) {
		t.Errorf("the table names %d points and lists %d", names, len(crashpoint.All()))
	}
}

func TestANormalBuildHasNoCrashPoints(t *testing.T) {
	out, err := exec.CommandContext(context.Background(), "go", "list", "-f", "{{.GoFiles}}", "../../internal/jobs/crashpoint").Output()
	if err != nil || strings.Contains(string(out), "on.go") || !strings.Contains(string(out), "off.go") {
		t.Errorf("without the tag the package is %s (%v)", out, err)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
