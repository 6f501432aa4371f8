// Package report tells people how a run went: a table on the terminal, one page
// with a timeline, and the evidence that the sign-off reads.
package report

import (
	"fmt"
	"io"
	"time"

	"glovebox/chaos/history"
	"glovebox/chaos/model"
	"glovebox/chaos/validate"
)

// shown is how many violations are printed; all are counted.
const shown = 25

// Table prints a run in figures.
func Table(out io.Writer, run model.Run, record history.Record, violations []history.Violation) {
	s := validate.Summarise(run, record)
	fmt.Fprintf(out, "\n%-44s %6s %9s %10s %6s %12s\n", "fault", "done", "not done", "recovered", "felt", "worst time")
	for _, k := range s.Kinds {
		fmt.Fprintf(out, "%-44s %6d %9d %10d %6d %12s", clip(k.Kind+": "+k.Title, 44), k.Done, k.NotDone, k.Recovered, k.Felt, round(k.Worst))
		if k.Why != "" {
			fmt.Fprintf(out, "  (%s)", clip(k.Why, 80))
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "\n%d operations in %s by %d desks on %d servers and %d workers; %d answers were lost, %d were refusals\n",
		s.Operations, s.Duration.Round(time.Second), run.Desks, run.Servers, run.Workers, s.Maybe, s.Refused)
	fmt.Fprintf(out, "%d jobs acknowledged of %d requests to submit; %d completed, %d failed for infrastructure; %d results downloaded whole and right\n",
		s.Acked, s.Submitted, s.Completed, s.Failed, s.Downloads)
	fmt.Fprintf(out, "%d attempts: %d leases ran out, %d handed back, %d tried again\n", s.Attempts, s.LeasesLost, s.HandedBack, s.Retried)
	fmt.Fprintf(out, "%d of %d faults done; worst time to recover %s, after: %s\nfelt: answers lost and leases run out between a fault and the recovery from it\n\n", s.Done, s.Rounds, round(s.Worst), s.WorstAfter)
	if n := len(run.Restarted); n > 0 {
		fmt.Fprintf(out, "%d processes had ended by themselves, with an error, and were started again as their units would; the first: %s\n\n", n, clip(run.Restarted[0], 160))
	}
	by := map[string]int{}
	for _, v := range violations {
		by[v.Rule]++
	}
	for _, rule := range validate.Rules() {
		fmt.Fprintf(out, "%-30s %-7s %3d violations   %s\n", rule.Name, rule.Requirement, by[rule.Name], rule.Says)
	}
	for i, v := range violations {
		if i == shown {
			fmt.Fprintf(out, "and %d more\n", len(violations)-shown)
			break
		}
		fmt.Fprintf(out, "VIOLATION %s %s: %s\n", v.Rule, v.Job, v.Text)
	}
	verdict := "HELD"
	if len(violations) > 0 {
		verdict = fmt.Sprintf("VIOLATED: %d", len(violations))
	}
	fmt.Fprintf(out, "\nseed %d %s: %s\n", run.Seed, run.Case, verdict)
}

func clip(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

func round(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(10 * time.Millisecond).String()
}
