package histories

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"glovebox/chaos/history"
	"glovebox/threat-model/evidence"
)

// The environment of this test. LiftEnv is for planted faults alone: see newWorld.
const (
	HistoriesEnv = "GLOVEBOX_HISTORIES"
	SeedEnv      = "GLOVEBOX_SEED"
	LiftEnv      = "GLOVEBOX_LIFT"
)

const (
	inCI      = 200 // histories
	batchJobs = 40  // of a batch
	callers   = 8
	steps     = 110 // of a caller in a batch
	// judged bounds the judging of one history; longer is Unknown, which is no pass.
	judged = 30 * time.Second
	// lost and late are how many of 10,000 messages to the database are cut off and
	// held up.
	lost = 100
	late = 400
)

// count adds up what a run saw.
type count struct {
	histories, operations, maybe, refused int
	status                                map[string]int
	transitions                           map[string]int
}

func TestParallelHistoriesOnTheRealDatabaseHaveAnOrder(t *testing.T) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"HAR-05", "JOB-02", "JOB-03", "JOB-04", "JOB-05", "JOB-06", "JOB-07", "JOB-13", "STO-03", "STO-05", "API-04", "ARC-04", "ARC-05"},
		Threats:      []string{"INT-T1", "INT-R1", "PUB-T3", "PUB-I1", "STO-T3"},
		Tried:        "every operation on shared jobs in parallel over two servers, with right and wrong fences, answers lost, sweeper and retention running",
		Oracle:       "invariants and porcupine over the answers, the rows and the files, read behind the servers' back",
	})
	want := number(t, HistoriesEnv, inCI)
	seed := number(t, SeedEnv, int(time.Now().UnixNano()%1_000_000_000))
	t.Logf("seed %d", seed)
	var lift []string
	if names := os.Getenv(LiftEnv); names != "" {
		lift = strings.Split(names, ",")
	}
	w := newWorld(t, uint64(seed), lift)
	sum := count{status: map[string]int{}, transitions: map[string]int{}}
	began := time.Now()
	for n := 0; sum.histories < want; n++ {
		record, found := w.batch(t, uint64(seed), uint64(n))
		sum.add(record)
		found = append(found, history.Check(record, judged)...)
		if extra, missing := w.leftovers(t); len(extra)+len(missing) != 0 {
			found = append(found, history.Violation{Rule: "storage-agrees-with-rows", Text: fmt.Sprintf("files without a row %q, rows without a file %q", extra, missing)})
		}
		if len(found) != 0 {
			for _, v := range found[:min(len(found), 5)] {
				t.Errorf("batch %d: %s, job %s: %s", n, v.Rule, v.Job, v.Text)
			}
			t.Fatalf("%d violations after %d histories; seed %d", len(found), sum.histories, seed)
		}
		w.clear(t)
		if n%25 == 24 {
			t.Logf("%d histories so far", sum.histories)
		}
	}
	t.Logf("%d histories, %d operations (%d refused, %d without an answer), %d connections cut, 0 violations, in %s; transitions %v; ends %v",
		sum.histories, sum.operations, sum.refused, sum.maybe, w.wire.cuts.Load(), time.Since(began).Round(time.Second), sum.transitions, sum.status)
	// A run in which something never happened would have shown nothing of it.
	for cause := range map[string]bool{history.Claimed: true, history.Finished: true, history.Retried: true, history.HandedBack: true,
		history.LeaseLost: true, history.Exhausted: true, history.FailedFor: true} {
		if sum.transitions[cause] == 0 {
			t.Errorf("no job was ever %s", cause)
		}
	}
	if sum.maybe == 0 || sum.refused == 0 || sum.status["purged"] == 0 {
		t.Errorf("%d answers were lost, %d were refusals, %d results purged: want some of each", sum.maybe, sum.refused, sum.status["purged"])
	}
}

// batch runs some jobs from nothing to wherever they come, and returns the record,
// and each error that a server could not account for.
func (w *world) batch(t *testing.T, seed, n uint64) (record history.Record, found []history.Violation) {
	t.Helper()
	b := &batch{world: w, began: time.Now(), keys: batchJobs, retains: n%2 == 1}
	w.wire.cut.Store(lost)
	w.wire.slow.Store(late)
	var all sync.WaitGroup
	for i := range callers {
		c := &caller{batch: b, name: fmt.Sprintf("c-%d", i), random: rand.New(rand.NewPCG(seed, n<<8|uint64(i)))}
		all.Go(func() { c.run(t.Context(), steps) })
	}
	all.Wait()
	w.wire.cut.Store(0)
	w.wire.slow.Store(0)
	w.quiet(t)
	for _, fault := range b.internal {
		found = append(found, history.Violation{Rule: "no-internal-error", Text: fault})
	}
	return history.Record{
		Rules:  history.Rules{LeasesEndByHand: true, WorkersRecorded: true},
		Events: b.events, Snapshot: w.snapshot(t),
	}, found
}

func (c *count) add(r history.Record) {
	c.histories += len(r.Snapshot.Jobs)
	c.operations += len(r.Events)
	for _, e := range r.Events {
		switch e.Outcome {
		case history.Maybe:
			c.maybe++
		case history.Refused:
			c.refused++
		}
	}
	for _, j := range r.Snapshot.Jobs {
		c.status[j.Status]++
		if j.Purged {
			c.status["purged"]++
		}
	}
	for _, tr := range r.Snapshot.Transitions {
		c.transitions[tr.Cause]++
	}
}

// number is the environment's, or what is used without it.
func number(t *testing.T, name string, without int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return without
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("%s is %q; it must be a whole number", name, text)
	}
	return n
}
