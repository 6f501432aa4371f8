package evidence_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"glovebox/threat-model/evidence"
)

func good() evidence.Document {
	now := time.Now().UTC()
	return evidence.Document{
		Suite: "unit", SourceDigest: strings.Repeat("a", 40), Started: now, Finished: now, Machine: map[string]string{},
		Cases: []evidence.Case{{ID: "x.TestY", Title: "y", Requirements: []string{"JOB-01"}, Verdict: evidence.Held}},
	}
}

func TestGateRefusesDoubtfulEvidence(t *testing.T) {
	evidence.Proves(t, "HAR-01")
	if err := good().Validate(); err != nil {
		t.Fatalf("control failed, a good document is refused: %v", err)
	}
	tests := map[string]func(*evidence.Document){
		"unknown suite":        func(d *evidence.Document) { d.Suite = "other" },
		"no source digest":     func(d *evidence.Document) { d.SourceDigest = "" },
		"no cases":             func(d *evidence.Document) { d.Cases = nil },
		"finished first":       func(d *evidence.Document) { d.Finished = d.Started.Add(-time.Second) },
		"unknown verdict":      func(d *evidence.Document) { d.Cases[0].Verdict = "passed" },
		"unknown requirement":  func(d *evidence.Document) { d.Cases[0].Requirements = []string{"JOB-99"} },
		"unknown threat":       func(d *evidence.Document) { d.Cases[0].Threats = []string{"PUB-X9"} },
		"case twice":           func(d *evidence.Document) { d.Cases = append(d.Cases, d.Cases[0]) },
		"silently unavailable": func(d *evidence.Document) { d.Cases[0].Verdict = evidence.Unavailable },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			d := good()
			spoil(&d)
			path := filepath.Join(t.TempDir(), "unit.json")
			if err := d.Write(path); err == nil {
				t.Fatal("written without an error")
			}
			if _, err := os.Stat(path); err == nil {
				t.Fatal("a refused document was left behind")
			}
		})
	}
}

func TestReadRefusesUnknownKeys(t *testing.T) {
	evidence.Proves(t, "HAR-01")
	path := filepath.Join(t.TempDir(), "unit.json")
	if err := good().Write(path); err != nil {
		t.Fatal(err)
	}
	if _, err := evidence.Read(path); err != nil {
		t.Fatalf("control failed: %v", err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	spoilt := strings.Replace(string(content), `"suite"`, `"extra": 1, "suite"`, 1)
	if err := os.WriteFile(path, []byte(spoilt), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := evidence.Read(path); err == nil {
		t.Fatal("an unknown key was accepted")
	}
}

// The schema is what others validate against: it must name exactly the keys that
// the types write.
func TestSchemaNamesExactlyTheKeysWritten(t *testing.T) {
	type object struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	var doc object
	if err := json.Unmarshal(evidence.Schema, &doc); err != nil {
		t.Fatal(err)
	}
	var cases struct {
		Items object `json:"items"`
	}
	if err := json.Unmarshal(doc.Properties["cases"], &cases); err != nil {
		t.Fatal(err)
	}
	check := func(name string, schema object, typ reflect.Type) {
		var want, got []string
		for i := range typ.NumField() {
			want = append(want, typ.Field(i).Tag.Get("json"))
		}
		for key := range schema.Properties {
			got = append(got, key)
		}
		sort.Strings(want)
		sort.Strings(got)
		sort.Strings(schema.Required)
		if !reflect.DeepEqual(want, got) || !reflect.DeepEqual(want, schema.Required) {
			t.Errorf("%s: schema has %v (required %v), the type writes %v", name, got, schema.Required, want)
		}
	}
	check("document", doc, reflect.TypeFor[evidence.Document]())
	check("case", cases.Items, reflect.TypeFor[evidence.Case]())
}

func TestEveryRequirementHasASuite(t *testing.T) {
	all, err := evidence.Requirements()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 133 {
		t.Errorf("%d requirements, 133 expected: correct this number with the list", len(all))
	}
	for id, r := range all {
		switch r.By {
		case "unit", "attack", "probe", "chaos", "e2e", "doc":
		default:
			t.Errorf("%s: by %q is no suite", id, r.By)
		}
	}
}
