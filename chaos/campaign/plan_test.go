package campaign

import (
	"math/rand/v2"
	"slices"
	"testing"

	"glovebox/chaos/fault"
	"glovebox/threat-model/evidence"
)

// ours is what the list of requirements leaves to this suite from the second
// delivery on.
var ours = []string{"JOB-05", "JOB-06", "JOB-08", "JOB-12", "UPL-04", "UPL-08", "SBX-12", "STO-02", "STO-03", "REL-05", "HAR-06"}

// The short form must put every requirement to the test whatever the seed, and
// over the seeds every group's kinds must have their turn.
func TestShortCoversEachRequirementWithEachSeed(t *testing.T) {
	evidence.Proves(t, "HAR-06")
	seen := map[string]bool{}
	for seed := range uint64(200) {
		plan := Short(seed)
		var claimed []string
		for _, k := range plan.kinds {
			claimed = append(claimed, k.Requirements...)
			seen[k.Name] = true
		}
		for _, id := range ours {
			if !slices.Contains(claimed, id) {
				t.Fatalf("seed %d: nothing puts %s to the test", seed, id)
			}
		}
		if plan.Rounds != len(plan.kinds) || plan.Rounds < 6 {
			t.Fatalf("seed %d: %d rounds of %d kinds", seed, plan.Rounds, len(plan.kinds))
		}
	}
	// The long and the rare are left to the full form.
	full := []string{"disk-read-only", "drain-server", "rolling-restart", "rolling-workers", "renew-certificates"}
	for _, k := range fault.Kinds() {
		if !seen[k.Name] && !slices.Contains(full, k.Name) {
			t.Errorf("no seed of 200 draws %s", k.Name)
		}
	}
}

// Every kind has its turn before one comes again, the same seed draws the same
// course, and two at once never touch the same thing.
func TestCourseOfARandomPlan(t *testing.T) {
	evidence.Proves(t, "HAR-06")
	draw := func() (names [][]string, pairs int) {
		c := AtRandom(300, 0).start(rand.New(rand.NewPCG(5, 5)), nil)
		for {
			kinds, ok := c.next()
			if !ok {
				return names, pairs
			}
			var round []string
			for _, k := range kinds {
				round = append(round, k.Name)
			}
			names = append(names, round)
			if len(kinds) == 2 {
				pairs++
				if kinds[0].Family == kinds[1].Family || kinds[0].Alone || kinds[1].Alone {
					t.Errorf("%v at once", round)
				}
			}
		}
	}
	names, pairs := draw()
	again, _ := draw()
	if len(names) != 300 || pairs == 0 || !slices.EqualFunc(names, again, slices.Equal[[]string]) {
		t.Errorf("%d rounds, %d with two faults", len(names), pairs)
	}
	done := map[string]bool{}
	for _, round := range names {
		for _, name := range round {
			done[name] = true
		}
	}
	if len(done) != len(fault.Kinds()) {
		t.Errorf("300 rounds had %d kinds of %d", len(done), len(fault.Kinds()))
	}
}

func TestNamedPlans(t *testing.T) {
	evidence.Proves(t, "HAR-06")
	for _, c := range Cases() {
		plan, err := Named(c.Name, 0, 0)
		if err != nil || plan.Rounds != len(c.Kinds) || !plan.inOrder || c.Title == "" {
			t.Errorf("%s: %+v %v", c.Name, plan, err)
		}
	}
	if plan, err := Named("net-", 3, 0); err != nil || plan.Rounds != 3 || len(plan.kinds) < 10 {
		t.Errorf("a part of a name: %d kinds, %v", len(plan.kinds), err)
	}
	if _, err := Named("no-such-thing", 0, 0); err == nil {
		t.Error("a case that does not exist was taken")
	}
}
