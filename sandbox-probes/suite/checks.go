package suite

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"glovebox/sandbox-probes/catalogue"
	"glovebox/sandbox-probes/control"
	"glovebox/system/worker/probe"
	"glovebox/threat-model/evidence"
)

// sigsys is how an attempt ends whose core made a forbidden call.
const sigsys = "signal 31"

// checks runs every program of the catalogue: under the probes' profile, one
// attempt for all its checks; under the core's, one for each call that must kill;
// without a filter, to see the wall behind; and unconfined, as control.
func (s *Suite) checks(ctx context.Context) error {
	return parallel(len(s.catalogue.Programs), func(slot, i int) error {
		p := s.catalogue.Programs[i]
		if err := s.checkProgram(ctx, slot, p); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		return nil
	})
}

func (s *Suite) checkProgram(ctx context.Context, slot int, p catalogue.Program) error {
	inside, err := s.inside(ctx, slot, p)
	if err != nil {
		return err
	}
	behind := map[string]catalogue.Outcome{}
	if !s.opts.Short && !p.Each && slices.ContainsFunc(p.Checks, func(c catalogue.Check) bool { return c.Behind != "" }) {
		// The checks may disturb each other once they work: only those behind a wall.
		walled := p
		walled.Checks = slices.DeleteFunc(slices.Clone(p.Checks), func(c catalogue.Check) bool { return c.Behind == "" })
		if behind, err = s.attempt(ctx, slot, walled, probe.Filter{Off: true}); err != nil {
			return err
		}
	}
	killed := 0
	for _, c := range p.Checks {
		started := time.Now()
		trial := trial{check: c, inside: inside[c.Name], behind: behind[c.Name]}
		if trial.control, trial.answered, err = s.controlOf(ctx, p, c); err != nil {
			return err
		}
		// The CI size tries one call a program under the killing profile.
		if c.By == catalogue.Filter && !p.Each && (!s.opts.Short || killed == 0) {
			if trial.kill, err = s.kill(ctx, slot, p, c); err != nil {
				return err
			}
			killed++
		}
		verdict, detail := trial.judge()
		s.file(evidence.Case{
			ID: p.Name + "/" + c.Name, Title: p.Loss + ": " + c.Name, Requirements: ids(p.Requirements), Threats: ids(p.Threats), Tried: tried(c),
			Oracle:  "the kernel's answer to the probe; the wait status of its process; the same program unconfined",
			Verdict: verdict, Detail: detail, DurationMS: time.Since(started).Milliseconds(),
		})
	}
	return nil
}

func tried(c catalogue.Check) string {
	switch {
	case c.Open != "":
		return "as the core; it works, which is accepted: " + c.Open
	case c.By == catalogue.Filter:
		return "as the core, under the profile that answers with an error and the one that kills"
	}
	return "as the core; wanted " + c.By
}

func order(p catalogue.Program, checks []catalogue.Check) []byte {
	words := []string{p.Name}
	for _, c := range checks {
		words = append(words, c.Name)
	}
	if p.Order != "" {
		words = append(words, p.Order)
	}
	return []byte(strings.Join(words, " ") + "\n")
}

// limitsOf gives the program about the processor a smaller share than an idle
// machine would, so that its control differs.
func limitsOf(program string) probe.Limits {
	l := limits()
	if program == "cpu-share" {
		l.CPUs = 0.1
	}
	return l
}

func (s *Suite) inside(ctx context.Context, slot int, p catalogue.Program) (map[string]catalogue.Outcome, error) {
	if !p.Each {
		return s.attempt(ctx, slot, p, probe.Filter{Errno: true})
	}
	all := map[string]catalogue.Outcome{}
	for _, c := range p.Checks {
		report, err := s.bench.Run(ctx, probe.Attempt{Program: s.program, Input: order(p, []catalogue.Check{c}), Slot: slot, Limits: limitsOf(p.Name)})
		if err != nil {
			return nil, err
		}
		outcomes, _, err := catalogue.Parse(report.Result)
		if err != nil {
			return nil, err
		}
		o, answered := outcomes[c.Name]
		switch {
		case answered:
			o = silenced(o)
		case !answered && report.Ended(sigsys):
			o = catalogue.Outcome{Word: "shut", Number: "EPERM", Detail: "SIGSYS"}
		}
		all[c.Name] = o
	}
	return all, nil
}

// attempt runs all checks of p in one go. An attempt that did not come to its end
// leaves the checks it did not reach without an outcome.
func (s *Suite) attempt(ctx context.Context, slot int, p catalogue.Program, f probe.Filter) (map[string]catalogue.Outcome, error) {
	report, err := s.bench.Run(ctx, probe.Attempt{Program: s.program, Input: order(p, p.Checks), Slot: slot, Limits: limitsOf(p.Name), Filter: f})
	if err != nil {
		return nil, err
	}
	outcomes, _, err := catalogue.Parse(report.Result)
	return outcomes, err
}

// kill tries one call under the core's profile and returns how it ended.
func (s *Suite) kill(ctx context.Context, slot int, p catalogue.Program, c catalogue.Check) (string, error) {
	report, err := s.bench.Run(ctx, probe.Attempt{Program: s.program, Input: order(p, []catalogue.Check{c}), Slot: slot, Limits: limitsOf(p.Name)})
	if err != nil {
		return "", err
	}
	if report.Ended(sigsys) {
		return sigsys, nil
	}
	outcomes, _, err := catalogue.Parse(report.Result)
	if o, answered := outcomes[c.Name]; err == nil && answered {
		return report.Outcome() + " with " + o.String(), nil
	}
	return report.Outcome(), err
}

func (s *Suite) controlOf(ctx context.Context, p catalogue.Program, c catalogue.Check) (catalogue.Outcome, bool, error) {
	result, err := control.Run(ctx, s.program, order(p, []catalogue.Check{c}))
	if err != nil {
		return catalogue.Outcome{}, false, err
	}
	outcomes, _, err := catalogue.Parse(result.Result)
	o, answered := outcomes[c.Name]
	if p.Each {
		o = silenced(o)
	}
	return o, answered, err
}

// silenced counts a thread that is no more, and so never had its answer, as
// refused: in the sandbox, and for the same reason in a control.
func silenced(o catalogue.Outcome) catalogue.Outcome {
	if o.Number == "ESRCH" {
		o.Number = "EPERM"
	}
	return o
}

// trial is all that was seen of one check.
type trial struct {
	check                   catalogue.Check
	inside, behind, control catalogue.Outcome
	answered                bool   // the control gave an outcome
	kill                    string // how it ended under the killing profile, or empty
}

func (t trial) judge() (evidence.Verdict, string) {
	c := t.check
	control := t.control.String()
	if !t.answered {
		control = "gone"
	}
	said := fmt.Sprintf("%s; control %s", strings.TrimSpace(t.inside.String()+" "+t.inside.Detail), control)
	switch {
	case t.inside.Word == "":
		return evidence.Errored, "the probe did not come to this check"
	case !c.Stopped(t.inside):
		return evidence.Breached, fmt.Sprintf("wanted %s, got %s", c.By, said)
	case t.kill != "" && t.kill != sigsys && !(t.inside.Number == "ENOSYS" && strings.HasSuffix(t.kill, "with ENOSYS")):
		return evidence.Breached, fmt.Sprintf("under the killing profile it ended with %s", t.kill)
	case t.behind.Word == "open" || t.behind.Word == "note":
		return evidence.Breached, fmt.Sprintf("nothing stops it behind the filter, wanted %s; %s", c.Behind, said)
	case c.Open != "":
		return evidence.Held, "accepted: " + c.Open + "; " + said
	case !c.Came(t.control, t.answered, t.inside) && c.Needs != "" && !hasCapability(c.Needs):
		return evidence.Unavailable, fmt.Sprintf("this host's root lacks %s: the control gives %s", c.Needs, control)
	case !c.Came(t.control, t.answered, t.inside):
		return evidence.Errored, "the control failed, so the probe proves nothing: " + said
	}
	if t.kill != "" {
		said += "; killed"
	}
	if t.behind.Word != "" {
		said += "; behind the filter " + t.behind.String()
	}
	return evidence.Held, said
}

// capabilities by name, those that controls need.
var capabilities = map[string]uint{"CAP_SYS_RESOURCE": 24}

// hasCapability reports whether this process has the capability in force.
func hasCapability(name string) bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		var set uint64
		if n, _ := fmt.Sscanf(line, "CapEff:\t%x", &set); n == 1 {
			return set>>capabilities[name]&1 == 1
		}
	}
	return false
}
