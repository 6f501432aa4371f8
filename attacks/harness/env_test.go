package harness

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"glovebox/threat-model/evidence"
)

// nowhere is a system that is never spoken to.
func nowhere() *System { return &System{World: Main, target: true, lanes: map[int][]*User{}} }

func outcomeOf(t *testing.T, run func(*Env)) Outcome {
	t.Helper()
	c := &Case{ID: "test/case", Title: "t", Requirements: []string{"HAR-01"}, Attack: "a", Control: "c", Oracle: "o", Run: run}
	return newEnv(t.Context(), nowhere(), c, 1, 0).run()
}

// TestVerdictsFailClosed: nothing but a control and a check that both hold is held.
func TestVerdictsFailClosed(t *testing.T) {
	evidence.Proves(t, "HAR-01")
	for name, tc := range map[string]struct {
		run  func(*Env)
		want evidence.Verdict
		says string
	}{
		"held":                 {func(e *Env) { e.Control(true, ""); e.Check(true, "") }, evidence.Held, ""},
		"nothing":              {func(*Env) {}, evidence.Errored, "proved nothing"},
		"no control":           {func(e *Env) { e.Check(true, "") }, evidence.Errored, "proved nothing"},
		"no check":             {func(e *Env) { e.Control(true, "") }, evidence.Errored, "proved nothing"},
		"control fails":        {func(e *Env) { e.Check(true, ""); e.Control(false, "blind") }, evidence.Errored, "blind"},
		"check fails":          {func(e *Env) { e.Control(true, ""); e.Check(false, "lost"); e.Check(true, "") }, evidence.Breached, "lost"},
		"breach, then trouble": {func(e *Env) { e.Check(false, "lost"); e.Must(errors.New("x"), "go on") }, evidence.Breached, "lost"},
		"must":                 {func(e *Env) { e.Control(true, ""); e.Check(true, ""); e.Must(errors.New("x"), "do it") }, evidence.Errored, "do it: x"},
		"panic":                {func(e *Env) { e.Control(true, ""); e.Check(true, ""); panic("boom") }, evidence.Errored, "boom"},
		"unavailable":          {func(e *Env) { e.Unavailable("a thing") }, evidence.Unavailable, "a thing"},
		"named input":          {func(e *Env) { e.Input("in %d", 7); e.Check(false, "lost") }, evidence.Breached, "in 7: lost"},
		"cleanup fails": {func(e *Env) {
			e.Control(true, "")
			e.Check(true, "")
			e.Cleanup(func(context.Context) error { return errors.New("stays") })
		}, evidence.Errored, "stays"},
		"cleanup ends the goroutine": {func(e *Env) {
			e.Control(true, "")
			e.Check(true, "")
			e.Cleanup(func(context.Context) error { e.Fail("in cleanup"); return nil })
		}, evidence.Errored, "ended the case"},
	} {
		t.Run(name, func(t *testing.T) {
			o := outcomeOf(t, tc.run)
			if o.Verdict != tc.want || !strings.Contains(o.Detail, tc.says) {
				t.Errorf("%s: %s, wanted %s with %q", o.Verdict, o.Detail, tc.want, tc.says)
			}
		})
	}
}

func TestCaseThatHangsIsAnError(t *testing.T) {
	c := &Case{ID: "test/hangs", Run: func(e *Env) { e.Control(true, ""); e.Check(true, ""); <-e.Context().Done() }}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if o := newEnv(ctx, nowhere(), c, 1, 0).run(); o.Verdict != evidence.Errored {
		t.Errorf("got %s", o.Verdict)
	}
}

func TestSecretsAndControlsNeverReachAReader(t *testing.T) {
	o := outcomeOf(t, func(e *Env) {
		e.tape.secret("the-secret", "the-secret-in-full")
		e.tape.record("> Bearer the-secret-in-full \x1b[2J")
		e.Note("seen the-secret")
		e.Check(false, "got the-secret \u202e")
	})
	all := strings.Join(append(append(o.Exchange, o.Notes...), o.Breaches...), "\n") + o.Detail
	if strings.Contains(all, "the-secret") || strings.ContainsAny(all, "\x1b\u202e") {
		t.Errorf("shown: %q", all)
	}
	if !strings.Contains(all, "[redacted]") || !strings.Contains(all, `\u001b`) {
		t.Errorf("nothing was struck out: %q", all)
	}
}

// TestLocksAndLanes: cases of one lock never run at once, all run, and one that ends
// badly gives its lock back.
func TestLocksAndLanes(t *testing.T) {
	busy := make(chan struct{}, 1)
	var cases []*Case
	for i := range 12 {
		cases = append(cases, &Case{ID: "test/" + string(rune('a'+i)), Lock: "one", Run: func(e *Env) {
			select {
			case busy <- struct{}{}:
				defer func() { <-busy }()
			default:
				e.Check(false, "two at once")
			}
			e.Cleanup(func(context.Context) error { e.Fail("badly"); return nil })
			e.Control(true, "")
			e.Check(true, "")
		}})
	}
	o := Options{Out: io.Discard}
	r := &runner{o: o, show: newPrinter(o)}
	r.together(t.Context(), nowhere(), cases, 4)
	if len(r.outcomes) != len(cases) {
		t.Fatalf("%d of %d cases ended", len(r.outcomes), len(cases))
	}
	for _, o := range r.outcomes {
		if o.Verdict == evidence.Breached {
			t.Error(o.Detail)
		}
	}
}

func TestSelect(t *testing.T) {
	run := func(*Env) {}
	families := []Family{{Name: "a", Cases: []Case{{ID: "a/one", Safe: true, Run: run}, {ID: "a/two", Slow: true, Run: run}}}, {Name: "b", Cases: []Case{{ID: "b/one", Run: run}}}}
	for name, tc := range map[string]struct {
		patterns      []string
		target, short bool
		want          string
	}{
		"all": {want: "a/one a/two b/one"}, "family": {patterns: []string{"a"}, want: "a/one a/two"}, "glob": {patterns: []string{"*/one"}, want: "a/one b/one"},
		"safe": {target: true, want: "a/one"}, "short": {short: true, want: "a/one b/one"}, "named slow": {patterns: []string{"a/two"}, short: true, want: "a/two"}, "none fits": {patterns: []string{"c"}}, "no pattern": {patterns: []string{"["}},
	} {
		chosen, err := Select(families, tc.patterns, tc.target, tc.short)
		var ids []string
		for _, c := range chosen {
			ids = append(ids, c.ID)
		}
		if got := strings.Join(ids, " "); got != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("%s: %q (%v), wanted %q", name, got, err, tc.want)
		}
	}
}
