package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"glovebox/sandbox-probes/catalogue"
	"glovebox/sandbox-probes/control"
	inventory "glovebox/sandbox-probes/host"
	"glovebox/threat-model/evidence"
)

// machine is one run, seen by the machine's root.
type machine struct{ cases }

// host sets up, tries everything and writes out/cases.json.
func host(ctx context.Context) error {
	m := &machine{}
	closeNetwork, err := network(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(setUp(ctx), m.controls(ctx), closeNetwork()); err != nil {
		return err
	}
	before, err := m.inventory()
	if err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{{"selftest", m.standing}, {"refusals", m.refusals}, {"door", m.door}, {"inside", m.inside}, {"rootful", m.rootful}} {
		if only := os.Getenv("STAGE"); only != "" && only != step.name {
			continue
		}
		started := time.Now()
		if err := step.run(ctx); err != nil {
			m.file(evidence.Case{ID: "stage/" + step.name, Title: "the stage " + step.name + " runs", Verdict: evidence.Errored, Detail: err.Error()})
		}
		fmt.Printf("            %s took %.1f s\n", step.name, time.Since(started).Seconds())
	}
	m.unchanged(before)
	return m.write(filepath.Join(out, "cases.json"))
}

// controls runs every check unconfined, as root.
func (m *machine) controls(ctx context.Context) error {
	whole, err := catalogue.Load()
	if err != nil {
		return err
	}
	all := map[string]map[string]catalogue.Outcome{}
	for _, p := range whole.Select(os.Getenv("CASE")).Programs {
		all[p.Name] = map[string]catalogue.Outcome{}
		for _, c := range p.Checks {
			result, err := control.Run(ctx, filepath.Join(home, "probes"), order(p, c))
			if err != nil {
				return err
			}
			seen, _, err := catalogue.Parse(result.Result)
			if err != nil {
				return fmt.Errorf("control of %s/%s: %w", p.Name, c.Name, err)
			}
			if o, answered := seen[c.Name]; answered {
				all[p.Name][c.Name] = o
			}
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "controls.json"), text, 0o644)
}

// launcher is a command line of the launcher in its user namespace.
func launcher(command ...string) []string {
	return append([]string{"podman", "unshare", filepath.Join(home, "glovebox-launcher")}, append(command, "--config", filepath.Join(home, "launcher.toml"))...)
}

// joined is the same as arguments of nsenter, as the launcher's unit does it: in
// whatever group it is started.
func joined(command ...string) ([]string, error) {
	pid, err := os.ReadFile(runtimeDir + "/libpod/tmp/pause.pid")
	if err != nil {
		return nil, fmt.Errorf("find the engine's namespaces: %w", err)
	}
	line := []string{"nsenter", "--target", strings.TrimSpace(string(pid)), "--user", "--mount", "--", filepath.Join(home, "glovebox-launcher")}
	return append(append(line, command...), "--config", filepath.Join(home, "launcher.toml")), nil
}

// report is what selftest --json prints.
type report struct {
	Passed  bool     `json:"passed"`
	Missing []string `json:"missing"`
	Walls   []struct {
		Name   string `json:"name"`
		Stands bool   `json:"stands"`
		Detail string `json:"detail"`
	} `json:"walls"`
}

func parse(text string) (report, error) {
	var r report
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, `{"passed"`) {
			return r, json.Unmarshal([]byte(line), &r)
		}
	}
	return r, fmt.Errorf("the self-test printed no report: %s", text)
}

// standing wants every wall to stand where the unit is as it should be.
func (m *machine) standing(ctx context.Context) error {
	s, err := service(ctx, io.Discard, delegated, launcher("selftest", "--json")...)
	if err != nil {
		return err
	}
	r, err := parse(s.out)
	if err != nil {
		return err
	}
	for _, w := range r.Walls {
		m.held(evidence.Case{ID: "selftest/" + w.Name, Title: "the wall " + w.Name + " stands, rootless on cgroup version 2", Requirements: []string{"SBX-10"},
			Tried: "glovebox-launcher selftest as a user's service with Delegate=cpu memory pids", Oracle: "a probe in the real spec that ran into the wall", Detail: w.Detail}, w.Stands)
	}
	m.held(evidence.Case{ID: "selftest/passes", Title: "the launcher takes work in the preferred mode", Requirements: []string{"SBX-10"}, Tried: "its exit status",
		Oracle: "the exit status", Detail: fmt.Sprintf("exit %d, %d walls, missing: %v", s.code, len(r.Walls), r.Missing)}, s.code == 0 && r.Passed && len(r.Walls) > 30)
	return nil
}

// inside runs the probes as the launcher's user and takes over their cases.
func (m *machine) inside(ctx context.Context) error {
	// The name of the unit is part of the posture.
	options := append([]string{"--unit=glovebox-probes", "--setenv=CASE=" + os.Getenv("CASE")}, delegated...)
	s, err := service(ctx, os.Stdout, options, "podman", "unshare", filepath.Join(home, "guest"), "inside")
	if err != nil {
		return err
	}
	if s.code != 0 {
		return fmt.Errorf("the probes ended with %d: %s", s.code, s.out[max(0, len(s.out)-1000):])
	}
	return m.add(filepath.Join(out, "inside.json"))
}

// The host's ids of all slots, from recipe/finish.
const (
	firstUID = 1879048192
	uids     = 4194304
)

func (m *machine) inventory() (inventory.Inventory, error) {
	all, err := inventory.Take(inventory.Scope{Dir: benchDir, Label: "gbprobe", FirstUID: firstUID, UIDs: uids, Places: inventory.Places()})
	if err != nil {
		return nil, err
	}
	// Whatever bears the name of an attempt or of a bench, wherever it is.
	groups := 0
	err = filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && (strings.HasPrefix(d.Name(), "gbprobe") || strings.HasPrefix(d.Name(), "a-") || strings.HasPrefix(d.Name(), "libpod-")) {
			all["group "+path] = "there"
			groups++
		}
		return nil
	})
	return all, err
}

// oomMark is left by the monitor of a rootful container on cgroup version 2 (conmon
// 2.1.6): an empty file in its working folder, which is /, when memory killed. It is
// the same file each time, says nothing of the core's, and is made by rootful's stage.
const oomMark = `top /oom is new: "----------"`

func (m *machine) unchanged(before inventory.Inventory) {
	c := evidence.Case{ID: "host/unchanged", Title: "the host is as it was before all attempts", Requirements: []string{"SBX-03", "SBX-04", "SBX-12"}, Threats: []string{"BOX-D3"},
		Tried: "the whole suite", Oracle: "the machine's root: processes of the slots' users, mounts in every namespace, groups, files, sockets, System V tables, kernel settings"}
	after, err := m.inventory()
	if err != nil {
		c.Verdict, c.Detail = evidence.Errored, err.Error()
		m.file(c)
		return
	}
	changed := inventory.Changes(before, after)
	c.Detail = fmt.Sprintf("%d things looked at", len(before))
	if info, err := os.Lstat("/oom"); err == nil && info.Size() == 0 && slices.Contains(changed, oomMark) {
		changed = slices.DeleteFunc(changed, func(s string) bool { return s == oomMark })
		c.Detail += "; accepted: rootful's monitor made /oom, which is empty"
	}
	if len(changed) > 0 {
		c.Detail += "; " + strings.Join(changed, "; ")
	}
	m.held(c, len(changed) == 0)
}
