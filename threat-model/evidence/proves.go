package evidence

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// PartsEnv names the folder into which each test process appends its cases, one
// JSON line a case; `ci/evidence` merges them into the suite's document. Without
// it tests run as usual and leave nothing.
const PartsEnv = "GLOVEBOX_EVIDENCE_PARTS"

// Claim is what a test says of itself beyond its name.
type Claim struct {
	Requirements []string
	Threats      []string
	Tried        string
	Oracle       string
}

// Proves marks the test as proof of the requirements. Call it first, once a test.
// An id that is not in requirements.yaml fails the test.
func Proves(t testing.TB, requirements ...string) {
	t.Helper()
	Record(t, Claim{Requirements: requirements})
}

// Record marks the test as the case described by claim. An id that is not in
// requirements.yaml or threats.yaml fails the test.
func Record(t testing.TB, claim Claim) {
	t.Helper()
	known, err := Requirements()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range claim.Requirements {
		if _, ok := known[id]; !ok {
			t.Fatalf("evidence: requirement %q is not in threat-model/requirements.yaml", id)
		}
	}
	threats, err := Threats()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range claim.Threats {
		if _, ok := threats[id]; !ok {
			t.Fatalf("evidence: threat %q is not in threat-model/threats.yaml", id)
		}
	}
	dir := os.Getenv(PartsEnv)
	if dir == "" {
		return
	}
	id := caseID(t)
	started := time.Now()
	t.Cleanup(func() {
		c := Case{
			ID: id, Title: strings.ReplaceAll(t.Name(), "_", " "), Requirements: claim.Requirements,
			Threats: claim.Threats, Tried: claim.Tried, Oracle: claim.Oracle,
			Verdict: Held, DurationMS: time.Since(started).Milliseconds(),
		}
		switch {
		case t.Failed():
			c.Verdict, c.Detail = Breached, "the test failed; its output tells why"
		case t.Skipped():
			c.Verdict, c.Detail = Errored, "the test was skipped, which proves nothing"
		}
		if err := appendPart(dir, c); err != nil {
			t.Errorf("evidence: cannot record the case: %v", err)
		}
	})
}

// caseID is the test's package folder and name; go test runs in the package's
// folder, so the last two elements tell packages apart.
func caseID(t testing.TB) string {
	wd, err := os.Getwd()
	if err != nil {
		return t.Name()
	}
	if root := moduleRoot(wd); root != "" {
		if rel, err := filepath.Rel(root, wd); err == nil {
			return filepath.ToSlash(rel) + "." + t.Name()
		}
	}
	return t.Name()
}

func moduleRoot(dir string) string {
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

var partMu sync.Mutex

func appendPart(dir string, c Case) error {
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	partMu.Lock()
	defer partMu.Unlock()
	name := filepath.Join(dir, strconv.Itoa(os.Getpid())+"-"+filepath.Base(os.Args[0])+".jsonl")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, writeErr := f.Write(append(line, '\n'))
	if err := f.Close(); err != nil {
		return err
	}
	return writeErr
}
