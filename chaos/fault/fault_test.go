package fault

import (
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"glovebox/chaos/rig"
	"glovebox/threat-model/evidence"
)

// The points are named here a second time, because the language closes the
// product's package to this one: both lists must be the same.
func TestEveryCrashPointIsUsed(t *testing.T) {
	evidence.Proves(t, "HAR-06")
	content, err := os.ReadFile("../../system/server/internal/jobs/crashpoint/points.go")
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, match := range regexp.MustCompile(`Point = "([^"]+)"`).FindAllStringSubmatch(string(content), -1) {
		there = append(there, match[1])
	}
	ours := slices.Concat(submitPoints, finishPoints, sweepPoints)
	slices.Sort(there)
	slices.Sort(ours)
	if len(there) == 0 || !slices.Equal(there, ours) {
		t.Errorf("the product has the points %v, chaos uses %v", there, ours)
	}
}

func TestKinds(t *testing.T) {
	evidence.Proves(t, "HAR-06")
	known, err := evidence.Requirements()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig.Rig{Options: rig.Options{Servers: 2, Workers: 3}}
	seen := map[string]bool{}
	claimed := map[string]bool{}
	for _, k := range Kinds() {
		if seen[k.Name] || k.Title == "" || k.Family == "" || len(k.Requirements) == 0 || len(k.Threats) == 0 {
			t.Errorf("%+v stands twice or is not whole", k)
		}
		seen[k.Name] = true
		for _, id := range k.Requirements {
			if _, ok := known[id]; !ok {
				t.Errorf("%s: there is no requirement %s", k.Name, id)
			}
			claimed[id] = true
		}
		if strings.HasPrefix(k.Name, "net-") {
			continue // draws from the links of a running rig
		}
		f := k.Make(rand.New(rand.NewPCG(1, 2)), r)
		again := k.Make(rand.New(rand.NewPCG(1, 2)), r)
		if f.String() != again.String() || f.Hold() != again.Hold() {
			t.Errorf("%s: the same seed made %q and %q", k.Name, f, again)
		}
	}
	// What the list of requirements leaves to this suite from the second delivery on.
	for _, id := range []string{"JOB-05", "JOB-06", "JOB-08", "JOB-12", "UPL-04", "UPL-08", "SBX-12", "STO-02", "STO-03", "REL-05", "HAR-06"} {
		if !claimed[id] {
			t.Errorf("no fault puts %s to the test", id)
		}
	}
}
