package main

import (
	"os"
	"strings"
	"testing"

	"glovebox/sandbox-probes/catalogue"
	"glovebox/threat-model/evidence"
)

func TestEveryDifferenceIsOfACheck(t *testing.T) {
	text, err := os.ReadFile("../expected-v2.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d, err := parseDifferences(text)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := catalogue.Load()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, p := range whole.Programs {
		for _, c := range p.Checks {
			known[p.Name+"/"+c.Name] = true
		}
	}
	for id := range d.Checks {
		if !known[id] {
			t.Errorf("no check is called %s", id)
		}
	}
	for id, what := range d.Missing {
		if !known[id] || what == "" {
			t.Errorf("check %s lacks %q", id, what)
		}
	}
	if len(d.Inside) == 0 || len(d.Outside) == 0 {
		t.Error("the posture is not read")
	}
}

func TestADifferenceNeedsAReason(t *testing.T) {
	for _, text := range []string{"checks: {a/b: open}", "checks: {a/b: {loosening: x}}", "check: {}"} {
		if _, err := parseDifferences([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// What excuses a check must not excuse a hole.
func TestJudgeTakesNoHoleForADifference(t *testing.T) {
	d, err := parseDifferences([]byte("checks: {p/other: {is: open, loosening: because}}\nmissing: {p/missing: such thing}\n"))
	if err != nil {
		t.Fatal(err)
	}
	none, open := catalogue.Outcome{Word: "shut", Number: "ENOENT"}, catalogue.Outcome{Word: "open"}
	for name, c := range map[string]struct {
		check         string
		seen, control catalogue.Outcome
		want          evidence.Verdict
		says          string
	}{
		"neither finds it":         {"missing", none, none, evidence.Unavailable, "has no such thing"},
		"both find it":             {"missing", open, open, evidence.Breached, "wanted EPERM"},
		"the core finds it":        {"missing", open, none, evidence.Breached, "wanted EPERM"},
		"it is there and stopped":  {"missing", catalogue.Outcome{Word: "shut", Number: "EPERM"}, open, evidence.Held, "control open"},
		"the difference":           {"other", open, open, evidence.Held, "accepted: because"},
		"another than that":        {"other", none, open, evidence.Breached, "wanted EPERM"},
		"no difference":            {"plain", open, open, evidence.Breached, "wanted EPERM"},
		"a control that is no one": {"plain", catalogue.Outcome{Word: "shut", Number: "EPERM"}, catalogue.Outcome{Word: "shut", Number: "EPERM"}, evidence.Errored, "proves nothing"},
	} {
		p := &prober{differs: d, controls: map[string]map[string]catalogue.Outcome{"p": {c.check: c.control}}}
		verdict, detail := p.judge(catalogue.Program{Name: "p"}, catalogue.Check{Name: c.check, By: "EPERM"}, c.seen)
		if verdict != c.want || !strings.Contains(detail, c.says) {
			t.Errorf("%s: %s, %s", name, verdict, detail)
		}
	}
}
