package history_test

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"glovebox/chaos/history"
	"glovebox/threat-model/evidence"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }

// healthy is a record of two jobs. One is lost once by its first worker, handed
// back by the second, completed by the third, downloaded and purged; of the other
// one heartbeat has no answer, and it is still being worked on.
func healthy() history.Record {
	lease := at(3_600_000)
	e := func(ms int, e history.Event) history.Event {
		e.Call, e.Return = int64(ms)*1e6, int64(ms)*1e6+5e5
		if e.Outcome == "" {
			e.Outcome = history.OK
		}
		if e.Outcome == history.Maybe {
			e.Return = 0
		}
		return e
	}
	return history.Record{
		Rules: history.Rules{LeasesEndByHand: true, WorkersRecorded: true, LeaseGrace: time.Second},
		Events: []history.Event{
			e(0, history.Event{Op: history.Submit, User: "anna", Key: "k1", Outcome: history.Maybe}),
			e(10, history.Event{Op: history.Submit, User: "anna", Key: "k1", Job: "a", Status: "pending"}),
			e(12, history.Event{Op: history.Submit, User: "boris", Key: "k1", Job: "b", Status: "pending"}),
			e(20, history.Event{Op: history.Claim, Worker: "w-1", Request: "r1", Job: "a", Token: 1, Attempt: 1}),
			e(22, history.Event{Op: history.Claim, Worker: "w-2", Request: "r2", Outcome: history.Maybe}),
			e(24, history.Event{Op: history.Heartbeat, Worker: "w-2", Job: "b", Token: 1, Outcome: history.Maybe}),
			e(26, history.Event{Op: history.Heartbeat, Worker: "w-1", Job: "a", Token: 1}),
			e(30, history.Event{Op: history.LeaseOver, Job: "a", Token: 1}),
			e(34, history.Event{Op: history.Heartbeat, Worker: "w-1", Job: "a", Token: 1, Outcome: history.Refused, Refusal: "lease_lost"}),
			e(40, history.Event{Op: history.Claim, Worker: "w-2", Request: "r3", Job: "a", Token: 2, Attempt: 2}),
			e(44, history.Event{Op: history.Fail, Worker: "w-2", Job: "a", Token: 2, Code: "worker_shutdown", Status: "pending"}),
			e(46, history.Event{Op: history.Fail, Worker: "w-2", Job: "a", Token: 2, Code: "worker_shutdown", Status: "pending"}),
			e(48, history.Event{Op: history.Claim, Worker: "w-1", Request: "r4", Job: "a", Token: 3, Attempt: 2}),
			e(50, history.Event{Op: history.Download, User: "anna", Job: "a", Outcome: history.Refused, Refusal: "job_not_completed"}),
			e(52, history.Event{Op: history.Finish, Worker: "w-1", Job: "a", Token: 3, Digest: "d1", Outcome: history.Maybe}),
			e(54, history.Event{Op: history.Finish, Worker: "w-1", Job: "a", Token: 3, Digest: "d1", Status: "completed"}),
			e(56, history.Event{Op: history.Status, User: "anna", Job: "a", Status: "completed"}),
			e(58, history.Event{Op: history.Download, User: "anna", Job: "a", Digest: "d1", Want: "d1"}),
			e(60, history.Event{Op: history.Download, User: "boris", Job: "a", Outcome: history.Refused, Refusal: "not_found"}),
			e(62, history.Event{Op: history.Status, User: "anna", Job: "a", Status: "completed"}),
		},
		Snapshot: history.Snapshot{
			Now: at(1000),
			Jobs: []history.Job{
				{ID: "a", Status: "completed", Attempt: 2, MaxAttempts: 3, FencingToken: 3, UserID: "anna", ResultDigest: "d1", Stored: "d1"},
				{ID: "b", Status: "processing", WorkerID: "w-2", LeaseExpiresAt: &lease, Attempt: 1, MaxAttempts: 3, FencingToken: 1, UserID: "boris"},
			},
			Transitions: []history.Transition{
				{JobID: "a", To: "pending", Cause: "submitted", At: at(5)},
				{JobID: "b", To: "pending", Cause: "submitted", At: at(12)},
				{JobID: "a", From: "pending", To: "processing", Cause: "claimed", Attempt: 1, FencingToken: 1, WorkerID: "w-1", At: at(20), Request: "r1"},
				{JobID: "b", From: "pending", To: "processing", Cause: "claimed", Attempt: 1, FencingToken: 1, WorkerID: "w-2", At: at(23), Request: "r2"},
				{JobID: "a", From: "processing", To: "pending", Cause: "lease_lost", Attempt: 1, FencingToken: 1, WorkerID: "w-1", At: at(36)},
				{JobID: "a", From: "pending", To: "processing", Cause: "claimed", Attempt: 2, FencingToken: 2, WorkerID: "w-2", At: at(40), Request: "r3"},
				{JobID: "a", From: "processing", To: "pending", Cause: "handed_back", Attempt: 2, FencingToken: 2, WorkerID: "w-2", At: at(44)},
				{JobID: "a", From: "pending", To: "processing", Cause: "claimed", Attempt: 2, FencingToken: 3, WorkerID: "w-1", At: at(48), Request: "r4"},
				{JobID: "a", From: "processing", To: "completed", Cause: "finished", Attempt: 2, FencingToken: 3, WorkerID: "w-1", At: at(52)},
			},
		},
	}
}

const judged = 10 * time.Second

// broken lists, for each rule, ways to break it.
var broken = []struct {
	rule, how string
	plant     func(*history.Record)
}{
	{"one-owner", "the job is shown to another user", func(r *history.Record) { r.Events[16].User = "boris" }},
	{"one-owner", "the row has another user", func(r *history.Record) { r.Snapshot.Jobs[0].UserID = "boris" }},
	{"completed-is-readable", "the download has other bytes", func(r *history.Record) { r.Events[17].Digest = "d2" }},
	{"completed-is-readable", "the download is not what was wanted", func(r *history.Record) { r.Events[17].Want = "d2" }},
	{"completed-is-readable", "the download fails", func(r *history.Record) {
		r.Events[17].Outcome, r.Events[17].Refusal, r.Events[17].Digest = history.Refused, "internal", ""
	}},
	{"completed-is-readable", "the file has gone", func(r *history.Record) { r.Snapshot.Jobs[0].Stored = history.NotStored }},
	{"completed-is-readable", "the file was changed", func(r *history.Record) { r.Snapshot.Jobs[0].Stored = "d2" }},
	{"processing-is-leased", "no lease", func(r *history.Record) { r.Snapshot.Jobs[1].LeaseExpiresAt = nil }},
	{"processing-is-leased", "a lease on a completed job", func(r *history.Record) {
		r.Snapshot.Jobs[0].WorkerID, r.Snapshot.Jobs[0].LeaseExpiresAt = "w-1", r.Snapshot.Jobs[1].LeaseExpiresAt
	}},
	{"processing-is-leased", "the lease is over for long", func(r *history.Record) {
		over := r.Snapshot.Now.Add(-2 * time.Second)
		r.Snapshot.Jobs[1].LeaseExpiresAt = &over
	}},
	{"no-foreign-or-early-download", "a stranger gets the result", func(r *history.Record) { r.Events[17].User = "boris" }},
	{"no-foreign-or-early-download", "the result is there before it was handed in", func(r *history.Record) {
		r.Events[13].Outcome, r.Events[13].Refusal, r.Events[13].Digest = history.OK, "", "d1"
	}},
	{"arrows", "from pending to completed", func(r *history.Record) { r.Snapshot.Transitions[8].From = "pending" }},
	{"arrows", "a transition is missing", func(r *history.Record) {
		r.Snapshot.Transitions = slices.Delete(r.Snapshot.Transitions, 6, 7)
	}},
	{"terminal-is-final", "a completed job is taken back", func(r *history.Record) {
		r.Snapshot.Transitions = append(r.Snapshot.Transitions, history.Transition{JobID: "a", From: "completed", To: "pending", Cause: "lease_lost", Attempt: 2, FencingToken: 3, WorkerID: "w-1", At: at(70)})
	}},
	{"terminal-is-final", "completed, and later processing", func(r *history.Record) { r.Events[19].Status = "processing" }},
	{"tokens-rise-by-one", "a token is used again", func(r *history.Record) { r.Snapshot.Transitions[5].FencingToken = 1 }},
	{"tokens-rise-by-one", "the row is behind", func(r *history.Record) { r.Snapshot.Jobs[0].FencingToken = 2 }},
	{"attempts-count-claims", "a claim does not count", func(r *history.Record) { r.Snapshot.Transitions[5].Attempt = 1 }},
	{"attempts-count-claims", "more than allowed", func(r *history.Record) { r.Snapshot.Jobs[0].MaxAttempts = 1 }},
	{"one-end-for-a-claim", "an attempt ends twice", func(r *history.Record) {
		r.Snapshot.Transitions = append(r.Snapshot.Transitions, history.Transition{JobID: "a", From: "processing", To: "pending", Cause: "lease_lost", Attempt: 2, FencingToken: 3, WorkerID: "w-1", At: at(70)})
	}},
	{"one-end-for-a-claim", "somebody else's attempt is ended", func(r *history.Record) { r.Snapshot.Transitions[8].WorkerID = "w-2" }},
	{"row-agrees-with-transitions", "the row says otherwise", func(r *history.Record) { r.Snapshot.Jobs[0].Status = "failed" }},
	{"row-agrees-with-transitions", "a job without a history", func(r *history.Record) {
		r.Snapshot.Jobs = append(r.Snapshot.Jobs, history.Job{ID: "c", Status: "pending", MaxAttempts: 3})
	}},
	{"row-agrees-with-transitions", "a history without a job", func(r *history.Record) { r.Snapshot.Jobs = r.Snapshot.Jobs[:1] }},
	{"acknowledged-is-kept", "a submitted job has gone", func(r *history.Record) {
		r.Snapshot.Jobs = r.Snapshot.Jobs[1:]
		r.Snapshot.Transitions = slices.DeleteFunc(r.Snapshot.Transitions, func(t history.Transition) bool { return t.JobID == "a" })
	}},
	{"acknowledged-is-kept", "an accepted result is not recorded", func(r *history.Record) { r.Snapshot.Transitions = r.Snapshot.Transitions[:8] }},
	{"acknowledged-is-kept", "a claim is not recorded", func(r *history.Record) { r.Events[9].Token = 7 }},
	{"acknowledged-is-kept", "a failure was answered with another status", func(r *history.Record) { r.Events[10].Status = "failed" }},
	{"one-job-for-a-key", "the key led to two jobs", func(r *history.Record) { r.Events[2].User = "anna" }},
	{"one-job-for-a-key", "more jobs than submissions", func(r *history.Record) {
		r.Snapshot.Jobs = append(r.Snapshot.Jobs, history.Job{ID: "c", Status: "pending", MaxAttempts: 3})
	}},
	{"one-result", "two results are accepted", func(r *history.Record) {
		other := r.Events[15]
		other.Digest = "d2"
		r.Events = append(r.Events, other)
	}},
	{"nothing-stuck", "a job is not at its end", func(r *history.Record) { r.Rules.Quiet = true }},
	{"linearizable", "a heartbeat is refused, and nothing says why", func(r *history.Record) {
		r.Events[6].Outcome, r.Events[6].Refusal = history.Refused, "lease_lost"
	}},
	{"linearizable", "a heartbeat is taken after the lease ran out", func(r *history.Record) {
		r.Events[8].Outcome, r.Events[8].Refusal = history.OK, ""
	}},
	{"linearizable", "the repeat of a failure has another answer", func(r *history.Record) {
		r.Events[11].Outcome, r.Events[11].Refusal, r.Events[11].Status = history.Refused, "lease_lost", ""
	}},
	{"linearizable", "pending is seen after it was completed", func(r *history.Record) { r.Events[16].Status = "pending" }},
	{"linearizable", "a job is claimed while another holds it", func(r *history.Record) { r.Events[9].Call, r.Events[9].Return = 21e6, 22e6 }},
	{"linearizable", "a claim that nobody asked for", func(r *history.Record) { r.Events = slices.Delete(r.Events, 4, 5) }},
	{"linearizable", "the row has other bytes than were accepted", func(r *history.Record) {
		r.Snapshot.Jobs[0].ResultDigest, r.Snapshot.Jobs[0].Stored = "d2", "d2"
	}},
}

func TestAHealthyRecordHasNoViolation(t *testing.T) {
	t.Parallel()
	for _, rules := range []history.Rules{
		healthy().Rules, {}, {Began: began, ClockSlack: 10 * time.Millisecond}, {WorkersRecorded: true},
	} {
		record := healthy()
		record.Rules = rules
		for _, v := range history.Check(record, judged) {
			t.Errorf("rules %+v: %s, job %s: %s", rules, v.Rule, v.Job, v.Text)
		}
	}
	// From outside: of the workers nothing is recorded, and a job may run.
	record := healthy()
	record.Rules = history.Rules{Began: began, ClockSlack: 10 * time.Millisecond}
	record.Events = slices.DeleteFunc(record.Events, func(e history.Event) bool { return e.Worker != "" || e.Op == history.LeaseOver })
	for _, v := range history.Check(record, judged) {
		t.Errorf("from outside: %s, job %s: %s", v.Rule, v.Job, v.Text)
	}
}

// TestEachRuleFindsWhatBreaksIt plants one violation at a time.
func TestEachRuleFindsWhatBreaksIt(t *testing.T) {
	evidence.Proves(t, "HAR-05", "HAR-06")
	t.Parallel()
	planted := map[string]bool{}
	for _, c := range broken {
		planted[c.rule] = true
		record := healthy()
		c.plant(&record)
		found := history.Check(record, judged)
		if !slices.ContainsFunc(found, func(v history.Violation) bool { return v.Rule == c.rule }) {
			t.Errorf("%s, %s: found only %+v", c.rule, c.how, found)
		}
	}
	ids, err := evidence.Requirements()
	if err != nil {
		t.Fatal(err)
	}
	for _, invariant := range history.Invariants() {
		if !planted[invariant.Name] {
			t.Errorf("nothing breaks %s", invariant.Name)
		}
		if _, ok := ids[invariant.Requirement]; !ok || invariant.Says == "" {
			t.Errorf("%s stands for %q and says %q", invariant.Name, invariant.Requirement, invariant.Says)
		}
	}
}

// TestWhatCannotBeJudgedDoesNotPass gives porcupine more orders than it can try.
func TestWhatCannotBeJudgedDoesNotPass(t *testing.T) {
	evidence.Proves(t, "HAR-05")
	t.Parallel()
	record := healthy()
	for i := range 40 {
		record.Events = append(record.Events, history.Event{Op: history.Claim, Worker: "w-3", Request: fmt.Sprint("many", i), Job: "b", Token: 1,
			Call: 1, Outcome: history.Maybe})
	}
	record.Snapshot.Jobs[1].Attempt = 3 // what no order explains
	found := history.Linearizable(record, 50*time.Millisecond)
	if len(found) != 1 || !strings.Contains(found[0].Text, "not judged") {
		t.Errorf("found %+v", found)
	}
}

// The job of a half-hour's soak whose user asked through restarts of everything: 16
// submissions without an answer among 96 refused ones. Each lost answer doubled the
// orders to look at, and the job was not judged within 30 s.
func TestManyLostSubmissionsAreJudged(t *testing.T) {
	evidence.Proves(t, "HAR-05")
	file, err := os.Open("testdata/lost-submissions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	record, err := history.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range history.Linearizable(record, 5*time.Second) {
		t.Errorf("%s: %s", v.Rule, v.Text)
	}
	record.Snapshot.Jobs[0].Attempt++ // what no order explains must still be found
	if found := history.Linearizable(record, 5*time.Second); len(found) != 1 || !strings.Contains(found[0].Text, "no order explains") {
		t.Errorf("a row that nothing explains: %+v", found)
	}
}

func TestASavedHistoryIsTheSameWhenReadAgain(t *testing.T) {
	evidence.Proves(t, "HAR-06")
	t.Parallel()
	record := healthy()
	record.Rules.Began, record.Rules.ClockSlack = began, time.Millisecond
	var saved bytes.Buffer
	if err := history.Encode(&saved, record); err != nil {
		t.Fatal(err)
	}
	again, err := history.Decode(bytes.NewReader(saved.Bytes()))
	if err != nil || !reflect.DeepEqual(again, record) {
		t.Errorf("read again: %v\n%+v\n%+v", err, again, record)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(saved.String(), "\n"), "\n")
	for name, text := range map[string]string{
		"cut off":              strings.Join(lines[:len(lines)-1], ""),
		"a line is missing":    strings.Join(slices.Delete(slices.Clone(lines), 3, 4), ""),
		"without rules":        strings.Join(lines[1:], ""),
		"an unknown key":       strings.Replace(saved.String(), `"caller"`, `"caler"`, 1) + `{"event":{"opp":"claim"}}`,
		"two values on a line": strings.Join(lines, "") + `{"now":"2026-01-01T00:00:00Z"}`,
		"a line of two kinds":  strings.Join(lines, "") + "\n" + `{"now":"2026-01-01T00:00:00Z","end":{}}`,
		"a line of no kind":    strings.Join(lines, "") + "\n{}",
		"a file that is empty": "",
	} {
		if _, err := history.Decode(strings.NewReader(text)); err == nil {
			t.Errorf("%s: read without an error", name)
		}
	}
}
