package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"glovebox/threat-model/evidence"
)

// processOf returns the name of the process of a worker: w1 is worker-0.
func processOf(worker string) string {
	return map[string]string{"w1": "worker-0", "w2": "worker-1"}[worker]
}

// running submits a file that makes the core sleep and waits until it does; it
// returns the job's id and the worker that has it.
func (w *edgeWorld) running(t *testing.T, sleep time.Duration, body string) (id, worker string) {
	t.Helper()
	id = w.people[0].caller(0).created("sleep", []byte(fmt.Sprintf("#!act sleep %d\n%s", sleep.Milliseconds(), body)))
	eventually(t, 20*time.Second, "the core runs", func() string {
		j := look(t, w.db, id)
		worker = j.worker
		if j.status != "processing" || len(coreProcesses(w.System)) == 0 {
			return fmt.Sprintf("%+v", j)
		}
		return ""
	})
	return id, worker
}

// ended waits with the client and compares the result with body.
func (w *edgeWorld) ended(t *testing.T, id, body string) {
	t.Helper()
	w.people[0].must("wait", id)
	if got := w.people[0].must("fetch", id, "-o", "-"); got != body {
		t.Errorf("%d bytes came back, want %d", len(got), len(body))
	}
}

func (w *edgeWorld) signal(t *testing.T, name string, sig syscall.Signal) {
	t.Helper()
	p, ok := w.Process(name)
	if !ok {
		t.Fatalf("%s does not run", name)
	}
	if err := p.Signal(sig); err != nil {
		t.Fatalf("signal %s: %v", name, err)
	}
}

// idle waits until a worker's own figures show no slot in use.
func (w *edgeWorld) idle(t *testing.T) {
	t.Helper()
	for i := range w.PIDs.Worker {
		eventually(t, 20*time.Second, fmt.Sprintf("worker %d has every slot free", i), func() string {
			if busy := figure(t, workerMetrics(w, i), "glovebox_worker_slots_busy"); busy != "0" {
				return busy + " slots are busy"
			}
			return ""
		})
	}
}

// workerMetrics is the address of worker i's figures: ten ports after the last.
func workerMetrics(w *edgeWorld, i int) string {
	address := w.Metrics["worker"].(string)
	var port int
	if _, err := fmt.Sscanf(address, "http://127.0.0.1:%d/metrics", &port); err != nil {
		return address
	}
	return fmt.Sprintf("http://127.0.0.1:%d/metrics", port+10*i)
}

// figure reads one figure of a metrics page.
func figure(t *testing.T, address, name string) string {
	t.Helper()
	resp, err := http.Get(address)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return value
		}
	}
	return "no figure " + name
}

// count counts the events that contain part.
func count(events []string, part string) (n int) {
	for _, e := range events {
		if strings.Contains(e, part) {
			n++
		}
	}
	return n
}

// A worker that sleeps through its lease and wakes up afterwards finds that it
// holds nothing, and takes its run down.
func stoppedWorkerTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"JOB-03", "JOB-06", "JOB-08", "SBX-12", "ARC-05"},
		Tried:        "SIGSTOP of the worker in mid-run until another has taken the job, then SIGCONT",
		Oracle:       "observer's view of the job and its events, stored files, process table, engine list, cgroups, the worker's figures",
	})
	const body = "done once"
	// Longer than the lease, so that the first run still goes on when the worker wakes.
	id, victim := w.running(t, 7500*time.Millisecond, body)
	w.signal(t, processOf(victim), syscall.SIGSTOP)
	stopped, _ := w.Process(processOf(victim))
	defer func() { _ = stopped.Signal(syscall.SIGCONT) }() // also when the test fails before
	eventually(t, 25*time.Second, "another worker has the job", func() string {
		if j := look(t, w.db, id); j.attempt == 2 && j.worker != victim && j.status == "processing" {
			return ""
		} else {
			return fmt.Sprintf("%+v", j)
		}
	})
	w.signal(t, processOf(victim), syscall.SIGCONT)
	w.ended(t, id, body)
	if j := look(t, w.db, id); j.status != "completed" || j.token != 2 || j.attempt != 2 {
		t.Errorf("the row says %+v", j)
	}
	events := history(t, w.db, id)
	if count(events, ">completed") != 1 || strings.HasSuffix(events[len(events)-1], victim) {
		t.Errorf("the events are %v", events)
	}
	if files := resultFiles(w.StorageRoot, id); len(files) != 1 {
		t.Errorf("stored results: %v", files)
	}
	w.idle(t)
	clean(t, w.System)
	w.servesAll(t)
}

// servesAll shows that every slot of every worker still takes work: as many runs
// at once as there are slots, by both workers.
func (w *edgeWorld) servesAll(t *testing.T) {
	t.Helper()
	const slots = 4
	c := w.people[0].caller(0)
	var ids []string
	for range slots {
		ids = append(ids, c.created("slot", []byte("#!act sleep 1500\nslot")))
	}
	// A worker that was refused for a while has its pauses behind it first.
	eventually(t, 45*time.Second, "all slots work at once", func() string {
		var by []string
		for _, id := range ids {
			if j := look(t, w.db, id); j.status == "processing" {
				by = append(by, j.worker)
			}
		}
		if len(by) == slots && slices.Contains(by, "w1") && slices.Contains(by, "w2") {
			return ""
		}
		for _, id := range ids { // too late to see them together: another round
			if j := look(t, w.db, id); j.status == "completed" {
				ids = slices.DeleteFunc(ids, func(x string) bool { return x == id })
				ids = append(ids, c.created("slot", []byte("#!act sleep 1500\nslot")))
			}
		}
		return fmt.Sprintf("working: %v", by)
	})
	for _, id := range ids {
		w.ended(t, id, "slot")
	}
}

// A worker that is told to end in mid-run gives the job back: pending at once, the
// attempt not counted, and another worker finishes it.
func handBackTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"REL-05", "JOB-06", "SBX-12"},
		Tried:        "SIGTERM of the worker in mid-run, with a grace shorter than the run",
		Oracle:       "observer's events, exit of the process, process table, engine list",
	})
	const body = "handed on"
	id, victim := w.running(t, 5*time.Second, body)
	if err := w.Stop(processOf(victim), 20*time.Second); err != nil {
		t.Errorf("the worker did not end by itself: %v", err)
	}
	// At once: before the lease would have ended.
	events := history(t, w.db, id)
	if count(events, "processing>pending handed_back") != 1 {
		t.Errorf("after the worker's end the events are %v", events)
	}
	w.ended(t, id, body)
	j, events := look(t, w.db, id), history(t, w.db, id)
	if j.attempt != 1 || j.token != 2 || count(events, "lease") != 0 || strings.HasSuffix(events[len(events)-1], victim) {
		t.Errorf("the row says %+v, the events %v", j, events)
	}
	if err := w.Restart(context.Background(), processOf(victim)); err != nil {
		t.Fatal(err)
	}
	clean(t, w.System)
}

// A server that is told to end finishes what it has begun, takes nothing new, and
// costs no job anything.
func serverEndsTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"REL-05", "ARC-05", "JOB-06"},
		Tried:        "SIGTERM of a server with an upload, a worker's run and a long poll in flight",
		Oracle:       "the answers, exit of the process, observer's view",
	})
	const body = "through the restart"
	c := w.people[0].caller(0)
	job, _ := w.running(t, 2*time.Second, body)
	begun := w.watchBodies()
	upload := c.beginUpload("first half,", len("first half, second half"))
	eventually(t, 10*time.Second, "the upload is on its way", func() string {
		if !begun() {
			return "no temporary file: " + upload.state()
		}
		return ""
	})
	polls := make(chan answer, 1)
	poll := asWorker(t, w.System, "spare-1", w.Servers[0].InternalURL)
	// Nothing is pending, so the poll waits.
	go func() {
		a, err := poll.try("POST", "/internal/v1/jobs/claim?wait=30s", strings.NewReader(`{"slots_free":1,"slots_total":1}`),
			"Content-Type", "application/json", "Glovebox-Request-Id", "6f1c1d0a-0f3c-4c3e-9a51-0d1f5f0a7c11")
		if err != nil {
			a.body = []byte(err.Error())
		}
		polls <- a
	}()
	eventually(t, 10*time.Second, "the long poll has come", func() string {
		out, err := w.adminCommand("worker", "list")
		if err != nil || !seenNow(out, "spare-1") {
			return out
		}
		return ""
	})
	w.signal(t, "server-0", syscall.SIGTERM)
	if a := <-polls; a.status != http.StatusNoContent {
		t.Errorf("the long poll was answered with %d %s", a.status, a.body)
	}
	eventually(t, 5*time.Second, "no new request is taken", func() string {
		fresh := w.people[0].caller(0)
		if _, err := fresh.try("GET", "/health", nil); err == nil {
			return "it answers"
		}
		return ""
	})
	a, err := upload.finish(" second half")
	if err != nil || a.status != http.StatusCreated {
		t.Errorf("the upload: %d %s (%v)", a.status, a.body, err)
	}
	ended, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := w.Await(ended, "server-0"); err != nil {
		t.Error(err)
	}
	if err := w.Restart(context.Background(), "server-0"); err != nil {
		t.Fatal(err)
	}
	w.ended(t, a.id(), "first half, second half")
	w.ended(t, job, body)
	clean(t, w.System)
}
