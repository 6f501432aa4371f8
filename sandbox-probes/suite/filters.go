package suite

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"glovebox/sandbox-probes/filter"
	"glovebox/system/worker/probe"
	"glovebox/threat-model/evidence"
)

// filter compares the filter in force with the expected table: in user space, over
// all numbers and arguments, and by making the calls.
func (s *Suite) filter(ctx context.Context) error {
	if !s.wantsStage("filter/") {
		return nil
	}
	table, err := filter.Load()
	if err != nil {
		return err
	}
	for _, mode := range []struct {
		name    string
		filter  probe.Filter
		unnamed uint32
	}{{"core", probe.Filter{}, filter.KillProcess}, {"probe", probe.Filter{Errno: true}, filter.Errno | 1}} {
		started := time.Now()
		v, err := s.look(ctx, 0, mode.filter)
		if err != nil {
			return err
		}
		if v.refusal != "" || len(v.filters) == 0 {
			return fmt.Errorf("no filter of the %s profile can be fetched: %s", mode.name, v.refusal)
		}
		faults, decisions, err := table.Compare(filter.Of(v.filters), mode.unnamed)
		if err != nil {
			return err
		}
		c := evidence.Case{
			ID: "filter/" + mode.name, Title: "the installed filter decides every call as expected", Requirements: []string{"SBX-06"}, Threats: []string{"BOX-E2"},
			Tried:  "each number from 0 to " + strconv.Itoa(filter.MaxNumber) + " by every door, and each argument case",
			Oracle: "the program fetched from the kernel, run in user space against syscalls.yaml", Verdict: evidence.Held,
			Detail: fmt.Sprintf("%d decisions, %d filter programs", decisions, len(v.filters)), DurationMS: time.Since(started).Milliseconds(),
		}
		if len(faults) > 0 {
			c.Verdict, c.Detail = evidence.Breached, fmt.Sprintf("%d of %d decisions are others, first %s", len(faults), decisions, faults[0])
		}
		s.file(c)
	}
	if err := s.plantName(ctx, table); err != nil {
		return err
	}
	return s.sweep(ctx, table)
}

// plantName shows that a name added to the list is noticed.
func (s *Suite) plantName(ctx context.Context, table filter.Table) error {
	v, err := s.look(ctx, 0, probe.Filter{Add: []string{"ptrace"}})
	if err != nil {
		return err
	}
	faults, _, err := table.Compare(filter.Of(v.filters), filter.KillProcess)
	if err != nil {
		return err
	}
	c := evidence.Case{ID: "filter/planted-name", Title: "a name added to the list is noticed", Requirements: []string{"SBX-06"}, Threats: []string{"BOX-E2"}, Tried: "the core's profile with ptrace",
		Oracle: "the comparison itself", Verdict: evidence.Held, Detail: fmt.Sprint(faults)}
	if len(faults) == 0 {
		c.Verdict, c.Detail = evidence.Errored, "the comparison does not see that ptrace is allowed"
	}
	s.file(c)
	return nil
}

// sweep makes every call that the table does not name, and looks for one that is
// not refused. Its control is the same without the filter.
func (s *Suite) sweep(ctx context.Context, table filter.Table) error {
	started := time.Now()
	// The kernel itself lets the returns of its probes (335, 336) past every filter,
	// and answers them with SIGILL where no probe was called.
	skip := append(table.Numbers(), 335, 336)
	refused, err := s.sweepWith(ctx, probe.Filter{Errno: true}, skip)
	if err != nil {
		return err
	}
	c := evidence.Case{
		ID: "filter/sweep", Title: "every call that is not named is refused by the kernel", Requirements: []string{"SBX-06"}, Threats: []string{"BOX-E2"}, Tried: "each number from 0 to 600 with useless arguments",
		Oracle: "the kernel's answer", Verdict: evidence.Held,
	}
	var through []string
	for number, answer := range refused {
		if answer != "EPERM" && answer != "ENOSYS" {
			through = append(through, number+" "+answer)
		}
	}
	// Without the filter, but for what would end or stop the program: fork, vfork,
	// pause, exit and their like take no argument that keeps them from it.
	open, err := s.sweepWith(ctx, probe.Filter{Off: true}, append(skip, 34, 57, 58, 112, 130, 435))
	if err != nil {
		return err
	}
	reached := 0
	for _, answer := range open {
		if answer != "EPERM" && answer != "ENOSYS" {
			reached++
		}
	}
	c.Detail = fmt.Sprintf("%d numbers refused; without the filter %d reach the kernel", len(refused), reached)
	switch {
	case len(through) > 0:
		c.Verdict, c.Detail = evidence.Breached, "not refused: "+strings.Join(through, ", ")
	case len(refused) < 500 || reached < 150:
		c.Verdict = evidence.Errored
	}
	c.DurationMS = time.Since(started).Milliseconds()
	s.file(c)
	return nil
}

func (s *Suite) sweepWith(ctx context.Context, f probe.Filter, skip []int32) (map[string]string, error) {
	order := "sweep from=0 to=600"
	for _, n := range skip {
		order += " skip=" + strconv.Itoa(int(n))
	}
	report, err := s.bench.Run(ctx, probe.Attempt{Program: s.program, Input: []byte(order + "\n"), Limits: limits(), Filter: f})
	if err != nil {
		return nil, err
	}
	text, complete := strings.CutSuffix(string(report.Result), "END\n")
	if !complete {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		return nil, fmt.Errorf("the sweep ended with %s after %q", report.Outcome(), lines[len(lines)-1])
	}
	answers := map[string]string{}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "NUMBER" {
			answers[fields[1]] = fields[2]
		}
	}
	return answers, nil
}
