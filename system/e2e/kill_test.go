package e2e_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"glovebox/ci/local"
	"glovebox/threat-model/evidence"
)

// How many rounds of killing, and with which seed. The full number is 50.
const (
	roundsEnv     = "GLOVEBOX_E2E_ROUNDS"
	seedEnv       = "GLOVEBOX_E2E_SEED"
	roundsDefault = 6
)

func numberFrom(t *testing.T, env string, without uint64) uint64 {
	t.Helper()
	text := os.Getenv(env)
	if text == "" {
		return without
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q is no number", env, text)
	}
	return n
}

// crashServer builds the server that can be told to die at a named point.
func crashServer(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "glovebox-server")
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "crashpoints", "-o", path, "./system/server/cmd/server")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the server with crash points: %v\n%s", err, out)
	}
	return path
}

// TestKilledProcesses kills and restarts, at random and at named points, under one
// system.
func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	s := start(t, "kills", 22800, local.Options{
		Servers: 2, Workers: 2, Image: image(t, compile(t, "cores/acts.c")),
		Programs: map[string]string{"glovebox-server": crashServer(t)},
		Set: []string{
			"lease.duration=4s lease.heartbeat=1s worker.grace=1s jobs.max_attempts=10 jobs.claim_poll=500ms",
			"sweeper.interval=1s sweeper.orphan_age=5s sweeper.staged_age=10s http.stall_timeout=8s",
		},
	})
	w := &edgeWorld{System: s, db: observer(t, s), people: []person{login(t, s, 0), login(t, s, 1)}}
	for _, part := range []struct {
		name string
		run  func(*testing.T, *edgeWorld)
	}{
		{"at random", randomKillsTest},
		{"at each named point of a server", crashPointsTest},
	} {
		t.Run(part.name, func(t *testing.T) {
			for i := range w.people {
				w.people[i].t = t
			}
			part.run(t, w)
		})
	}
}

// acknowledged are the jobs whose ids clients were given, with what they sent.
type acknowledged struct {
	mu   sync.Mutex
	sums map[string][32]byte
	by   map[string]person
}

// randomKillsTest kills a random process again and again while two people submit.
func randomKillsTest(t *testing.T, w *edgeWorld) {
	rounds, seed := numberFrom(t, roundsEnv, roundsDefault), numberFrom(t, seedEnv, rand.Uint64())
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"JOB-05", "JOB-06", "STO-03", "SBX-12", "UPL-08", "HAR-06", "ARC-05"},
		Tried:        fmt.Sprintf("%d rounds of SIGKILL of a random server, worker, launcher or sweeper under load; seed %d", rounds, seed),
		Oracle:       "observer's view of every job, SHA-256 of every result through the client, files in the storage against rows, engine list, cgroups, mounts, process table",
	})
	t.Logf("%s=%d %s=%d", roundsEnv, rounds, seedEnv, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	known := &acknowledged{sums: map[string][32]byte{}, by: map[string]person{}}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var users sync.WaitGroup
	for i, p := range w.people {
		p.url = w.Servers[i].PublicURL
		dir := t.TempDir()
		users.Go(func() { known.submitAll(ctx, t, p, dir, uint64(i)+seed) })
	}
	victims := []string{"server-0", "server-1", "worker-0", "worker-1", "launcher-0", "launcher-1", "sweeper"}
	random.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
	for round := range int(rounds) {
		victim := victims[round%len(victims)] // each kind in turn, in random order and at a random time
		// The pauses are the fault's own: when it comes and how long it lasts.
		time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
		if err := w.Kill(victim); err != nil {
			t.Fatalf("round %d: kill %s: %v", round, victim, err)
		}
		time.Sleep(time.Duration(random.IntN(800)) * time.Millisecond)
		if err := w.Restart(ctx, victim); err != nil {
			t.Fatalf("round %d: start %s again: %v", round, victim, err)
		}
	}
	stop()
	users.Wait()
	w.settled(t)
	known.check(t, w)
	t.Logf("%d jobs were acknowledged, %d exist", len(known.sums), jobCount(t, w))
}

// submitAll sends small files with the real client until ctx ends.
func (a *acknowledged) submitAll(ctx context.Context, t *testing.T, p person, dir string, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	const ahead = 24 // jobs that may be open, so that the end of the rounds is near the end of the work
	var ids []string
	c := p.caller(0)
	c.base = p.url
	for n := 0; ctx.Err() == nil; n++ {
		body := []byte(fmt.Sprintf("%s %d ", p.user.Login, n) + strings.Repeat("x", random.IntN(50_000)))
		path := filepath.Join(dir, strconv.Itoa(n))
		if err := os.WriteFile(path, append([]byte(fmt.Sprintf("#!act sleep %d\n", random.IntN(400))), body...), 0o600); err != nil {
			t.Error(err)
			return
		}
		id, err := p.trySubmit(path)
		if err != nil {
			t.Errorf("submit %d of %s: %v", n, p.user.Login, err)
			return
		}
		a.mu.Lock()
		a.sums[id], a.by[id] = sha256.Sum256(body), p
		a.mu.Unlock()
		if ids = append(ids, id); len(ids) > ahead {
			c.waitFor(ctx, ids[len(ids)-1-ahead])
		}
	}
}

// settled waits until nothing is pending or processing.
func (w *edgeWorld) settled(t *testing.T) {
	t.Helper()
	eventually(t, 120*time.Second, "every job has ended", func() string {
		var open int
		if err := w.db.QueryRow(context.Background(), `SELECT count(*) FROM observe.jobs WHERE status IN ('pending', 'processing')`).Scan(&open); err != nil {
			t.Fatal(err)
		}
		if open > 0 {
			return fmt.Sprintf("%d jobs are open", open)
		}
		return ""
	})
}

// check holds every acknowledged job to its end, and the storage to the rows.
func (a *acknowledged) check(t *testing.T, w *edgeWorld) {
	t.Helper()
	for id, want := range a.sums {
		j := look(t, w.db, id)
		switch {
		case j.status == "completed":
			if got, _, err := a.by[id].caller(0).download(id); err != nil || got != want {
				t.Errorf("the result of %s is another (%v): %v", id, err, history(t, w.db, id))
			}
			if n := count(history(t, w.db, id), ">completed"); n != 1 {
				t.Errorf("%s was completed %d times: %v", id, n, history(t, w.db, id))
			}
		case j.status == "failed" && (j.code == "attempts_exhausted" || j.code == "sandbox_failure"):
			t.Logf("%s failed: %+v %v", id, j, history(t, w.db, id))
		default:
			t.Errorf("%s ended as %+v: %v", id, j, history(t, w.db, id))
		}
	}
	w.nothingBeside(t)
	clean(t, w.System)
}

// nothingBeside waits until the storage holds an input for each job and a result
// for each completed one, and nothing else.
func (w *edgeWorld) nothingBeside(t *testing.T) {
	t.Helper()
	eventually(t, 40*time.Second, "files and rows agree", func() string {
		var jobs, completed int
		if err := w.db.QueryRow(context.Background(), `SELECT count(*), count(*) FILTER (WHERE status = 'completed') FROM observe.jobs`).Scan(&jobs, &completed); err != nil {
			t.Fatal(err)
		}
		inputs, _ := filepath.Glob(filepath.Join(w.StorageRoot, "objects", "*", "input~*"))
		results, _ := filepath.Glob(filepath.Join(w.StorageRoot, "objects", "*", "result~*"))
		if left := temporaryFiles(w.StorageRoot); len(inputs) != jobs || len(results) != completed || len(left) > 0 {
			return fmt.Sprintf("%d jobs and %d inputs, %d completed and %d results, temporary: %v", jobs, len(inputs), completed, len(results), left)
		}
		return ""
	})
}
