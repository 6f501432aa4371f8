package history

import (
	"cmp"
	"fmt"
	"slices"
)

// invariants of seed 000 §5.2, then of §5.1, §5.3 and §7.3.
var invariants = []Invariant{
	{"one-owner", "JOB-13", "a job belongs to exactly one user, from its submission on", OneOwner},
	{"completed-is-readable", "JOB-05", "completed means that the result is there, whole, and the one that was accepted, until retention", CompletedIsReadable},
	{"processing-is-leased", "JOB-06", "processing means assigned with a current lease, and nothing else is assigned", ProcessingIsLeased},
	{"no-foreign-or-early-download", "JOB-07", "nobody gets the result of another user or of an unfinished job", NoForeignOrEarlyDownload},
	{"arrows", "JOB-01", "only the listed transitions happen, and each begins where the last one ended", Arrows},
	{"terminal-is-final", "JOB-01", "nothing moves a completed or failed job", TerminalIsFinal},
	{"tokens-rise-by-one", "JOB-02", "the n-th claim of a job has fencing token n", TokensRiseByOne},
	{"attempts-count-claims", "JOB-02", "an attempt is a claim that was not handed back, and there are at most max_attempts", AttemptsCountClaims},
	{"one-end-for-a-claim", "JOB-03", "an attempt ends once, and by its own worker or by the clock", OneEndForAClaim},
	{"row-agrees-with-transitions", "ARC-04", "a job stands where its last transition left it", RowAgreesWithTransitions},
	{"acknowledged-is-kept", "JOB-04", "what was answered with success is recorded: job, claim, result, failure", AcknowledgedIsKept},
	{"one-job-for-a-key", "API-04", "one Idempotency-Key of one user leads to one job, and no submission to two", OneJobForAKey},
	{"one-result", "JOB-04", "all accepted results of a job are one: same worker, same token, same bytes", OneResult},
	{"nothing-stuck", "JOB-06", "every job reaches its end, and no lease is over for longer than lease and sweep", NothingStuck},
}

func violated(rule, job, format string, args ...any) Violation {
	return Violation{Rule: rule, Job: job, Text: fmt.Sprintf(format, args...)}
}

// of groups transitions by job, in the order in which they must have happened:
// by token, and within one token the claim before the end.
func (s Snapshot) of() map[string][]Transition {
	by := map[string][]Transition{}
	for _, t := range s.Transitions {
		by[t.JobID] = append(by[t.JobID], t)
	}
	for _, list := range by {
		slices.SortStableFunc(list, func(a, b Transition) int {
			return cmp.Or(cmp.Compare(a.FencingToken, b.FencingToken), cmp.Compare(phase(a), phase(b)))
		})
	}
	return by
}

func phase(t Transition) int {
	switch t.Cause {
	case Submitted:
		return 0
	case Claimed:
		return 1
	case Rejected:
		return 3
	}
	return 2
}

// jobsByID indexes the rows.
func (s Snapshot) jobsByID() map[string]Job {
	by := make(map[string]Job, len(s.Jobs))
	for _, j := range s.Jobs {
		by[j.ID] = j
	}
	return by
}

// owners is who submitted each job, by the answers.
func (r Record) owners() map[string]string {
	owners := map[string]string{}
	for _, e := range r.Events {
		if e.Op == Submit && e.Outcome == OK && owners[e.Job] == "" {
			owners[e.Job] = e.User
		}
	}
	return owners
}

// OneOwner checks that each job was submitted by one user, is shown to no other,
// and has that user in its row where the harness sees it.
func OneOwner(r Record) (found []Violation) {
	owners := r.owners()
	for _, e := range r.Events {
		owner, known := owners[e.Job]
		if e.Outcome == OK && (e.Op == Submit || e.Op == Status) && known && owner != e.User {
			found = append(found, violated("one-owner", e.Job, "of %s, and answered to %s: %s", owner, e.User, e))
		}
	}
	for _, j := range r.Snapshot.Jobs {
		if owner, known := owners[j.ID]; known && j.UserID != "" && j.UserID != owner {
			found = append(found, violated("one-owner", j.ID, "submitted by %s, the row says %s", owner, j.UserID))
		}
	}
	return found
}

// CompletedIsReadable checks that a download which began after the job was known
// to be completed gave the accepted bytes or said that retention took them, that
// no download ever gave others, and that the bytes lie in storage at the end.
func CompletedIsReadable(r Record) (found []Violation) {
	const rule = "completed-is-readable"
	accepted, known := map[string]string{}, map[string]int64{}
	for _, e := range r.Events {
		if e.Outcome != OK {
			continue
		}
		if e.Op == Finish {
			accepted[e.Job] = e.Digest
		}
		if e.Status == Completed {
			if at, seen := known[e.Job]; !seen || e.Return < at {
				known[e.Job] = e.Return
			}
		}
	}
	owners := r.owners()
	for _, e := range r.Events {
		if e.Op != Download || e.Outcome == Maybe {
			continue
		}
		if e.Outcome == Refused {
			since, completed := known[e.Job]
			if completed && e.Call > since && owners[e.Job] == e.User && e.Refusal != "result_expired" {
				found = append(found, violated(rule, e.Job, "completed, and its result is refused: %s", e))
			}
			continue
		}
		if want, ok := accepted[e.Job]; ok && e.Digest != want {
			found = append(found, violated(rule, e.Job, "accepted with digest %s, downloaded with another: %s", short(want), e))
		}
		if e.Want != "" && e.Digest != e.Want {
			found = append(found, violated(rule, e.Job, "not the right result: %s", e))
		}
	}
	for _, j := range r.Snapshot.Jobs {
		if j.Status != Completed || j.Purged || j.Stored == "" {
			continue
		}
		want := cmp.Or(j.ResultDigest, accepted[j.ID])
		if j.Stored == NotStored || want != "" && j.Stored != want {
			found = append(found, violated(rule, j.ID, "completed, and storage has %s instead of %s", short(j.Stored), short(want)))
		}
	}
	return found
}

// ProcessingIsLeased checks the rows: worker and lease stand exactly beside
// processing, and with a LeaseGrace no lease has been over for longer.
func ProcessingIsLeased(r Record) (found []Violation) {
	const rule = "processing-is-leased"
	for _, j := range r.Snapshot.Jobs {
		assigned := j.WorkerID != "" && j.LeaseExpiresAt != nil
		if (j.Status == Processing) != assigned || (j.WorkerID != "") != (j.LeaseExpiresAt != nil) {
			found = append(found, violated(rule, j.ID, "%s with worker %q and lease until %v", j.Status, j.WorkerID, j.LeaseExpiresAt))
			continue
		}
		if grace := r.Rules.LeaseGrace; assigned && grace > 0 && r.Snapshot.Now.Sub(*j.LeaseExpiresAt) > grace {
			found = append(found, violated(rule, j.ID, "processing, though its lease was over %s ago", r.Snapshot.Now.Sub(*j.LeaseExpiresAt)))
		}
	}
	return found
}

// NoForeignOrEarlyDownload checks that a result was given to the submitter alone,
// and that when a download was answered the result had been asked to be accepted.
func NoForeignOrEarlyDownload(r Record) (found []Violation) {
	const rule = "no-foreign-or-early-download"
	owners, first := r.owners(), map[string]int64{}
	for _, e := range r.Events {
		if e.Op != Finish || e.Outcome == Refused {
			continue
		}
		if at, seen := first[e.Job]; !seen || e.Call < at {
			first[e.Job] = e.Call
		}
	}
	for _, e := range r.Events {
		if e.Op != Download || e.Outcome != OK {
			continue
		}
		if owner, ok := owners[e.Job]; ok && owner != e.User {
			found = append(found, violated(rule, e.Job, "of %s: %s", owner, e))
		}
		if at, ok := first[e.Job]; r.Rules.WorkersRecorded && (!ok || e.Return < at) {
			found = append(found, violated(rule, e.Job, "no result had been handed in: %s", e))
		}
	}
	return found
}

// OneJobForAKey checks that equal keys of a user were answered with one job, and
// that there are no more jobs than submissions that can have made one.
func OneJobForAKey(r Record) (found []Violation) {
	const rule = "one-job-for-a-key"
	jobs, asked, unkeyed := map[[2]string]string{}, map[[2]string]bool{}, 0
	for _, e := range r.Events {
		if e.Op != Submit || e.Outcome == Refused {
			continue
		}
		if e.Key == "" {
			unkeyed++
			continue
		}
		key := [2]string{e.User, e.Key}
		asked[key] = true
		if e.Outcome != OK {
			continue
		}
		if other := jobs[key]; other != "" && other != e.Job {
			found = append(found, violated(rule, e.Job, "the key %q of %s led to %s too", e.Key, e.User, other))
		}
		jobs[key] = e.Job
	}
	if most := len(asked) + unkeyed; len(r.Snapshot.Jobs) > most {
		found = append(found, violated(rule, "", "%d submissions made %d jobs", most, len(r.Snapshot.Jobs)))
	}
	return found
}

// OneResult checks that every accepted result of a job came from one attempt with
// one content: a repeat converges, another is refused.
func OneResult(r Record) (found []Violation) {
	first := map[string]Event{}
	for _, e := range r.Events {
		if e.Op != Finish || e.Outcome != OK {
			continue
		}
		other, seen := first[e.Job]
		if !seen {
			first[e.Job] = e
			continue
		}
		if other.Worker != e.Worker || other.Token != e.Token || other.Digest != e.Digest {
			found = append(found, violated("one-result", e.Job, "accepted twice: %s, and %s", other, e))
		}
	}
	return found
}
