package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"glovebox/chaos/fault"
	"glovebox/chaos/history"
	"glovebox/chaos/model"
	"glovebox/chaos/validate"
	"glovebox/threat-model/evidence"
)

// oracle is who looked, in every case.
const oracle = "the users' own history with the bytes of every result, the database's rows and events, the files in storage, the engine's list, cgroups, mounts and processes of this instance"

// Evidence writes the run as the suite's document. A rule is a case; so is a kind
// of fault, which holds when it was done and the system came back from it each
// time with no rule violated.
func Evidence(root, path string, run model.Run, record history.Record, violations []history.Violation, more ...evidence.Case) error {
	digest, dirty, err := evidence.SourceDigest(root)
	if err != nil {
		return err
	}
	doc := evidence.Document{
		Suite: "chaos", SourceDigest: digest, Dirty: dirty, ImageDigest: coreImage(root), Started: run.Began, Finished: run.Ended,
		Seed: int64(run.Seed & math.MaxInt64), Machine: evidence.Machine(),
	}
	took := run.Ended.Sub(run.Began).Milliseconds()
	s := validate.Summarise(run, record)
	for _, rule := range validate.Rules() {
		var broken []history.Violation
		for _, v := range violations {
			if v.Rule == rule.Name {
				broken = append(broken, v)
			}
		}
		c := evidence.Case{
			ID: "chaos/rule/" + rule.Name, Title: rule.Says, Requirements: []string{rule.Requirement}, Oracle: oracle, Verdict: evidence.Held, DurationMS: took,
			Tried:  fmt.Sprintf("%d faults of %d kinds under %d operations of %d jobs", s.Done, len(s.Kinds), s.Operations, s.Acked),
			Detail: fmt.Sprintf("seed %d", run.Seed),
		}
		if len(broken) > 0 {
			c.Verdict, c.Detail = evidence.Breached, fmt.Sprintf("%d violations, the first: %s %s", len(broken), broken[0].Job, broken[0].Text)
		}
		doc.Cases = append(doc.Cases, c)
	}
	doc.Cases = append(doc.Cases, kindCases(s, len(violations) == 0)...)
	doc.Cases = append(doc.Cases, more...)
	return doc.Write(path)
}

// FailoverEvidence is the case of the loss of everything; failed is why it came to
// no verdict.
func FailoverEvidence(run model.Run, violations []history.Violation, failed error) evidence.Case {
	c := evidence.Case{
		ID: "chaos/case/failover", Title: "everything is lost, and the system goes on from a backup that was taken under traffic",
		Requirements: []string{"JOB-05", "JOB-06", "HAR-06"}, Threats: []string{"DBS-D1", "INT-T1"},
		Tried:  "backup under load with a job in progress; SIGKILL of every server, database and storage replaced by empty ones; restore, pause, resume; the lost system's worker comes back with its token",
		Oracle: oracle, Verdict: evidence.Held, DurationMS: run.Ended.Sub(run.Began).Milliseconds(),
	}
	for _, r := range run.Rounds {
		c.Detail = "from the loss to the first jobs " + r.Recovery().Round(time.Millisecond).String()
	}
	switch {
	case failed != nil:
		c.Verdict, c.Detail, c.DurationMS = evidence.Errored, failed.Error(), 0
	case len(violations) > 0:
		c.Verdict, c.Detail = evidence.Breached, fmt.Sprintf("%d violations, the first: %s %s", len(violations), violations[0].Rule, violations[0].Text)
	}
	return c
}

func kindCases(s validate.Summary, held bool) []evidence.Case {
	known := map[string]fault.Kind{}
	for _, k := range fault.Kinds() {
		known[k.Name] = k
	}
	var cases []evidence.Case
	for _, k := range s.Kinds {
		c := evidence.Case{
			ID: "chaos/fault/" + k.Kind, Title: k.Title, Requirements: known[k.Kind].Requirements, Threats: known[k.Kind].Threats, Oracle: oracle, Verdict: evidence.Held,
			Tried: fmt.Sprintf("%d times under load", k.Done), Detail: "worst time to recover " + k.Worst.Round(time.Millisecond).String(), DurationMS: k.Worst.Milliseconds(),
		}
		switch {
		case k.Done == 0:
			c.Verdict, c.Detail = evidence.Unavailable, cmp.Or(k.Why, "it was not done")
		case k.Recovered < k.Done:
			c.Verdict, c.Detail = evidence.Breached, fmt.Sprintf("the system came back %d of %d times", k.Recovered, k.Done)
		case !held:
			c.Verdict, c.Detail = evidence.Errored, "a rule was violated in this run, by this fault or another"
		}
		cases = append(cases, c)
	}
	slices.SortFunc(cases, func(a, b evidence.Case) int { return strings.Compare(a.ID, b.ID) })
	return cases
}

// coreImage is the digest of the project's core image, "" where it is not built.
func coreImage(root string) string {
	content, err := os.ReadFile(filepath.Join(root, "out/images/core.json"))
	if err != nil {
		return ""
	}
	var built struct {
		Digest string `json:"digest"`
	}
	_ = json.Unmarshal(content, &built)
	return built.Digest
}
