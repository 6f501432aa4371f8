package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"glovebox/threat-model/evidence"
)

// refusals runs the self-test where a wall is missing. Each host looks right to
// whoever asks the engine; each must be refused, with the missing thing named.
func (m *machine) refusals(ctx context.Context) error {
	// Controllers that the service was not given, in a slice where nobody else has them.
	s, err := service(ctx, io.Discard, []string{"--slice=bare.slice"}, launcher("selftest", "--json")...)
	if err != nil {
		return err
	}
	m.refused("controllers-not-delegated", "a service without Delegate", s, nil, "are not handed down")

	// A login session's or another service's group, which belongs to root. The engine
	// must not start it: podman unshare sees that the group is not its user's, and has
	// systemd move it to a delegated one, where nothing is missing.
	line, err := joined("selftest", "--json")
	if err != nil {
		return err
	}
	if s, err = run(ctx, "runuser", as(user, line...)...); err != nil {
		return err
	}
	m.refused("not-a-service", "the launcher in a group that belongs to root", s, nil, "Delegate=cpu memory pids")

	for _, l := range []struct {
		name, tried, says string
		missing           []string
	}{
		{"loose-nogroup", "an engine that puts containers into no group and reports their limits as set", "not in the slot's cgroup", []string{"probe_memory", "probe_tasks", "probe_cpu"}},
		{"loose", "limits that are taken, reported as set, and not enforced", "", []string{"memory", "tasks", "cpu"}},
	} {
		if s, err = m.withRuntime(ctx, l.name); err != nil {
			return err
		}
		m.refused(l.name, l.tried, s, l.missing, l.says)
	}
	return nil
}

// refused files whether a self-test ended in a refusal that names what is missing
// and says words.
func (m *machine) refused(name, tried string, s said, missing []string, words string) {
	r, err := parse(s.out)
	named := err == nil
	for _, wall := range missing {
		named = named && slices.Contains(r.Missing, wall)
	}
	detail := s.out
	if err == nil {
		detail = fmt.Sprintf("exit %d, missing: %s", s.code, strings.Join(r.Missing, " "))
		for _, w := range r.Walls {
			if !w.Stands {
				detail += "; " + w.Name + ": " + w.Detail
				break
			}
		}
	}
	m.held(evidence.Case{ID: "refusal/" + name, Title: "the launcher takes no work and says what is missing: " + name, Requirements: []string{"SBX-10", "SBX-04"}, Tried: tried,
		Oracle: "exit status and report; the same self-test passes where nothing is missing", Detail: detail},
		s.code != 0 && named && !r.Passed && strings.Contains(s.out, words))
}

// withRuntime runs the self-test against a second engine, whose crun is this program
// under another name.
func (m *machine) withRuntime(ctx context.Context, name string) (said, error) {
	runtime := filepath.Join(home, name)
	self, err := os.Executable()
	if err != nil {
		return said{}, err
	}
	if err := os.Symlink(self, runtime); err != nil {
		return said{}, err
	}
	conf, err := os.ReadFile(filepath.Join(home, "install/containers.conf"))
	if err != nil {
		return said{}, err
	}
	path := filepath.Join(home, name+".conf")
	if err := os.WriteFile(path, fmt.Appendf(conf, "\n[engine.runtimes]\ncrun = [%q]\n", runtime), 0o644); err != nil {
		return said{}, err
	}
	socket := runtimeDir + "/" + name + ".sock"
	unit := "glovebox-" + name
	if err := must(ctx, "runuser", as(user, "systemd-run", "--user", "--quiet", "--collect", "--unit="+unit, "--setenv=CONTAINERS_CONF="+path,
		"podman", "system", "service", "--time=0", "unix://"+socket)...); err != nil {
		return said{}, err
	}
	defer func() { _ = must(ctx, "runuser", as(user, "systemctl", "--user", "stop", unit)...) }() // what it leaves shows in the inventory
	if err := await(ctx, socket); err != nil {
		return said{}, err
	}
	return service(ctx, io.Discard, append([]string{"--setenv=GLOVEBOX_ENGINE_SOCKET=" + socket}, delegated...), launcher("selftest", "--json")...)
}
