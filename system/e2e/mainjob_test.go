package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"glovebox/ci/bytecode"
	"glovebox/ci/local"
	"glovebox/threat-model/evidence"
)

// The main job: upload, claim, sandbox, result, completed, download, by two users
// at once, and what goes wrong with a file that is not Lua.
func TestMainJob(t *testing.T) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"ARC-01", "ARC-05", "ARC-07", "ARC-10", "API-01", "API-02", "JOB-10", "STO-04", "COR-05", "HAR-08"},
		Tried:        "two users process the samples at once through two workers",
		Oracle:       "bytecode of the downloaded files, observer's view, operator's job show, engine list, mounts, disk",
	})
	s := start(t, "main", 21000, local.Options{Servers: 2, Workers: 2, Set: []string{fmt.Sprintf("limits.max_input_bytes=%d", mainInputBytes)}})
	db := observer(t, s)
	samples, err := filepath.Glob(filepath.Join(root, "samples", "*.lua"))
	if err != nil || len(samples) == 0 {
		t.Fatalf("no samples: %v", err)
	}

	t.Run("two users at once", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range s.Users {
			p := login(t, s, i)
			out := t.TempDir()
			wg.Go(func() {
				_, errs, status := p.run(append([]string{"process", "--output-dir", out}, samples...)...)
				if status != 0 {
					t.Errorf("%s: status %d: %s", p.user.Login, status, errs)
					return
				}
				for _, sample := range samples {
					base := strings.TrimSuffix(filepath.Base(sample), ".lua") + ".out.lua"
					same, err := bytecode.Same(context.Background(), sample, filepath.Join(out, base))
					if err != nil || !same {
						t.Errorf("%s: same program %v, %v", base, same, err)
					}
				}
			})
		}
		wg.Wait()
		clean(t, s)
	})

	t.Run("a file that is not Lua", func(t *testing.T) {
		evidence.Proves(t, "COR-03", "JOB-09", "JOB-11")
		p := login(t, s, 0)
		path := filepath.Join(t.TempDir(), "broken.lua")
		if err := os.WriteFile(path, []byte("local x = 1\nlocal y = = 2\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		id := p.submit(path)
		_, errs, status := p.run("wait", id)
		if status != 4 {
			t.Errorf("status %d, want 4", status)
		}
		if !regexp.MustCompile(`line 2, column \d+`).MatchString(errs) {
			t.Errorf("the message does not say where: %s", errs)
		}
		j := look(t, db, id)
		if j.status != "failed" || j.code != "invalid_input" || j.retryable || j.attempt != 1 {
			t.Errorf("the row says %+v", j)
		}
		clean(t, s)
	})

	t.Run("inputs that are none", func(t *testing.T) { oddInputsTest(t, s, db) })

	t.Run("another user's job", func(t *testing.T) {
		evidence.Proves(t, "JOB-07")
		alice, bob := login(t, s, 0), login(t, s, 1)
		id := alice.submit(samples[0])
		alice.must("wait", id)
		target := filepath.Join(t.TempDir(), "stolen")
		if _, _, status := bob.run("fetch", id, "-o", target); status == 0 {
			t.Error("another user fetched the result")
		}
		if _, err := os.Stat(target); err == nil {
			t.Error("another user got a file")
		}
		alice.must("fetch", id, "-o", filepath.Join(t.TempDir(), "own")) // control
	})

	t.Run("what ran is on record", func(t *testing.T) {
		evidence.Proves(t, "COR-05")
		content, err := os.ReadFile(filepath.Join(root, "out/images/core.json"))
		if err != nil {
			t.Fatalf("the core's image is not built; run make image: %v", err)
		}
		var built struct {
			Digest string `json:"digest"`
			ID     string `json:"image_id"`
		}
		if err := json.Unmarshal(content, &built); err != nil || built.Digest == "" || built.ID == "" {
			t.Fatalf("the image builder left %s (%v)", content, err)
		}
		p := login(t, s, 0)
		id := p.submit(samples[0])
		p.must("wait", id)
		want := regexp.MustCompile("^image=" + built.Digest + "; image_id=" + built.ID + `; duration_ms=\d+$`)
		finished := 0
		for _, e := range jobShow(t, s, id) {
			switch {
			case e.Cause == "finished" && want.MatchString(e.Provenance):
				finished++
			case e.Provenance != "" || e.Cause == "finished":
				t.Errorf("the event %s says %q of its run, want %s", e.Cause, e.Provenance, want)
			}
		}
		if finished != 1 {
			t.Errorf("%d finished events name the image", finished)
		}
	})
}

// shownEvent is what the operator is shown of one transition.
type shownEvent struct {
	Cause      string `json:"cause"`
	Provenance string `json:"provenance"`
}

// jobShow asks for a job's history as an operator does.
func jobShow(t *testing.T, s *local.System, id string) []shownEvent {
	t.Helper()
	out, err := exec.Command(filepath.Join(s.BinDir, "glovebox-server"), "job", "show", id, "--json", "--config", s.AdminConfig).Output()
	var shown struct {
		Events []shownEvent `json:"events"`
	}
	if err == nil {
		err = json.Unmarshal(out, &shown)
	}
	if err != nil {
		t.Fatalf("glovebox-server job show: %v\n%s", err, out)
	}
	return shown.Events
}

// A worker killed in mid-run: the lease runs out, the job is taken again by
// another worker or by the same one, and there is exactly one result.
func TestWorkerKilledInMidRun(t *testing.T) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"JOB-06", "JOB-10", "SBX-12", "ARC-05"},
		Tried:        "SIGKILL of the worker while the core runs, lease 3 s",
		Oracle:       "observer's view of job and events, stored files, engine list, process table, mounts",
	})
	slow := image(t, compile(t, "cores/slow.c"))
	short := []string{"lease.duration=3s lease.heartbeat=1s"}

	tests := []struct {
		name      string
		workers   int
		portBase  int
		recoverBy string
	}{
		{"recovered by a second worker", 2, 21400, "other"},
		{"recovered by the same worker", 1, 21600, "same"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, "kill-"+tc.recoverBy, tc.portBase, local.Options{Workers: tc.workers, Image: slow, Set: short})
			db := observer(t, s)
			p := login(t, s, 0)
			id := p.submit(filepath.Join(root, "samples", "life.lua"))

			var victim string
			eventually(t, 20*time.Second, "the core runs", func() string {
				j := look(t, db, id)
				if j.status != "processing" || len(coreProcesses(s)) == 0 {
					return "status " + j.status
				}
				victim = j.worker
				return ""
			})
			index := strings.TrimPrefix(victim, "w")
			name := map[string]string{"1": "worker-0", "2": "worker-1"}[index]
			if err := s.Kill(name); err != nil {
				t.Fatal(err)
			}
			// SBX-12: the launcher notices the dead worker at once, not after the lease.
			eventually(t, 2500*time.Millisecond, "the orphaned run is gone", func() string {
				if j := look(t, db, id); j.attempt > 1 {
					return ""
				}
				if pids := coreProcesses(s); len(pids) > 0 {
					return "core still runs: " + strings.Join(pids, " ")
				}
				return ""
			})
			if tc.recoverBy == "same" {
				if err := s.Restart(context.Background(), name); err != nil {
					t.Fatal(err)
				}
			}
			p.must("wait", id)
			out := filepath.Join(t.TempDir(), "life.lua")
			p.must("fetch", id, "-o", out)

			j := look(t, db, id)
			if j.status != "completed" || j.attempt != 2 || j.token != 2 {
				t.Errorf("the row says %+v", j)
			}
			events := history(t, db, id)
			last := events[len(events)-1]
			if tc.recoverBy == "other" && strings.HasSuffix(last, victim) {
				t.Errorf("the dead worker finished: %v", events)
			}
			completed := 0
			for _, e := range events {
				if strings.Contains(e, ">completed") {
					completed++
				}
			}
			if completed != 1 {
				t.Errorf("%d completions: %v", completed, events)
			}
			if files := resultFiles(s.StorageRoot, id); len(files) != 1 {
				t.Errorf("stored results: %v", files)
			}
			clean(t, s)
			t.Logf("history: %s", strings.Join(events, " | "))
		})
	}
}
