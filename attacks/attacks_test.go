package attacks

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"glovebox/attacks/harness"
	"glovebox/attacks/vectors"
	"glovebox/threat-model/evidence"
)

// TestCasesSayWhatTheyProve holds every case to the frame's rules, its ids to the
// lists, and asks of each that it names a threat.
func TestCasesSayWhatTheyProve(t *testing.T) {
	evidence.Proves(t, "HAR-01")
	if err := harness.Validate(Families); err != nil {
		t.Fatal(err)
	}
	threats, err := evidence.Threats()
	if err != nil {
		t.Fatal(err)
	}
	oracles := map[string]string{}
	for _, f := range Families {
		for _, c := range f.Cases {
			if len(c.Threats) == 0 {
				t.Errorf("%s names no threat", c.ID)
			}
			for _, id := range c.Threats {
				if _, ok := threats[id]; !ok {
					t.Errorf("%s: threat %q is not in threats.yaml", c.ID, id)
				}
			}
			// Cases are counted by threat and oracle: two of one title are one.
			if other := oracles[c.Title]; other != "" {
				t.Errorf("%s and %s have one title", c.ID, other)
			}
			oracles[c.Title] = c.ID
		}
	}
	if err := harness.Validate([]harness.Family{{Name: "x", Cases: []harness.Case{{ID: "x/y"}}}}); err == nil {
		t.Error("a case that says nothing passes")
	}
}

// TestEveryAttackRequirementIsAttacked: each line of requirements.yaml that is to be
// held by attacks, and is of this release, has a case, also in the CI form.
func TestEveryAttackRequirementIsAttacked(t *testing.T) {
	all, err := evidence.Requirements()
	if err != nil {
		t.Fatal(err)
	}
	short, err := harness.Select(Families, nil, false, true)
	if err != nil {
		t.Fatal(err)
	}
	attacked := map[string]bool{}
	for _, c := range short {
		for _, id := range c.Requirements {
			attacked[id] = true
		}
	}
	later := []string{"pipeline", "ingest"} // since: 2
	for id, r := range all {
		if r.By == "attack" && !slices.Contains(later, r.Group) && !attacked[id] {
			t.Errorf("%s has no case in the CI form: %s", id, r.Text)
		}
	}
}

// mayImport is all that attacks take from this module. What starts the system comes
// with the frame alone; no case reaches what the server or the worker is made of.
var mayImport = map[string][]string{
	"attacks":             {"glovebox/attacks/*", "glovebox/threat-model/evidence"},
	"attacks/harness":     {"glovebox/attacks/oracle", "glovebox/ci/local", "glovebox/threat-model/evidence"},
	"attacks/cmd/attack":  {"glovebox/attacks", "glovebox/attacks/harness", "glovebox/threat-model/evidence"},
	"attacks/vectors":     {},
	"attacks/mutants/...": nil, // judged by its own test: it changes the product
}

func TestImportRules(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasPrefix(path, "mutants/") {
			return err
		}
		dir := strings.TrimSuffix("attacks/"+filepath.ToSlash(filepath.Dir(path)), "/.")
		allowed, named := mayImport[dir]
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			checked++
			if name == "glovebox/system/testdb" && strings.HasSuffix(path, "_test.go") {
				continue // an instrument is tried on a real database
			}
			if bad := forbidden(name, allowed, named); bad != "" {
				t.Errorf("%s imports %s: %s", path, name, bad)
			}
		}
		return nil
	})
	if err != nil || checked < 50 {
		t.Fatalf("%d imports seen (%v)", checked, err)
	}
	for _, name := range []string{"glovebox/system/server/internal/jobs", "glovebox/system/platform/pki", "glovebox/ci/local"} {
		if forbidden(name, mayImport["attacks"], true) == "" {
			t.Errorf("the rule lets %s pass", name)
		}
	}
}

func forbidden(name string, allowed []string, named bool) string {
	switch {
	case !strings.HasPrefix(name, "glovebox/"):
		return ""
	case strings.HasPrefix(name, "glovebox/system/"):
		return "an attack reads no code of the product"
	case !named: // a package beside these: of attacks and evidence alone
		allowed = mayImport["attacks"]
	}
	for _, a := range allowed {
		if tree, ok := strings.CutSuffix(a, "*"); a == name || ok && strings.HasPrefix(name, tree) {
			return ""
		}
	}
	return "it is not on this package's list"
}

func TestVectorsLoad(t *testing.T) {
	names, err := vectors.Names()
	if err != nil || len(names) == 0 {
		t.Fatalf("%v (%v)", names, err)
	}
	for _, name := range names {
		all, err := vectors.Load(name)
		if err != nil || len(all) < 5 {
			t.Errorf("%s: %d vectors (%v)", name, len(all), err)
		}
	}
}
