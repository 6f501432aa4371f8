package suite

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"glovebox/sandbox-probes/filter"
	"glovebox/sandbox-probes/posture"
	"glovebox/system/worker/probe"
	"glovebox/threat-model/evidence"
)

// views are both views of one core, and what the kernel filters it with.
type views struct {
	inside, outside posture.Posture
	filters         [][]filter.Instruction
	refusal         string // how the attempt ended, where no core ever ran
}

// look runs the posture probe with walls taken away and looks at it from outside
// while it waits.
func (s *Suite) look(ctx context.Context, slot int, f probe.Filter, without ...string) (views, error) {
	var v views
	host, err := posture.HostNamespaces()
	if err != nil {
		return v, err
	}
	view := posture.View{IDRange: probe.IDRange, Namespaces: host, Label: s.bench.Label()}
	watch := func(ctx context.Context, r probe.Running) error {
		view.UIDBase, view.Name = r.UIDBase, r.Name
		defer func() { _, _ = r.Input.WriteString("go\n") }() // else it waits for its deadline
		if err := awaitText(ctx, r, "END\n"); err != nil {
			return err
		}
		var err error
		if v.outside, err = view.Outside(r.PID, r.Cgroup); err != nil {
			return err
		}
		v.filters, err = filter.Installed(r.PID)
		return err
	}
	report, err := s.bench.Run(ctx, probe.Attempt{
		Program: s.program, Input: []byte("posture stay=1\n"), Slot: slot, Limits: limits(), Filter: f, Without: without, Watch: watch,
	})
	if err != nil {
		return v, err
	}
	if !report.Ended("exit 0") {
		v.refusal = report.Outcome()
		return v, nil
	}
	v.inside, err = view.Inside(report.Result)
	return v, err
}

// awaitText returns when the result of a running core ends with text.
func awaitText(ctx context.Context, r probe.Running, text string) error {
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	tail := make([]byte, len(text))
	for {
		info, err := r.Result.Stat()
		if err != nil {
			return fmt.Errorf("look at the result: %w", err)
		}
		if size := info.Size(); size >= int64(len(text)) {
			if _, err := r.Result.ReadAt(tail, size-int64(len(text))); err == nil && bytes.Equal(tail, []byte(text)) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the probe's word: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// differences compares both views with what is expected.
func (s *Suite) differences(v views) []string {
	var out []string
	for _, d := range posture.Diff(s.expected.Inside, v.inside) {
		out = append(out, "inside "+d.String())
	}
	for _, d := range posture.Diff(s.expected.Outside, v.outside) {
		out = append(out, "outside "+d.String())
	}
	return out
}

// posture compares the core's whole posture, and shows that a planted difference
// is found.
func (s *Suite) posture(ctx context.Context) error {
	if !s.wantsStage("posture/") {
		return nil
	}
	started := time.Now()
	v, err := s.look(ctx, 0, probe.Filter{})
	if err != nil {
		return err
	}
	if v.refusal != "" {
		return fmt.Errorf("the posture probe ended with %s", v.refusal)
	}
	different := s.differences(v)
	c := evidence.Case{
		ID: "posture/whole", Title: "the core's posture is the expected one, line by line",
		Requirements: []string{"SBX-01", "SBX-02", "SBX-03", "SBX-04", "SBX-05", "SBX-07", "SBX-08", "SBX-16"},
		Threats:      []string{"BOX-E1", "BOX-E2", "BOX-E3", "BOX-I1", "BOX-I2", "BOX-D1", "BOX-R1"},
		Tried:        "all that the kernel tells of a core, from inside and from outside of the same process",
		Oracle:       "expected.yaml, both ways", Verdict: evidence.Held, DurationMS: time.Since(started).Milliseconds(),
		Detail: fmt.Sprintf("%d lines inside, %d outside, 0 differences, %d loosenings with a reason", len(v.inside), len(v.outside), len(s.expected.Loosenings())),
	}
	if len(different) > 0 {
		c.Verdict, c.Detail = evidence.Breached, fmt.Sprintf("%d differences: %s", len(different), strings.Join(different, "; "))
	}
	s.file(c)
	s.securityModule(v)

	planted, err := s.look(ctx, 0, probe.Filter{}, "capabilities")
	if err != nil {
		return err
	}
	found := s.differences(planted)
	c = evidence.Case{
		ID: "posture/planted-difference", Title: "a planted difference is reported", Requirements: []string{"SBX-05"}, Threats: []string{"BOX-E1", "BOX-R1"}, Tried: "the same core with its bounding set kept",
		Oracle: "the comparison itself", Verdict: evidence.Held, Detail: strings.Join(found, "; "),
	}
	if len(found) <= len(different) {
		c.Verdict, c.Detail = evidence.Errored, "the comparison does not see that the bounding set is not empty"
	}
	s.file(c)
	return nil
}

// securityModule tells which module confines the core, if the host has one.
func (s *Suite) securityModule(v views) {
	label := v.outside["attr/current"]
	c := evidence.Case{
		ID: "posture/security-module", Title: "AppArmor or SELinux confines the core where the host has it", Requirements: []string{"SBX-14"}, Threats: []string{"BOX-R1"},
		Tried: "the label of a running core", Oracle: "the kernel, outside", Verdict: evidence.Held, Detail: label,
	}
	if label == "" || label == "unconfined" {
		c.Verdict, c.Detail = evidence.Unavailable, "this kernel has no such module in force"
	}
	s.file(c)
}
