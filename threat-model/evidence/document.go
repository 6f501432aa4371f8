// Package evidence is the one form in which every suite says what it proved.
//
// A suite's document (out/evidence/NAME.json) lists cases, each with the
// requirements and threats it speaks for, what was tried, the oracle that looked,
// and a verdict. Only `held` counts as proof; the sign-off reads nothing else.
// The form is held to evidence.schema.json by a test, and a document with an
// unknown key, suite, verdict, requirement or threat does not load (HAR-01).
package evidence

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// Schema is the JSON Schema of a document.
//
//go:embed evidence.schema.json
var Schema []byte

// Verdict is the outcome of one case.
type Verdict string

// The verdicts. Unavailable names the missing thing in the case's detail.
const (
	Held        Verdict = "held"
	Breached    Verdict = "breached"
	Errored     Verdict = "error"
	Unavailable Verdict = "unavailable"
)

// Verdicts lists every verdict a document may hold.
var Verdicts = []Verdict{Held, Breached, Errored, Unavailable}

// Suites lists every suite's name.
var Suites = []string{"unit", "e2e", "core", "probes", "chaos", "attacks", "fuzz", "doc", "mutants"}

// Case is one claim that was put to the test.
type Case struct {
	ID           string   `json:"id"`
	Title        string   `json:"title"`
	Requirements []string `json:"requirements"`
	Threats      []string `json:"threats"`
	Tried        string   `json:"tried"`
	Oracle       string   `json:"oracle"`
	Verdict      Verdict  `json:"verdict"`
	Detail       string   `json:"detail"`
	DurationMS   int64    `json:"duration_ms"`
}

// Document is the evidence of one run of one suite.
type Document struct {
	Suite        string            `json:"suite"`
	SourceDigest string            `json:"source_digest"`
	Dirty        bool              `json:"dirty"`
	ImageDigest  string            `json:"image_digest"`
	Started      time.Time         `json:"started"`
	Finished     time.Time         `json:"finished"`
	Seed         int64             `json:"seed"`
	Machine      map[string]string `json:"machine"`
	Cases        []Case            `json:"cases"`
}

var treeHash = regexp.MustCompile(`^[0-9a-f]{40,64}$`)

// Validate returns every fault of the document, joined.
func (d Document) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if !slices.Contains(Suites, d.Suite) {
		fault("suite %q is not one of %v", d.Suite, Suites)
	}
	if !treeHash.MatchString(d.SourceDigest) {
		fault("source_digest %q is not a git tree hash", d.SourceDigest)
	}
	if d.Started.IsZero() || d.Finished.Before(d.Started) {
		fault("started %s and finished %s are not a span of time", d.Started, d.Finished)
	}
	if len(d.Cases) == 0 {
		fault("no case was run")
	}
	known, err := Requirements()
	if err != nil {
		return err
	}
	threats, err := Threats()
	if err != nil {
		return err
	}
	seen := make(map[string]bool, len(d.Cases))
	for _, c := range d.Cases {
		if c.ID == "" || seen[c.ID] {
			fault("case id %q is empty or stands twice", c.ID)
		}
		seen[c.ID] = true
		if !slices.Contains(Verdicts, c.Verdict) {
			fault("case %s: verdict %q is not one of %v", c.ID, c.Verdict, Verdicts)
		}
		if c.Verdict == Unavailable && c.Detail == "" {
			fault("case %s: unavailable without the missing thing in detail", c.ID)
		}
		for _, id := range c.Requirements {
			if _, ok := known[id]; !ok {
				fault("case %s: requirement %q is not in requirements.yaml", c.ID, id)
			}
		}
		for _, id := range c.Threats {
			if _, ok := threats[id]; !ok {
				fault("case %s: threat %q is not in threats.yaml", c.ID, id)
			}
		}
	}
	return errors.Join(errs...)
}

// Write validates the document and replaces the file at path with it.
func (d Document) Write(path string) error {
	if err := d.Validate(); err != nil {
		return fmt.Errorf("evidence of suite %s is not valid: %w", d.Suite, err)
	}
	for i := range d.Cases {
		if d.Cases[i].Requirements == nil {
			d.Cases[i].Requirements = []string{}
		}
		if d.Cases[i].Threats == nil {
			d.Cases[i].Threats = []string{}
		}
	}
	content, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return fmt.Errorf("encode evidence: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the evidence folder: %w", err)
	}
	temporary := path + ".part"
	if err := os.WriteFile(temporary, append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("write evidence: %w", err)
	}
	return os.Rename(temporary, path)
}

// Read loads and validates the document at path.
func Read(path string) (Document, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Document{}, fmt.Errorf("read evidence: %w", err)
	}
	var d Document
	dec := json.NewDecoder(bytes.NewReader(content))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return Document{}, fmt.Errorf("read evidence %s: %w", path, err)
	}
	if err := d.Validate(); err != nil {
		return Document{}, fmt.Errorf("evidence %s is not valid: %w", path, err)
	}
	return d, nil
}
