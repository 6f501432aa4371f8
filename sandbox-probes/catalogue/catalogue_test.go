package catalogue

import (
	"strings"
	"testing"

	"glovebox/threat-model/evidence"
)

func TestCatalogueIsWhole(t *testing.T) {
	c, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	if programs, checks := c.Count(); programs < 40 || checks < 150 {
		t.Errorf("%d programs with %d checks; 40 with 150 are the least", programs, checks)
	}
	requirements, err := evidence.Requirements()
	if err != nil {
		t.Fatal(err)
	}
	threats, err := evidence.Threats()
	if err != nil {
		t.Fatal(err)
	}
	named := func(program string, requirementIDs, threatIDs []string) {
		if len(requirementIDs) == 0 || len(threatIDs) == 0 {
			t.Errorf("%s: no requirement or no threat is named", program)
		}
		for _, id := range requirementIDs {
			if _, ok := requirements[id]; !ok {
				t.Errorf("%s: requirement %s is unknown", program, id)
			}
		}
		for _, id := range threatIDs {
			if _, ok := threats[id]; !ok {
				t.Errorf("%s: threat %s is unknown", program, id)
			}
		}
	}
	for _, p := range c.Programs {
		named(p.Name, p.Requirements, p.Threats)
	}
	for _, e := range c.Endings {
		named(e.Name, e.Requirements, e.Threats)
	}
}

func TestCatalogueRefusesContradictions(t *testing.T) {
	tests := map[string]string{
		"unknown key":     "checks: [{program: p, what: x}]",
		"check twice":     "checks: [{program: p, checks: [{name: a, by: EPERM}, {name: a, by: EPERM}]}]",
		"neither":         "checks: [{program: p, checks: [{name: a}]}]",
		"both":            "checks: [{program: p, checks: [{name: a, by: EPERM, open: why}]}]",
		"open as a wall":  "checks: [{program: p, checks: [{name: a, by: open}]}]",
		"behind no wall":  "checks: [{program: p, checks: [{name: a, by: EPERM, behind: EPERM}]}]",
		"half an ending":  "endings: [{program: p, ways: [{name: a, ends: exit 0}]}]",
		"program in both": "checks: [{program: p}]\nendings: [{program: p}]",
	}
	for name, text := range tests {
		if _, err := parse([]byte(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := parse([]byte("checks: [{program: p, checks: [{name: a, by: EPERM}]}]")); err != nil {
		t.Errorf("control: %v", err)
	}
}

func TestStoppedAndCame(t *testing.T) {
	shut := func(errno string) Outcome { return Outcome{Word: "shut", Number: errno} }
	open := Outcome{Word: "open"}
	filtered, walled := Check{By: Filter}, Check{By: "EROFS"}
	for _, bad := range []Outcome{open, shut("EINVAL"), {Word: "signal", Number: "SIGSEGV"}, {Word: "note"}} {
		if filtered.Stopped(bad) || walled.Stopped(bad) {
			t.Errorf("%s passes for stopped", bad)
		}
	}
	if !filtered.Stopped(shut("EPERM")) || !filtered.Stopped(shut("ENOSYS")) || !walled.Stopped(shut("EROFS")) || walled.Stopped(shut("EPERM")) {
		t.Error("a stop is not taken for one")
	}
	if filtered.Came(shut("EPERM"), true, shut("EPERM")) || filtered.Came(Outcome{}, false, shut("EPERM")) {
		t.Error("a control that was stopped passes")
	}
	if !filtered.Came(shut("EINVAL"), true, shut("EPERM")) || !filtered.Came(open, true, shut("EPERM")) {
		t.Error("a control that came through does not pass")
	}
}

func TestParseRefusesForgedLines(t *testing.T) {
	for _, text := range []string{"CHECK a open\n", "CHECK a maybe - x\n", "CHECK a open -\nCHECK a open -\n", "anything\n"} {
		if _, _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	o, complete, err := Parse([]byte("CHECK a shut EPERM size=1 x\nEND\n"))
	if err != nil || !complete || o["a"].Number != "EPERM" || !strings.HasPrefix(o["a"].Detail, "size=1") {
		t.Errorf("%v %v %v", o, complete, err)
	}
}
