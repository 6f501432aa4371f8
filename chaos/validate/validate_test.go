package validate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"glovebox/chaos/history"
	"glovebox/chaos/model"
	"glovebox/chaos/validate"
	"glovebox/threat-model/evidence"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }

func ns(seconds float64) int64 { return int64(seconds * float64(time.Second)) }

// saved is a run in which all is well: eight faults; three jobs, one of which lost
// its first lease, one whose submission was not answered at first, and one whose
// attempts were used up.
func saved() (model.Run, history.Record) {
	run := model.Run{Seed: 7, Began: began, Ended: at(300), Servers: 2, Workers: 3, Desks: 2, Lease: 4 * time.Second, Retained: time.Minute, Quiet: true}
	for i := range 8 {
		start := float64(10 + 20*i)
		run.Rounds = append(run.Rounds, model.Round{
			Kinds: []string{"kill-worker"}, Titles: []string{"SIGKILL of a worker"}, Faults: []string{"kill worker-0"},
			Inject: ns(start), Broken: ns(start), Heal: ns(start + 1), Recovered: ns(start + 2),
		})
	}
	no := false
	r := history.Record{Rules: history.Rules{Quiet: true, LeaseGrace: 3 * time.Second, Began: began, ClockSlack: 2 * time.Second}}
	job := func(id, user string, start float64, status string, tokens int64) {
		r.Snapshot.Transitions = append(r.Snapshot.Transitions, history.Transition{JobID: id, To: history.Pending, Cause: history.Submitted, At: at(start)})
		j := history.Job{ID: id, Status: status, Attempt: int(tokens), MaxAttempts: 2, FencingToken: tokens, CreatedAt: at(start), UpdatedAt: at(start + 10), UserID: user, ResultDigest: "good-" + id, Stored: "good-" + id}
		if status == history.Failed {
			j.ErrorCode, j.ErrorRetryable, j.ResultDigest, j.Stored = "attempts_exhausted", &no, "", ""
		}
		r.Snapshot.Jobs = append(r.Snapshot.Jobs, j)
	}
	claim := func(id, worker string, token int64, start, end float64, cause, to string) {
		r.Snapshot.Transitions = append(r.Snapshot.Transitions,
			history.Transition{JobID: id, From: history.Pending, To: history.Processing, Cause: history.Claimed, Attempt: int(token), FencingToken: token, WorkerID: worker, At: at(start)},
			history.Transition{JobID: id, From: history.Processing, To: to, Cause: cause, Attempt: int(token), FencingToken: token, WorkerID: worker, At: at(end)})
	}
	user := func(e history.Event) { r.Events = append(r.Events, e) }
	r.Snapshot.Now = at(280)

	job("a", "alice", 20, history.Completed, 2)
	claim("a", "w1", 1, 21, 26, history.LeaseLost, history.Pending)
	claim("a", "w2", 2, 27, 28, history.Finished, history.Completed)
	user(history.Event{Op: history.Submit, Caller: "alice-0", User: "alice", Key: "ka", Digest: "sa", Call: ns(20), Outcome: history.Maybe})
	user(history.Event{Op: history.Submit, Caller: "alice-0", User: "alice", Key: "ka", Digest: "sa", Job: "a", Call: ns(21), Return: ns(21.1), Outcome: history.OK, Status: history.Pending})
	user(history.Event{Op: history.Status, Caller: "alice-0", User: "alice", Job: "a", Call: ns(29), Return: ns(29.1), Outcome: history.OK, Status: history.Completed})
	user(history.Event{Op: history.Download, Caller: "alice-0", User: "alice", Job: "a", Want: "good-a", Digest: "good-a", Call: ns(30), Return: ns(30.1), Outcome: history.OK})

	job("b", "bob", 40, history.Completed, 1)
	claim("b", "w1", 1, 41, 42, history.Finished, history.Completed)
	user(history.Event{Op: history.Submit, Caller: "bob-1", User: "bob", Key: "kb", Digest: "sb", Job: "b", Call: ns(40), Return: ns(40.1), Outcome: history.OK, Status: history.Pending})
	user(history.Event{Op: history.Status, Caller: "bob-1", User: "bob", Job: "b", Call: ns(43), Return: ns(43.1), Outcome: history.OK, Status: history.Completed})
	user(history.Event{Op: history.Download, Caller: "bob-1", User: "bob", Job: "b", Want: "good-b", Call: ns(110), Return: ns(110.1), Outcome: history.Refused, Refusal: "result_expired"})

	job("c", "bob", 60, history.Failed, 2)
	claim("c", "w1", 1, 61, 65, history.LeaseLost, history.Pending)
	claim("c", "w3", 2, 66, 71, history.Exhausted, history.Failed)
	user(history.Event{Op: history.Submit, Caller: "bob-1", User: "bob", Key: "kc", Digest: "sc", Job: "c", Call: ns(60), Return: ns(60.1), Outcome: history.OK, Status: history.Pending})
	user(history.Event{Op: history.Status, Caller: "bob-1", User: "bob", Job: "c", Call: ns(72), Return: ns(72.1), Outcome: history.OK, Status: history.Failed, Code: "attempts_exhausted"})
	// Retention took b.
	for i := range r.Snapshot.Jobs {
		if r.Snapshot.Jobs[i].ID == "b" {
			r.Snapshot.Jobs[i].Purged, r.Snapshot.Jobs[i].Stored = true, ""
		}
	}
	return run, r
}

// planted are violations, each of the rule that must report it.
var planted = []struct {
	name, rule string
	plant      func(*model.Run, *history.Record)
}{
	{"an acknowledged job is gone", "acknowledged-is-kept", func(_ *model.Run, r *history.Record) {
		r.Snapshot.Jobs = r.Snapshot.Jobs[1:]
		r.Snapshot.Transitions = r.Snapshot.Transitions[5:]
	}},
	{"a key led to two jobs", "one-job-for-a-key", func(_ *model.Run, r *history.Record) {
		again := r.Events[1]
		again.Job, again.Call, again.Return = "b", ns(50), ns(51)
		r.Events = append(r.Events, again)
	}},
	{"a result is another", "completed-is-readable", func(_ *model.Run, r *history.Record) { r.Events[3].Digest = "other" }},
	{"a completed job has no file", "completed-is-readable", func(_ *model.Run, r *history.Record) { r.Snapshot.Jobs[0].Stored = history.NotStored }},
	{"a completed job's file holds other bytes", "completed-is-readable", func(_ *model.Run, r *history.Record) { r.Snapshot.Jobs[0].Stored = "bad" }},
	{"another user got the result", "no-foreign-or-early-download", func(_ *model.Run, r *history.Record) { r.Events[3].User = "bob" }},
	{"completed twice", "terminal-is-final", func(_ *model.Run, r *history.Record) {
		again := r.Snapshot.Transitions[4]
		again.FencingToken = 1
		again.WorkerID = "w1"
		r.Snapshot.Transitions = append(r.Snapshot.Transitions, again)
	}},
	{"an attempt ended twice", "one-end-for-a-claim", func(_ *model.Run, r *history.Record) {
		r.Snapshot.Transitions = append(r.Snapshot.Transitions, r.Snapshot.Transitions[2])
	}},
	{"a fencing token was given twice", "tokens-rise-by-one", func(_ *model.Run, r *history.Record) {
		r.Snapshot.Transitions[3].FencingToken, r.Snapshot.Transitions[4].FencingToken = 1, 1
	}},
	{"the late worker's result was taken", "one-end-for-a-claim", func(_ *model.Run, r *history.Record) { r.Snapshot.Transitions[4].WorkerID = "w1" }},
	{"a job is stuck", "nothing-stuck", func(_ *model.Run, r *history.Record) {
		r.Snapshot.Jobs[2].Status, r.Snapshot.Jobs[2].ErrorCode, r.Snapshot.Jobs[2].ErrorRetryable = history.Pending, "", nil
	}},
	{"a status went back", "terminal-is-final", func(_ *model.Run, r *history.Record) {
		r.Events = append(r.Events, history.Event{Op: history.Status, Caller: "alice-0", User: "alice", Job: "a", Call: ns(35), Return: ns(35.1), Outcome: history.OK, Status: history.Processing})
	}},
	{"an answer that no order explains", "linearizable", func(_ *model.Run, r *history.Record) {
		r.Events = append(r.Events, history.Event{Op: history.Status, Caller: "alice-0", User: "alice", Job: "a", Call: ns(22), Return: ns(22.1), Outcome: history.OK, Status: history.Completed})
	}},
	{"a container is left", "no-leftovers", func(run *model.Run, _ *history.Record) { run.Leftovers = []string{"container 0123"} }},
	{"an orphan file is left", "files-agree-with-rows", func(run *model.Run, _ *history.Record) { run.Mismatches = []string{"no row names the stored file x"} }},
	{"expired too early", "expired-in-time", func(_ *model.Run, r *history.Record) { r.Events[6].Call, r.Events[6].Return = ns(60), ns(60.1) }},
	{"failed with attempts left", "failed-for-cause", func(_ *model.Run, r *history.Record) { r.Snapshot.Jobs[2].MaxAttempts = 20 }},
	{"a friendly file was blamed", "failed-for-cause", func(_ *model.Run, r *history.Record) { r.Snapshot.Jobs[2].ErrorCode = "invalid_input" }},
	{"the system did not come back", "recovered", func(run *model.Run, _ *history.Record) { run.Rounds[7].Recovered = 0 }},
	{"a user is still waiting", "nobody-waits", func(run *model.Run, _ *history.Record) { run.Open = []string{"a: still pending"} }},
	{"spoilt bytes were served", "nothing-seen", func(run *model.Run, _ *history.Record) {
		run.Findings = []history.Violation{{Rule: "damage-is-never-served", Job: "a", Text: "served"}}
	}},
	{"work was under way at the last look", "came-to-rest", func(run *model.Run, _ *history.Record) { run.Quiet = false }},
	{"no fault was felt", "faults-bite", func(_ *model.Run, r *history.Record) {
		for i := range r.Events {
			if r.Events[i].Outcome == history.Maybe {
				r.Events = append(r.Events[:i], r.Events[i+1:]...)
				break
			}
		}
	}},
	{"most faults were not done", "faults-bite", func(run *model.Run, _ *history.Record) {
		for i := range 4 {
			run.Rounds[i].NotDone, run.Rounds[i].Broken = "it would not", 0
		}
	}},
}

// TestTheInstrumentCanFail plants one violation after another into a saved run,
// saves it, reads it back and wants the rule that is for it to report it.
func TestTheInstrumentCanFail(t *testing.T) {
	evidence.Proves(t, "HAR-06")
	judge := func(t *testing.T, run model.Run, record history.Record) map[string]int {
		t.Helper()
		dir := t.TempDir()
		if err := model.Save(dir, run, record); err != nil {
			t.Fatal(err)
		}
		loaded, again, err := model.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		by := map[string]int{}
		for _, v := range validate.All(loaded, again) {
			by[v.Rule]++
			t.Log(v.Rule, v.Job, strings.SplitN(v.Text, "\n", 2)[0])
		}
		return by
	}
	run, record := saved()
	if by := judge(t, run, record); len(by) > 0 {
		t.Fatalf("control: a run in which all is well violates %v", by)
	}
	caught := map[string]bool{}
	for _, p := range planted {
		t.Run(p.name, func(t *testing.T) {
			run, record := saved()
			p.plant(&run, &record)
			by := judge(t, run, record)
			if by[p.rule] == 0 {
				t.Errorf("%s did not report it; reported: %v", p.rule, by)
			}
			caught[p.rule] = true
		})
	}
	// Rules of the rows and of the workers' own operations have their planted
	// violations beside package history.
	elsewhere := " one-owner processing-is-leased arrows attempts-count-claims row-agrees-with-transitions one-result "
	for _, rule := range validate.Rules() {
		if !caught[rule.Name] && !strings.Contains(elsewhere, " "+rule.Name+" ") {
			t.Errorf("no violation of %s was planted", rule.Name)
		}
	}
}

// TestHoldings follows one job through the workers that had it.
func TestHoldings(t *testing.T) {
	evidence.Proves(t, "HAR-06")
	_, record := saved()
	if job := model.MostContested(record.Snapshot); job != "a" && job != "c" {
		t.Fatalf("the most contested job is %s", job)
	}
	var got []string
	for _, h := range model.Holdings(record.Snapshot, "a") {
		got = append(got, fmt.Sprint(h.Worker, " ", h.Token, " ", h.From.Sub(began), " ", h.Until.Sub(began), " ", h.End))
	}
	want := "w1 1 21s 26s lease_lost; w2 2 27s 28s finished"
	if strings.Join(got, "; ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, "; "), want)
	}
}

func TestASavedRunIsWholeOrRefused(t *testing.T) {
	evidence.Proves(t, "HAR-06")
	run, record := saved()
	dir := t.TempDir()
	if err := model.Save(dir, run, record); err != nil {
		t.Fatal(err)
	}
	if _, _, err := model.Load(dir + "/" + model.HistoryFile); err != nil {
		t.Fatalf("control: %v", err)
	}
	if _, _, err := model.Load(t.TempDir()); err == nil {
		t.Error("a folder without a run was read")
	}
}
