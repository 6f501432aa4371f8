package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"glovebox/sandbox-probes/posture"
	"glovebox/system/worker/probe"
	"glovebox/threat-model/evidence"
)

// posture compares the core's whole posture with the expected one, and shows that a
// planted difference is found.
func (p *prober) posture(ctx context.Context, slot int) error {
	want := p.expected
	different, lines, err := p.look(ctx, slot, want)
	if err != nil {
		return err
	}
	p.held(evidence.Case{
		ID: "posture/whole", Title: "the core's posture is the expected one, line by line", Requirements: []string{"SBX-01", "SBX-02", "SBX-03", "SBX-04", "SBX-05", "SBX-07", "SBX-08", "SBX-16"},
		Tried: "all that the kernel tells of a core, from inside and from the launcher's user namespace", Oracle: "expected.yaml with the differences of expected-v2.yaml, both ways",
		Detail: fmt.Sprintf("%d lines, %d differences: %s", lines, len(different), strings.Join(different, "; ")),
	}, len(different) == 0)
	found, _, err := p.look(ctx, slot, want, "capabilities")
	if err != nil {
		return err
	}
	p.held(evidence.Case{
		ID: "posture/planted-difference", Title: "a planted difference is reported", Requirements: []string{"SBX-05"}, Tried: "the same core with its bounding set kept",
		Oracle: "the comparison itself", Detail: strings.Join(found, "; "),
	}, len(found) > len(different))
	return nil
}

func (p *prober) look(ctx context.Context, slot int, want posture.Expected, without ...string) (different []string, lines int, err error) {
	host, err := posture.HostNamespaces()
	if err != nil {
		return nil, 0, err
	}
	view := posture.View{IDRange: probe.IDRange, Namespaces: host, Label: p.bench.Label()}
	var outside posture.Posture
	watch := func(ctx context.Context, r probe.Running) error {
		view.UIDBase, view.Name = r.UIDBase, r.Name
		defer func() { _, _ = r.Input.WriteString("go\n") }() // else it waits for its deadline
		if err := awaitEnd(ctx, r.Result); err != nil {
			return err
		}
		var err error
		outside, err = view.Outside(r.PID, r.Cgroup)
		return err
	}
	report, err := p.bench.Run(ctx, probe.Attempt{Program: p.program, Input: []byte("posture stay=1\n"), Slot: slot, Limits: limits(), Without: without, Watch: watch})
	if err != nil {
		return nil, 0, err
	}
	if !report.Ended("exit 0") {
		return nil, 0, fmt.Errorf("the posture probe ended with %s", report.Outcome())
	}
	inside, err := view.Inside(report.Result)
	if err != nil {
		return nil, 0, err
	}
	// A file system tells its owner in the numbers of the first namespace.
	for _, seen := range []posture.Posture{inside, outside} {
		for key, value := range seen {
			base := firstUID - 1 + int(view.UIDBase)
			value = strings.ReplaceAll(value, strconv.Itoa(base+5), "HOST+5")
			seen[key] = strings.ReplaceAll(value, strconv.Itoa(base), "HOST")
		}
	}
	for _, d := range posture.Diff(want.Inside, inside) {
		different = append(different, "inside "+d.String())
	}
	for _, d := range posture.Diff(want.Outside, outside) {
		different = append(different, "outside "+d.String())
	}
	return different, len(inside) + len(outside), nil
}

// awaitEnd returns when the probe has written its last line.
func awaitEnd(ctx context.Context, result *os.File) error {
	const last = "END\n"
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	tail := make([]byte, len(last))
	for {
		info, err := result.Stat()
		if err != nil {
			return fmt.Errorf("look at the result: %w", err)
		}
		if size := info.Size(); size >= int64(len(last)) {
			if _, err := result.ReadAt(tail, size-int64(len(last))); err == nil && string(tail) == last {
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
