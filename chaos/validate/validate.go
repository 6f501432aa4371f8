// Package validate judges a run: the history and the rows by the invariants and
// the model of package history, and what was seen from outside by the rules here.
// It reads saved runs alone, so the same verdict can be had without the system.
//
// A check that cannot fail is worth nothing: validate_test.go plants a violation of
// each rule into a saved run and wants it found.
package validate

import (
	"fmt"
	"strings"
	"time"

	"glovebox/chaos/history"
	"glovebox/chaos/model"
)

// Rule is one thing that must hold of a run.
type Rule struct {
	Name        string
	Requirement string
	Says        string
	Check       func(model.Run, history.Record) []history.Violation
}

// judgeTime bounds the search for an order of one job's history.
const judgeTime = 30 * time.Second

// Rules lists every rule: those of the history, its linearizability, and those of
// the run.
func Rules() []Rule {
	var all []Rule
	for _, i := range history.Invariants() {
		all = append(all, Rule{i.Name, i.Requirement, i.Says, func(_ model.Run, r history.Record) []history.Violation { return i.Check(r) }})
	}
	return append(all,
		Rule{"linearizable", "JOB-03", "there is one order of events for each job that explains every answer", func(_ model.Run, r history.Record) []history.Violation {
			return history.Linearizable(r, judgeTime)
		}},
		Rule{"nothing-seen", "HAR-06", "no answer or state was seen during the run that is a violation by itself", findings},
		Rule{"nobody-waits", "JOB-05", "each user got an acknowledgement, an end and the result's bytes", open},
		Rule{"no-leftovers", "SBX-12", "nothing of an attempt, and no temporary file, outlives it", leftovers},
		Rule{"files-agree-with-rows", "STO-03", "each row has its files and each file its row", mismatches},
		Rule{"expired-in-time", "JOB-05", "a result is refused as expired only after its retention", expiredInTime},
		Rule{"failed-for-cause", "JOB-11", "a friendly file fails only when its attempts are used up by infrastructure", failedForCause},
		Rule{"recovered", "REL-01", "after each fault every server takes a job and gives its result again", recovered},
		Rule{"faults-bite", "HAR-06", "the faults were felt: answers were lost or leases ran out", faultsBite},
		Rule{"came-to-rest", "JOB-06", "the system had come to rest before the last look", cameToRest},
	)
}

// All applies every rule.
func All(run model.Run, record history.Record) []history.Violation {
	var found []history.Violation
	for _, rule := range Rules() {
		found = append(found, rule.Check(run, record)...)
	}
	return found
}

func violation(rule, job, format string, args ...any) history.Violation {
	return history.Violation{Rule: rule, Job: job, Text: fmt.Sprintf(format, args...)}
}

func findings(run model.Run, _ history.Record) (found []history.Violation) {
	for _, f := range run.Findings {
		found = append(found, violation("nothing-seen", f.Job, "%s: %s", f.Rule, f.Text))
	}
	return found
}

func each(rule string, texts []string) []history.Violation {
	var found []history.Violation
	for _, text := range texts {
		found = append(found, violation(rule, "", "%s", text))
	}
	return found
}

func open(run model.Run, _ history.Record) []history.Violation {
	return each("nobody-waits", run.Open)
}

func leftovers(run model.Run, _ history.Record) []history.Violation {
	return each("no-leftovers", run.Leftovers)
}

func mismatches(run model.Run, _ history.Record) []history.Violation {
	return each("files-agree-with-rows", run.Mismatches)
}

func cameToRest(run model.Run, _ history.Record) []history.Violation {
	if run.Quiet {
		return nil
	}
	return []history.Violation{violation("came-to-rest", "", "the run ended with work under way")}
}

// clockSlack is how far the harness's clock and the database's may be apart: they
// are the same host's, and an answer takes its time.
const clockSlack = 2 * time.Second

func expiredInTime(run model.Run, record history.Record) (found []history.Violation) {
	ended := map[string]time.Time{}
	for _, t := range record.Snapshot.Transitions {
		if t.To == history.Completed {
			ended[t.JobID] = t.At
		}
	}
	for _, e := range record.Events {
		if e.Op != history.Download || e.Refusal != "result_expired" {
			continue
		}
		at, completed := ended[e.Job]
		if answered := run.Began.Add(time.Duration(e.Return)); !completed || answered.Before(at.Add(run.Retained-clockSlack)) {
			found = append(found, violation("expired-in-time", e.Job, "refused as expired %s after its end: %s", answered.Sub(at).Round(time.Millisecond), e))
		}
	}
	return found
}

// infrastructure are the codes of a failure that lays no blame on the file.
const infrastructure = " timeout out_of_memory sandbox_failure worker_lost worker_shutdown attempts_exhausted "

func failedForCause(_ model.Run, record history.Record) (found []history.Violation) {
	for _, j := range record.Snapshot.Jobs {
		if j.Status == history.Failed && (j.Attempt < j.MaxAttempts || !strings.Contains(infrastructure, " "+j.ErrorCode+" ")) {
			found = append(found, violation("failed-for-cause", j.ID, "failed with %s in attempt %d of %d", j.ErrorCode, j.Attempt, j.MaxAttempts))
		}
	}
	return found
}

func recovered(run model.Run, _ history.Record) (found []history.Violation) {
	for i, r := range run.Rounds {
		if r.Done() && r.Recovered == 0 {
			found = append(found, violation("recovered", "", "round %d, %s: the system did not come back", i+1, strings.Join(r.Faults, " and ")))
		}
	}
	return found
}

// manyRounds is from how many rounds on a run must show that its faults are felt.
const manyRounds = 6

func faultsBite(run model.Run, record history.Record) []history.Violation {
	done := 0
	for _, r := range run.Rounds {
		if r.Done() {
			done++
		}
	}
	if run.Case != "" || len(run.Rounds) < manyRounds {
		if done == 0 {
			return []history.Violation{violation("faults-bite", "", "no fault was done")}
		}
		return nil
	}
	s := Summarise(run, record)
	switch {
	case done*4 < len(run.Rounds)*3:
		return []history.Violation{violation("faults-bite", "", "only %d of %d faults were done", done, len(run.Rounds))}
	case s.Maybe == 0 || s.LeasesLost == 0:
		return []history.Violation{violation("faults-bite", "", "%d answers were lost and %d leases ran out: nothing was put to the test", s.Maybe, s.LeasesLost)}
	}
	return nil
}
