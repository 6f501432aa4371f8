package suite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"glovebox/threat-model/evidence"
)

const (
	these = "0123456789012345678901234567890123456789"
	those = "9876543210987654321098765432109876543210"
)

func document(digest string, started time.Time, ids ...string) evidence.Document {
	d := evidence.Document{Suite: "probes", SourceDigest: digest, ImageDigest: "sha256:core", Started: started, Finished: started.Add(time.Minute), Machine: map[string]string{"virtual_machine": "emulated"}}
	for _, id := range ids {
		d.Cases = append(d.Cases, evidence.Case{ID: id, Verdict: evidence.Held, Requirements: []string{"SBX-10"}})
	}
	return d
}

func TestTheMachinesCasesAreTakenOnlyIfTheyAreOfTheseSources(t *testing.T) {
	evidence.Proves(t, "HAR-01")
	now := time.Now().UTC()
	breached := document(these, now.Add(-time.Hour), "v2/one", "v2/two")
	breached.Cases[1].Verdict = evidence.Breached
	otherSuite := document(these, now, "v2/one")
	otherSuite.Suite = "unit"
	for name, c := range map[string]struct {
		left        *evidence.Document
		taken       int
		says, fault string
	}{
		"of these sources":     {left: &breached, taken: 2, says: "2 cases of the preferred mode taken"},
		"of other sources":     {left: new(document(those, now, "v2/one")), says: "was made from sources 987654321098, this from 012345678901"},
		"none":                 {says: "is not there; run make probes-v2"},
		"of another suite":     {left: &otherSuite, fault: "evidence of suite unit"},
		"a case of ours":       {left: new(document(these, now, "v2/one", "posture/whole")), fault: `case "posture/whole", which is none of its own`},
		"not a whole document": {left: &evidence.Document{Suite: "probes"}, fault: "run make probes-v2"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "probes-v2.json")
			if c.left != nil {
				leave(t, path, *c.left)
			}
			d := document(these, now, "posture/whole")
			d.Machine = map[string]string{"kernel": "this"}
			said, err := TakeEmulated(&d, path)
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) {
					t.Fatalf("wanted a fault %q, got %v", c.fault, err)
				}
			} else if err != nil || !strings.Contains(said, c.says) {
				t.Fatalf("said %q, %v; wanted %q", said, err, c.says)
			}
			if len(d.Cases) != 1+c.taken {
				t.Fatalf("%d cases, wanted %d", len(d.Cases), 1+c.taken)
			}
			if c.taken == 0 {
				return
			}
			// What failed in the machine fails here, and when and where it ran stays told.
			if Count(d)[evidence.Breached] != 1 || !d.Started.Equal(breached.Started) || d.Machine["virtual_machine"] != "emulated" || d.Machine["virtual_machine_core"] != "sha256:core" {
				t.Errorf("%+v", d)
			}
			if err := d.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

// leave writes what the machine would; one that is not valid goes without its check.
func leave(t *testing.T, path string, d evidence.Document) {
	t.Helper()
	if err := d.Write(path); err == nil {
		return
	}
	if err := os.WriteFile(path, []byte(`{"suite":"probes"}`), 0o600); err != nil {
		t.Fatal(err)
	}
}
