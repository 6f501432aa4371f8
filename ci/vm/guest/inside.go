package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"glovebox/sandbox-probes/catalogue"
	inventory "glovebox/sandbox-probes/host"
	"glovebox/sandbox-probes/posture"
	"glovebox/system/worker/probe"
	"glovebox/threat-model/evidence"
)

// workers is how many attempts run at once, each in a slot of its own.
const workers = 2

// killed is how many calls are tried under the killing profile too; the machine that
// needs no emulation tries them all.
const killed = 6

// prober runs the catalogue in the sandbox of this host.
type prober struct {
	cases
	bench   *probe.Bench
	program string
	// controls are the same checks unconfined, by program and check; the host's root
	// ran them.
	controls map[string]map[string]catalogue.Outcome
	expected posture.Expected
	differs  differences

	mu    sync.Mutex
	kills int
}

// inside runs in the launcher's user namespace.
func inside(ctx context.Context) error {
	p := &prober{program: filepath.Join(home, "probes")}
	text, err := os.ReadFile(filepath.Join(out, "controls.json"))
	if err != nil {
		return fmt.Errorf("read the controls: %w", err)
	}
	if err := json.Unmarshal(text, &p.controls); err != nil {
		return fmt.Errorf("read the controls: %w", err)
	}
	if p.expected, p.differs, err = expected(); err != nil {
		return err
	}
	whole, err := catalogue.Load()
	if err != nil {
		return err
	}
	whole = whole.Select(os.Getenv("CASE"))
	p.bench, err = probe.Attach(ctx, probe.Host{Dir: benchDir, Socket: engineSocket, Runtime: "crun", UIDBase: benchUID})
	if err != nil {
		return err
	}
	var tasks []func(slot int) error
	for _, program := range whole.Programs {
		tasks = append(tasks, func(slot int) error { return p.checks(ctx, slot, program) })
	}
	for _, e := range whole.Endings {
		for _, w := range e.Ways {
			tasks = append(tasks, func(slot int) error { return p.ending(ctx, slot, e, w) })
		}
	}
	if strings.Contains("posture/whole", os.Getenv("CASE")) {
		tasks = append(tasks, func(slot int) error { return p.posture(ctx, slot) })
	}
	p.run(tasks)
	closeErr := p.bench.Close()
	detail := "no container, cgroup, mount or folder"
	if closeErr != nil {
		detail = closeErr.Error()
	}
	p.held(evidence.Case{ID: "host/nothing-left", Title: "nothing outlives its attempt", Requirements: []string{"SBX-12"}, Threats: []string{"BOX-D3"},
		Tried: "all attempts of this suite", Oracle: "the engine's list, the cgroup tree, the slots' folder", Detail: detail}, closeErr == nil)
	return p.write(filepath.Join(out, "inside.json"))
}

// run works the tasks off. One that cannot do its work files an error.
func (p *prober) run(tasks []func(slot int) error) {
	next := make(chan int)
	var wg sync.WaitGroup
	for slot := range workers {
		wg.Go(func() {
			for i := range next {
				if err := tasks[i](slot); err != nil {
					p.file(evidence.Case{ID: "task/" + strconv.Itoa(i), Title: "an attempt can be made", Verdict: evidence.Errored, Detail: err.Error()})
				}
			}
		})
	}
	for i := range tasks {
		next <- i
	}
	close(next)
	wg.Wait()
}

// limits are small, but for time: this processor is emulated.
func limits() probe.Limits {
	l := probe.Defaults()
	l.MemoryBytes, l.Pids = 64<<20, 16
	l.MaxInputBytes, l.MaxResultBytes = 1<<20, 1<<20
	l.Timeout = 40 * time.Second
	return l
}

func order(p catalogue.Program, checks ...catalogue.Check) []byte {
	words := []string{p.Name}
	for _, c := range checks {
		words = append(words, c.Name)
	}
	return []byte(strings.TrimSpace(strings.Join(append(words, p.Order), " ")) + "\n")
}

const sigsys = "signal 31"

// try makes an attempt, and a second one where the engine took longer on this
// processor than the launcher waits: that says nothing of the core.
func (p *prober) try(ctx context.Context, a probe.Attempt) (probe.Report, error) {
	report, err := p.bench.Run(ctx, a)
	if err == nil && strings.Contains(report.Outcome(), context.DeadlineExceeded.Error()) {
		fmt.Printf("            %.60q once more, for the engine was too slow: %s\n", a.Input, report.Outcome())
		return p.bench.Run(ctx, a)
	}
	return report, err
}

// shares is how often the share of the processor is measured at most. A processor
// that is emulated beside other work stands still at times, and its clock does not:
// what it missed counts as used. A quota that nobody enforces is not kept once.
const shares = 3

// checks runs one program: all its checks in one attempt that answers a forbidden
// call with an error, the first forbidden one under the killing profile as well.
func (p *prober) checks(ctx context.Context, slot int, program catalogue.Program) error {
	l := limits()
	outcomes := map[string]catalogue.Outcome{}
	attempts := [][]catalogue.Check{program.Checks}
	if program.Name == "cpu-share" {
		l.CPUs = 0.1
		for range shares - 1 {
			attempts = append(attempts, program.Checks)
		}
	}
	if program.Each {
		attempts = nil
		for _, c := range program.Checks {
			attempts = append(attempts, []catalogue.Check{c})
		}
	}
	for _, checks := range attempts {
		if !slices.ContainsFunc(checks, func(c catalogue.Check) bool {
			o := outcomes[c.Name]
			return o.Word == "" || !c.Stopped(o)
		}) {
			break // a further one can show nothing more
		}
		report, err := p.try(ctx, probe.Attempt{Program: p.program, Input: order(program, checks...), Slot: slot, Limits: l, Filter: probe.Filter{Errno: !program.Each}})
		if err != nil {
			return fmt.Errorf("%s: %w", program.Name, err)
		}
		seen, _, err := catalogue.Parse(report.Result)
		if err != nil {
			return fmt.Errorf("%s: %w", program.Name, err)
		}
		for _, c := range checks {
			o, answered := seen[c.Name]
			if program.Each && (!answered && report.Ended(sigsys) || o.Number == "ESRCH") {
				o = catalogue.Outcome{Word: "shut", Number: "EPERM", Detail: "SIGSYS"}
			}
			outcomes[c.Name] = o
		}
	}
	kill := ""
	for _, c := range program.Checks {
		said := ""
		if c.By == catalogue.Filter && !program.Each && kill == "" && p.mayKill() {
			report, err := p.try(ctx, probe.Attempt{Program: p.program, Input: order(program, c), Slot: slot, Limits: l})
			if err != nil {
				return fmt.Errorf("%s: %w", program.Name, err)
			}
			kill = report.Outcome()
			said = "; under the killing profile " + kill
		}
		verdict, detail := p.judge(program, c, outcomes[c.Name])
		if said != "" && kill != sigsys {
			verdict = evidence.Breached
		}
		requirements := program.Requirements
		if verdict == evidence.Unavailable {
			requirements = nil // what was not tried says nothing of them
		}
		p.file(evidence.Case{
			ID: program.Name + "/" + c.Name, Title: program.Loss + ": " + c.Name, Requirements: requirements, Threats: program.Threats,
			Tried:  "as the core, rootless on cgroup version 2 with crun",
			Oracle: "the kernel's answer to the probe; the same program unconfined, as root", Verdict: verdict, Detail: detail + said,
		})
	}
	return nil
}

func (p *prober) mayKill() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kills++
	return p.kills <= killed
}

func (p *prober) judge(program catalogue.Program, c catalogue.Check, seen catalogue.Outcome) (evidence.Verdict, string) {
	control, answered := p.controls[program.Name][c.Name]
	said := strings.TrimSpace(seen.String()+" "+seen.Detail) + "; control " + control.String()
	id := program.Name + "/" + c.Name
	missing, isMissing := p.differs.Missing[id]
	here, isOther := p.differs.Checks[id]
	switch {
	case seen.Word == "":
		return evidence.Errored, "the probe did not come to this check"
	case isMissing && answered && seen.Word != "open" && seen.String() == control.String():
		return evidence.Unavailable, "this machine has no " + missing + ": " + said
	case isOther && seen.String() == here.Is:
		return evidence.Held, "accepted: " + here.Loosening + "; " + said
	case !c.Stopped(seen):
		return evidence.Breached, fmt.Sprintf("wanted %s, got %s", c.By, said)
	case c.Open != "":
		return evidence.Held, "accepted: " + c.Open + "; " + said
	case !c.Came(control, answered, seen):
		return evidence.Errored, "the control failed, so the probe proves nothing: " + said
	}
	return evidence.Held, said
}

// ending lets the core end in one way and looks at the verdict.
func (p *prober) ending(ctx context.Context, slot int, e catalogue.Ending, w catalogue.Way) error {
	l := limits()
	if w.Ends == "timeout" {
		l.Timeout = 1500 * time.Millisecond
	}
	var left []int
	report, err := p.try(ctx, probe.Attempt{
		Program: p.program, Input: []byte(e.Name + " " + w.Order + "\n"), Slot: slot, Limits: l, Filter: probe.Filter{Off: e.Lifted},
		After: func(r probe.Running) (err error) {
			left, err = inventory.ProcessesOf(r.UIDBase, probe.IDRange)
			return err
		},
	})
	if err != nil {
		return fmt.Errorf("%s/%s: %w", e.Name, w.Name, err)
	}
	want := harsher(w.Ends)
	// Whoever was left has written, else nothing shows that there was anybody.
	there := !e.Lifted || w.Ends != "exit 0" || bytes.Contains(report.Result, []byte("forged"))
	detail := fmt.Sprintf("wanted %s, got %s; processes left: %v", want, report.Outcome(), left)
	if !there {
		detail += "; whoever was left did not write"
	}
	p.held(evidence.Case{
		ID: e.Name + "/" + w.Name, Title: e.Loss + ": " + w.Name, Requirements: e.Requirements, Threats: e.Threats, Tried: "as the core: " + w.Order,
		Oracle: "the engine's word, since this kernel tells no wait status; memory deaths from memory.events; processes of the slot's users once the verdict is there",
		Detail: detail,
	}, report.Ended(want) && len(left) == 0 && there)
	return nil
}

// harsher is what an exit code comes to where the kernel tells no wait status: the
// engine's number 128+n is taken for signal n, never for an exit, and never for
// success. A core that forges one harms itself alone.
func harsher(ends string) string {
	code, err := strconv.Atoi(strings.TrimPrefix(ends, "exit "))
	switch {
	case err != nil || code <= 128 || code > 128+64:
		return ends
	case code == 128+9:
		return "sandbox_failure: the core was killed from outside its slot"
	}
	return fmt.Sprintf("signal %d", code-128)
}
