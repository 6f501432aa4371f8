package planted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"glovebox/threat-model/evidence"
)

// Env chooses the faults: "all", or a word of their names.
const Env = "GLOVEBOX_PLANTED"

// inCI are the faults of the short form: one for each of the two tests.
var inCI = []string{"heartbeat-without-token", "claim-without-attempt"}

func chosen() []fault {
	word := os.Getenv(Env)
	var list []fault
	for _, f := range faults {
		if word == "all" || word != "" && strings.Contains(f.name, word) || word == "" && slices.Contains(inCI, f.name) {
			list = append(list, f)
		}
	}
	return list
}

func TestEachPlantedFaultIsFound(t *testing.T) {
	evidence.Proves(t, "HAR-05")
	list := chosen()
	if len(list) == 0 {
		t.Fatalf("%s is %q: no fault has that in its name", Env, os.Getenv(Env))
	}
	var table strings.Builder
	for _, f := range list {
		began := time.Now()
		at, how := f.try(t)
		fmt.Fprintf(&table, "%-26s %8d of %7d  %-28s %4.0f s  %s\n", f.name, at, f.within, how, time.Since(began).Seconds(), f.says)
	}
	t.Logf("%d faults planted:\n%-26s %8s    %7s  %-28s\n%s", len(list), "fault", "found at", "within", "by", table.String())
}

// TestWhatIsLiftedForAFaultFindsNothingItself runs the histories with every
// constraint lifted that any fault lifts, and no fault.
func TestWhatIsLiftedForAFaultFindsNothingItself(t *testing.T) {
	control := fault{name: "none", test: histories, within: 80}
	if os.Getenv(Env) == "all" {
		control.within = 1_000
	}
	for _, f := range faults {
		control.lift = append(control.lift, f.lift...)
	}
	slices.Sort(control.lift)
	control.lift = slices.Compact(control.lift)
	if out, err := control.run(t, control.build(t)); err != nil {
		t.Fatalf("without a fault: %v\n%s", err, last(out))
	}
}

// count is what both tests print where they end early.
var (
	count = regexp.MustCompile(`(?:disagreed|violations) after (\d+) (?:steps|histories)`)
	rule  = regexp.MustCompile(`batch \d+: ([a-z-]+), job`)
)

// try plants the fault, and returns after how many steps or histories it was found
// and what found it.
func (f fault) try(t *testing.T) (at int, how string) {
	t.Helper()
	out, err := f.run(t, f.build(t))
	found := count.FindSubmatch(out)
	if err == nil || found == nil || !bytes.Contains(out, []byte("--- FAIL: "+f.test.name)) {
		t.Errorf("%s: not found within %d: %v\n%s", f.name, f.within, err, last(out))
		return 0, "NOT FOUND"
	}
	at, _ = strconv.Atoi(string(found[1])) // digits
	if at > f.within {
		t.Errorf("%s: found after %d, too late for %d", f.name, at, f.within)
	}
	how = "the model's answer"
	if by := rule.FindSubmatch(out); by != nil {
		how = string(by[1])
	}
	return at, how
}

// build compiles the test with the fault in it. What does not compile was not
// tried.
func (f fault) build(t *testing.T) (binary string) {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("../..") // system/server/internal
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	for _, e := range f.edits {
		path := filepath.Join(root, e.file)
		source := path
		if edited, ok := replace[path]; ok {
			source = edited
		}
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), e.old); n != 1 {
			t.Fatalf("%s: %s has the text to change %d times, not once: %q", f.name, e.file, n, e.old)
		}
		replace[path] = filepath.Join(dir, strings.ReplaceAll(e.file, "/", "_"))
		if err := os.WriteFile(replace[path], []byte(strings.Replace(string(text), e.old, e.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-p", "2", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, "./"+f.test.pkg)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s does not build: %v\n%s", f.name, err, out)
	}
	return binary
}

// run runs the test until it finds something or has come as far as it may. It
// leaves no evidence: what it says is of a system that is not ours.
func (f fault) run(t *testing.T, binary string) ([]byte, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "-test.run", "^"+f.test.name+"$", "-test.v", "-test.timeout", "10m")
	if f.test == model {
		cmd.Args = append(cmd.Args, "-rapid.nofailfile")
	}
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), evidence.PartsEnv+"=", fmt.Sprintf("%s=%d", f.test.countEnv, f.within), "GLOVEBOX_LIFT="+strings.Join(f.lift, ","))
	return cmd.CombinedOutput()
}

// last is the end of an output.
func last(out []byte) []byte { return out[max(0, len(out)-4000):] }
