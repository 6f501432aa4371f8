package history

import "time"

// arrow is one transition that there is.
type arrow struct{ from, to, cause string }

var arrows = map[arrow]bool{
	{"", Pending, Submitted}:          true,
	{Pending, Processing, Claimed}:    true,
	{Pending, Failed, Rejected}:       true,
	{Processing, Completed, Finished}: true,
	{Processing, Failed, FailedFor}:   true,
	{Processing, Pending, Retried}:    true,
	{Processing, Pending, HandedBack}: true,
	{Processing, Pending, LeaseLost}:  true,
	{Processing, Failed, Exhausted}:   true,
}

// maxHandBacks bounds the hand-backs that do not count as attempts.
const maxHandBacks = 10

// Arrows checks each job's transitions: one of the list, beginning with the
// submission, each where the one before ended.
func Arrows(r Record) (found []Violation) {
	for job, list := range r.Snapshot.of() {
		at := ""
		for _, t := range list {
			if !arrows[arrow{t.From, t.To, t.Cause}] {
				found = append(found, violated("arrows", job, "there is no %q -> %q by %s", t.From, t.To, t.Cause))
			}
			if t.From != at {
				found = append(found, violated("arrows", job, "%s from %q with token %d, when the job was %q", t.Cause, t.From, t.FencingToken, at))
			}
			at = t.To
		}
	}
	return found
}

// TerminalIsFinal checks that no transition leaves completed or failed, that
// there is at most one into them, and that no answer after one says otherwise.
func TerminalIsFinal(r Record) (found []Violation) {
	const rule = "terminal-is-final"
	for job, list := range r.Snapshot.of() {
		ends := 0
		for _, t := range list {
			if Terminal(t.To) {
				ends++
			}
			if Terminal(t.From) {
				found = append(found, violated(rule, job, "%s moved it from %s to %s", t.Cause, t.From, t.To))
			}
		}
		if ends > 1 {
			found = append(found, violated(rule, job, "it ended %d times", ends))
		}
	}
	type end struct {
		status string
		at     int64
	}
	known := map[string]end{}
	for _, e := range r.Events {
		if e.Op == Status && e.Outcome == OK && Terminal(e.Status) {
			if seen, ok := known[e.Job]; !ok || e.Return < seen.at {
				known[e.Job] = end{e.Status, e.Return}
			}
		}
	}
	for _, e := range r.Events {
		if seen, ok := known[e.Job]; ok && e.Op == Status && e.Outcome == OK && e.Call > seen.at && e.Status != seen.status {
			found = append(found, violated(rule, e.Job, "it was %s before: %s", seen.status, e))
		}
	}
	return found
}

// TokensRiseByOne checks that the claims of a job have the tokens 1 to n, once
// each, and that the row has n.
func TokensRiseByOne(r Record) (found []Violation) {
	const rule = "tokens-rise-by-one"
	claims := map[string]int64{}
	for job, list := range r.Snapshot.of() {
		for _, t := range list {
			if t.Cause != Claimed {
				continue
			}
			claims[job]++
			if t.FencingToken != claims[job] {
				found = append(found, violated(rule, job, "claim %d has token %d", claims[job], t.FencingToken))
			}
		}
	}
	for _, j := range r.Snapshot.Jobs {
		if j.FencingToken != claims[j.ID] {
			found = append(found, violated(rule, j.ID, "%d claims, and the row has token %d", claims[j.ID], j.FencingToken))
		}
	}
	return found
}

// AttemptsCountClaims checks that each claim's attempt, and the row's, is the
// number of claims so far less the hand-backs, and stays within max_attempts; and
// that hand-backs are bounded.
func AttemptsCountClaims(r Record) (found []Violation) {
	const rule = "attempts-count-claims"
	by := r.Snapshot.of()
	for _, j := range r.Snapshot.Jobs {
		attempt, backs := 0, 0
		for _, t := range by[j.ID] {
			switch t.Cause {
			case Claimed:
				attempt++
				if t.Attempt != attempt {
					found = append(found, violated(rule, j.ID, "the claim with token %d is attempt %d, not %d", t.FencingToken, t.Attempt, attempt))
				}
			case HandedBack:
				attempt--
				backs++
			}
		}
		if j.Attempt != attempt || attempt > j.MaxAttempts || backs > maxHandBacks {
			found = append(found, violated(rule, j.ID, "the row says attempt %d of %d; there were %d, and %d hand-backs", j.Attempt, j.MaxAttempts, attempt, backs))
		}
	}
	return found
}

// OneEndForAClaim checks that each claim is ended at most once, by the worker it
// was given to, and that nothing ends what was not claimed.
func OneEndForAClaim(r Record) (found []Violation) {
	const rule = "one-end-for-a-claim"
	for job, list := range r.Snapshot.of() {
		holder, ended := map[int64]string{}, map[int64]bool{}
		for _, t := range list {
			if t.Cause == Claimed {
				holder[t.FencingToken] = t.WorkerID
				continue
			}
			if t.From != Processing {
				continue
			}
			if ended[t.FencingToken] {
				found = append(found, violated(rule, job, "token %d ended again by %s", t.FencingToken, t.Cause))
			}
			ended[t.FencingToken] = true
			if holder[t.FencingToken] != t.WorkerID {
				found = append(found, violated(rule, job, "token %d is of %q, and ended by %s of %q", t.FencingToken, holder[t.FencingToken], t.Cause, t.WorkerID))
			}
		}
	}
	return found
}

// RowAgreesWithTransitions checks that each row has transitions, and that its
// status and token are those of the last one.
func RowAgreesWithTransitions(r Record) (found []Violation) {
	const rule = "row-agrees-with-transitions"
	by, rows := r.Snapshot.of(), r.Snapshot.jobsByID()
	for _, j := range r.Snapshot.Jobs {
		list := by[j.ID]
		if len(list) == 0 {
			found = append(found, violated(rule, j.ID, "a job without a transition"))
			continue
		}
		last := list[len(list)-1]
		if j.Status != last.To || j.FencingToken != last.FencingToken {
			found = append(found, violated(rule, j.ID, "the row is %s with token %d, the last transition led to %s with token %d", j.Status, j.FencingToken, last.To, last.FencingToken))
		}
		if j.Status == Processing && j.WorkerID != last.WorkerID {
			found = append(found, violated(rule, j.ID, "the row is with %q, the claim with %q", j.WorkerID, last.WorkerID))
		}
	}
	for job := range by {
		if _, ok := rows[job]; !ok {
			found = append(found, violated(rule, job, "transitions without a job"))
		}
	}
	return found
}

// AcknowledgedIsKept checks that each successful answer has its row: a submitted
// job exists, and a claim, result or failure has its transition.
func AcknowledgedIsKept(r Record) (found []Violation) {
	const rule = "acknowledged-is-kept"
	rows := r.Snapshot.jobsByID()
	type attempt struct {
		job    string
		token  int64
		worker string
	}
	claimed, ended := map[attempt]bool{}, map[attempt]Transition{}
	for _, t := range r.Snapshot.Transitions {
		at := attempt{t.JobID, t.FencingToken, t.WorkerID}
		if t.Cause == Claimed {
			claimed[at] = true
		} else if t.From == Processing {
			ended[at] = t
		}
	}
	for _, e := range r.Events {
		if e.Outcome != OK {
			continue
		}
		at := attempt{e.Job, e.Token, e.Worker}
		end := ended[at]
		_, exists := rows[e.Job]
		kept := true
		switch e.Op {
		case Submit, Status, Download:
			kept = exists
		case Claim:
			kept = claimed[at]
		case Finish:
			kept = end.Cause == Finished
		case Fail:
			kept = (end.Cause == FailedFor || end.Cause == Retried || end.Cause == HandedBack) && (e.Status == "" || e.Status == end.To)
		}
		if !kept {
			found = append(found, violated(rule, e.Job, "answered, and not recorded: %s", e))
		}
	}
	return found
}

// NothingStuck checks, for a Quiet record, that each job is at its end.
func NothingStuck(r Record) (found []Violation) {
	if !r.Rules.Quiet {
		return nil
	}
	for _, j := range r.Snapshot.Jobs {
		if !Terminal(j.Status) {
			found = append(found, violated("nothing-stuck", j.ID, "%s, %s after its last change", j.Status, r.Snapshot.Now.Sub(j.UpdatedAt).Round(time.Second)))
		}
	}
	return found
}
