package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Linearizable judges each job's history against the model: there must be one
// order of everything that was asked about the job, each thing between its call
// and its return, in which every answer and the row at the end are right. A
// history that cannot be judged within timeout counts as not passed.
func Linearizable(r Record, timeout time.Duration) (found []Violation) {
	by := r.Snapshot.of()
	events := r.explained(by, &found)
	for _, j := range r.Snapshot.Jobs {
		m := model{maxAttempts: j.MaxAttempts, rules: r.Rules}
		ops := r.operations(j, events[j.ID], by[j.ID], &found)
		switch porcupine.CheckOperationsTimeout(m.porcupine(), ops, timeout) {
		case porcupine.Ok:
		case porcupine.Unknown:
			found = append(found, violated("linearizable", j.ID, "not judged within %s: %d operations", timeout, len(ops)))
		default:
			found = append(found, violated("linearizable", j.ID, "no order explains these answers:\n%s", lines(ops)))
		}
	}
	return found
}

func (m model) porcupine() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, q, _ any) (bool, any) { return m.step(s.(state), q.(question)) },
	}
}

// explained sorts the events by job, and gives a submit or claim without an
// answer the job it led to, where one can be found. A submission by a key that
// another request was answered for is that job's; a claim is the one whose
// request, or else worker, a transition names that no answer accounts for.
func (r Record) explained(by map[string][]Transition, found *[]Violation) map[string][]Event {
	type attempt struct {
		job   string
		token int64
	}
	keys, granted, requests := map[[2]string]string{}, map[attempt]bool{}, map[[2]string]Transition{}
	for _, e := range r.Events {
		switch {
		case e.Op == Submit && e.Outcome == OK && e.Key != "":
			keys[[2]string{e.User, e.Key}] = e.Job
		case e.Op == Claim && e.Outcome == OK:
			granted[attempt{e.Job, e.Token}] = true
		}
	}
	orphaned := map[string][]Transition{} // by worker: claims that no answer accounts for
	for _, list := range by {
		for _, t := range list {
			if t.Cause != Claimed {
				continue
			}
			if t.Request != "" {
				requests[[2]string{t.WorkerID, t.Request}] = t
			} else if !granted[attempt{t.JobID, t.FencingToken}] {
				orphaned[t.WorkerID] = append(orphaned[t.WorkerID], t)
			}
		}
	}
	for _, list := range orphaned {
		slices.SortFunc(list, func(a, b Transition) int { return a.At.Compare(b.At) })
	}
	events := map[string][]Event{}
	for _, e := range r.Events {
		switch {
		case e.Op == Submit && e.Job == "":
			e.Job = keys[[2]string{e.User, e.Key}]
		case e.Op == Claim && e.Outcome != OK:
			t, ok := requests[[2]string{e.Worker, e.Request}]
			if list := orphaned[e.Worker]; !ok && e.Outcome == Maybe && len(list) > 0 {
				t, ok = list[0], true
				orphaned[e.Worker] = list[1:]
			}
			if ok {
				e.Job, e.Token, e.Attempt = t.JobID, t.FencingToken, t.Attempt
			}
		}
		if e.Job != "" {
			events[e.Job] = append(events[e.Job], e)
		}
	}
	if r.Rules.WorkersRecorded {
		for worker, list := range orphaned {
			for _, t := range list {
				*found = append(*found, violated("linearizable", t.JobID, "nobody asked for the claim with token %d by %s", t.FencingToken, worker))
			}
		}
	}
	return events
}

// operations are the events of one job, what no event explains, and the reading
// of the row.
func (r Record) operations(j Job, events []Event, transitions []Transition, found *[]Violation) []porcupine.Operation {
	var ops []porcupine.Operation
	first, last := int64(math.MaxInt64), int64(0)
	for _, e := range telling(events) {
		first, last = min(first, e.Call), max(last, e.Call, e.Return)
		until := e.Return
		if e.Outcome == Maybe {
			until = math.MaxInt64
		}
		ops = append(ops, operation(question{Event: e}, e.Call, until))
	}
	for _, e := range r.Events { // the end of the run, for the row
		last = max(last, e.Call, e.Return)
	}
	if len(events) == 0 {
		first = 0
	}
	for _, t := range transitions {
		q := question{Event: Event{Job: j.ID, User: j.UserID, Worker: t.WorkerID, Token: t.FencingToken, Attempt: t.Attempt, Outcome: OK}, cause: t.Cause, to: t.To}
		switch t.Cause {
		case Submitted, Claimed, Finished, FailedFor, Retried, HandedBack:
			if slices.ContainsFunc(events, func(e Event) bool { return explains(e, t) }) {
				continue
			}
			if r.Rules.WorkersRecorded && (t.Cause != Submitted || !r.lostSubmit(j.UserID)) {
				*found = append(*found, violated("linearizable", j.ID, "nobody asked for %s with token %d by %s", t.Cause, t.FencingToken, t.WorkerID))
			}
			q.Request = t.Request
		}
		from, until := r.window(t, first, last)
		ops = append(ops, operation(q, from, until))
	}
	if j.Purged {
		ops = append(ops, operation(question{Event: Event{Job: j.ID, Outcome: OK}, cause: purge}, first, last))
	}
	return append(ops, operation(question{Event: Event{Job: j.ID, Outcome: OK}, cause: rowRead, row: &j}, last+1, last+2))
}

// telling leaves out lost answers that tell nothing, each of which would double the
// orders to look at: a reading without an answer says nothing of the job, and of
// submissions of the same bytes without an answer the first can have done whatever
// a later one may have: it could take effect at any instant that they could.
func telling(events []Event) []Event {
	first := map[string]int64{} // by digest: the call of the first lost submission
	for _, e := range events {
		if call, known := first[e.Digest]; e.Op == Submit && e.Outcome == Maybe && (!known || e.Call < call) {
			first[e.Digest] = e.Call
		}
	}
	kept := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(events), func(e Event) bool {
		if e.Outcome != Maybe {
			return false
		}
		switch e.Op {
		case Status, Download:
			return true
		case Submit:
			again := kept[e.Digest] || e.Call != first[e.Digest]
			kept[e.Digest] = kept[e.Digest] || !again
			return again
		}
		return false
	})
}

// explains reports whether e may be what asked for t.
func explains(e Event, t Transition) bool {
	if t.Cause == Submitted {
		return e.Op == Submit && e.Outcome != Refused
	}
	if e.Outcome == Refused || e.Worker != t.WorkerID || e.Token != t.FencingToken {
		return false
	}
	switch t.Cause {
	case Claimed:
		return e.Op == Claim
	case Finished:
		return e.Op == Finish
	}
	return e.Op == Fail && (e.Code == shutdown || t.Cause != HandedBack)
}

// lostSubmit reports whether a submission of the user got no answer, under a key
// that no other request got one for: it may have made a job.
func (r Record) lostSubmit(user string) bool {
	return slices.ContainsFunc(r.Events, func(e Event) bool {
		return e.Op == Submit && e.Outcome == Maybe && (user == "" || e.User == user)
	})
}

// window is when t can have happened, in nanoseconds of the history.
func (r Record) window(t Transition, first, last int64) (from, until int64) {
	if r.Rules.ClockSlack <= 0 || r.Rules.Began.IsZero() {
		return first, last
	}
	at := t.At.Sub(r.Rules.Began)
	from = max(first, int64(at-r.Rules.ClockSlack))
	return from, max(from, min(last, int64(at+r.Rules.ClockSlack)))
}

func operation(q question, from, until int64) porcupine.Operation {
	return porcupine.Operation{Input: q, Call: from, Return: until}
}

// lines lists operations for people, in the order of their calls.
func lines(ops []porcupine.Operation) string {
	ops = slices.Clone(ops)
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var b strings.Builder
	for _, op := range ops {
		q := op.Input.(question)
		until := fmt.Sprintf("%.3f", float64(op.Return)/1e6)
		if op.Return == math.MaxInt64 {
			until = "?"
		}
		what := q.Event.String()
		switch {
		case q.row != nil:
			what = fmt.Sprintf("the row: %s token=%d attempt=%d worker=%q", q.row.Status, q.row.FencingToken, q.row.Attempt, q.row.WorkerID)
		case q.cause != "":
			what = fmt.Sprintf("(%s token=%d worker=%s to=%s)", q.cause, q.Token, q.Worker, q.to)
		}
		fmt.Fprintf(&b, "  %10.3f .. %-10s ms  %s\n", float64(op.Call)/1e6, until, what)
	}
	return b.String()
}
