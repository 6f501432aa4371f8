package suite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"glovebox/sandbox-probes/catalogue"
	"glovebox/system/worker/probe"
	"glovebox/threat-model/evidence"
)

// watchers are the programs that are run behind each missing wall, beside the
// posture: those whose checks are stopped by a wall and not by the filter.
var watchers = []string{"root-write", "input-write", "proc-read", "sys-read", "devices", "proc-others", "net-view", "capabilities", "environment", "limits-bite", "execute"}

// walls takes each setting of the sandbox away, one at a time, and looks who
// reports it. A setting that nobody misses would be one that nothing proves.
func (s *Suite) walls(ctx context.Context) error {
	if !s.wantsStage("walls/") {
		return nil
	}
	var table wallTable
	for _, wall := range probe.Walls() {
		id := "walls/" + wall.ID
		if !s.wants(id) {
			continue
		}
		started := time.Now()
		reports, err := s.whoNotices(ctx, wall)
		c := evidence.Case{
			ID: id, Title: "without it " + wall.What, Requirements: []string{"SBX-07", "SBX-10"}, Threats: []string{"BOX-R1"}, Tried: "the spec less " + wall.Field, Oracle: "posture lines and probes",
			Verdict: evidence.Held, Detail: strings.Join(reports, "; "), DurationMS: time.Since(started).Milliseconds(),
		}
		switch {
		case err != nil:
			c.Verdict, c.Detail = evidence.Errored, err.Error()
		case len(reports) == 0:
			c.Verdict, c.Detail = evidence.Breached, "nobody reports that it is missing"
		}
		s.file(c)
		table = append(table, wallRow{wall, reports})
	}
	if s.opts.Case != "" {
		return nil // a part of the table is no table
	}
	path := filepath.Join(s.opts.Root, "out/probes/walls.md")
	if err := os.WriteFile(path, table.markdown(), 0o644); err != nil {
		return fmt.Errorf("write the table of walls: %w", err)
	}
	fmt.Fprintf(s.opts.Out, "            %s: %s\n", path, table.summary())
	return nil
}

// whoNotices compares the sandbox less the wall with the sandbox less only what
// covers the wall.
func (s *Suite) whoNotices(ctx context.Context, wall probe.Wall) ([]string, error) {
	covered, err := s.look(ctx, 0, probe.Filter{}, wall.Under...)
	if err != nil {
		return nil, err
	}
	known := s.differences(covered)
	without := append(slices.Clone(wall.Under), wall.ID)
	v, err := s.look(ctx, 0, probe.Filter{}, without...)
	if err != nil {
		return nil, err
	}
	var reports []string
	if v.refusal != "" {
		return []string{"no core runs: " + v.refusal}, nil
	}
	now := s.differences(v)
	for _, d := range now {
		if !slices.Contains(known, d) {
			reports = append(reports, d)
		}
	}
	for _, d := range known {
		if !slices.Contains(now, d) {
			reports = append(reports, "no more "+d)
		}
	}
	for _, p := range s.catalogue.Programs {
		if !slices.Contains(watchers, p.Name) || len(wall.Under) > 0 {
			continue
		}
		p.Checks = slices.DeleteFunc(slices.Clone(p.Checks), func(c catalogue.Check) bool { return c.By == catalogue.Filter || c.Open != "" })
		report, err := s.bench.Run(ctx, probe.Attempt{
			Program: s.program, Input: order(p, p.Checks), Limits: limits(), Filter: probe.Filter{Errno: true}, Without: without,
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		outcomes, complete, err := catalogue.Parse(report.Result)
		if err != nil || !complete {
			reports = append(reports, p.Name+" ended with "+report.Outcome())
			continue
		}
		for _, c := range p.Checks {
			if o := outcomes[c.Name]; !c.Stopped(o) {
				reports = append(reports, p.Name+"/"+c.Name+" gives "+o.String())
			}
		}
	}
	return reports, nil
}
