package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"glovebox/threat-model/evidence"
)

func TestCountTakesOnlyHeldEvidenceOfThisSource(t *testing.T) {
	evidence.Proves(t, "HAR-01")
	now := time.Now().UTC()
	write := func(verdict evidence.Verdict) string {
		path := filepath.Join(t.TempDir(), "probes.json")
		doc := evidence.Document{
			Suite: "probes", SourceDigest: strings.Repeat("a", 40), Started: now, Finished: now, Machine: map[string]string{},
			Cases: []evidence.Case{{ID: "a/b", Requirements: []string{"SBX-01"}, Verdict: verdict, Detail: "x"}},
		}
		if err := doc.Write(path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := map[string]struct {
		path, suite, digest string
		ok                  bool
	}{
		"control":        {write(evidence.Held), "probes", strings.Repeat("a", 40), true},
		"unavailable":    {write(evidence.Unavailable), "probes", strings.Repeat("a", 40), true},
		"breached":       {write(evidence.Breached), "probes", strings.Repeat("a", 40), false},
		"error":          {write(evidence.Errored), "probes", strings.Repeat("a", 40), false},
		"another source": {write(evidence.Held), "probes", strings.Repeat("b", 40), false},
		"another suite":  {write(evidence.Held), "attacks", strings.Repeat("a", 40), false},
		"missing":        {filepath.Join(t.TempDir(), "probes.json"), "probes", strings.Repeat("a", 40), false},
	}
	for name, test := range tests {
		if err := count(test.path, test.suite, test.digest); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
