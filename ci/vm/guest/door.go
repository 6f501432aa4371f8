package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"glovebox/system/worker/probe"
	"glovebox/threat-model/evidence"
)

// doorSocket is where the rootless launcher serves.
const doorSocket = doorDir + "/s"

// readyTimeout bounds the launcher's start on an emulated processor, self-test
// included.
const readyTimeout = 3 * time.Minute

// program is what the core is given: a Lua program, whose names it must replace.
const program = "local answer = 6 * 7\nprint(answer)\n"

// attempt is one job by the launcher's socket, as the user who runs it.
func attempt(ctx context.Context) error {
	report, err := probe.Through(ctx, doorSocket, []byte(program))
	if err != nil {
		return err
	}
	fmt.Printf("%s, %d bytes, %.60q\n", report.Outcome(), len(report.Result), report.Result)
	if !report.Ended("exit 0") {
		return errors.New("the core did not end well")
	}
	return nil
}

// door starts the launcher as the unit it ships with and tries its socket as the
// worker, as the launcher's own user and as a stranger.
func (m *machine) door(ctx context.Context) error {
	if err := must(ctx, "runuser", as(user, "systemctl", "--user", "start", "glovebox-launcher.service")...); err != nil {
		return err
	}
	if err := m.ready(ctx); err != nil {
		return err
	}
	guest := filepath.Join(home, "guest")
	for _, c := range []struct {
		name, user, says string
		let              bool
	}{
		{"worker", worker, "exit 0", true},
		{"launcher's-own-user", user, "only the worker's user is given slots", false},
		{"stranger", "nobody", "permission denied", false},
	} {
		fmt.Println("door:", c.name)
		s, err := run(ctx, "runuser", "-u", c.user, "--", guest, "attempt")
		if err != nil {
			return err
		}
		m.held(evidence.Case{ID: "door/" + c.name, Title: "slots are given to the worker's user alone: " + c.name, Requirements: []string{"SBX-09"},
			Tried: "a whole attempt with the real core by the launcher's socket", Oracle: "the answer; the worker's attempt is the control",
			Detail: strings.TrimSpace(s.out)}, (s.code == 0) == c.let && strings.Contains(s.out, c.says))
	}
	fmt.Println("door: stop")
	if err := must(ctx, "runuser", as(user, "systemctl", "--user", "stop", "glovebox-launcher.service")...); err != nil {
		return err
	}
	m.log(ctx, "glovebox-launcher.service")
	return nil
}

// ready waits until the launcher takes work, by the worker's question.
func (m *machine) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		s, err := run(ctx, "runuser", "-u", worker, "--", filepath.Join(home, "glovebox-launcher"), "status", "--config", filepath.Join(home, "launcher.toml"))
		if err != nil {
			return err
		}
		if s.code == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			m.log(context.WithoutCancel(ctx), "glovebox-launcher.service")
			return fmt.Errorf("wait for the launcher: %w; it says %s", ctx.Err(), s.out)
		case <-time.After(time.Second):
		}
	}
}

// log prints what a unit said.
func (m *machine) log(ctx context.Context, unit string) {
	s, err := run(ctx, "journalctl", "--no-pager", "--output=cat", "_UID=1000", "--user-unit="+unit)
	if err == nil {
		fmt.Print(s.out)
	}
}

// rootful tries the walls in the other mode of the same host: the engine and the
// launcher as root's services, a delegated group, crun.
func (m *machine) rootful(ctx context.Context) error {
	conf := filepath.Join(home, "install/containers.conf")
	const socket, unit = "/run/glovebox-engine.sock", "glovebox-engine"
	if err := must(ctx, "systemd-run", "--quiet", "--collect", "--unit="+unit, "--setenv=CONTAINERS_CONF="+conf,
		"sh", "-c", "echo 0 >/proc/self/loginuid; exec podman system service --time=0 unix://"+socket); err != nil {
		return err
	}
	defer func() { _ = must(ctx, "systemctl", "stop", unit) }() // what it leaves shows in the inventory
	if err := await(ctx, socket); err != nil {
		return err
	}
	s, err := runFor(ctx, io.Discard, "systemd-run", "--quiet", "--collect", "--pipe", "--wait", "--property=Delegate=cpu memory pids",
		"--setenv=GLOVEBOX_ENGINE_SOCKET="+socket, "--setenv=GLOVEBOX_SLOTS_ROOT=/var/lib/glovebox-rootful", "--setenv=GLOVEBOX_LISTEN_SOCKET=/run/glovebox-rootful.sock",
		filepath.Join(home, "glovebox-launcher"), "selftest", "--json", "--config", filepath.Join(home, "launcher.toml"))
	if err != nil {
		return err
	}
	r, err := parse(s.out)
	if err != nil {
		return err
	}
	detail := fmt.Sprintf("exit %d, %d walls, missing: %v", s.code, len(r.Walls), r.Missing)
	for _, w := range r.Walls {
		if !w.Stands {
			detail += "; " + w.Name + ": " + w.Detail
		}
	}
	m.held(evidence.Case{ID: "rootful/selftest", Title: "every wall stands, rootful on cgroup version 2", Requirements: []string{"SBX-10"},
		Tried: "glovebox-launcher selftest as root's service with Delegate=cpu memory pids, crun", Oracle: "probes in the real spec that ran into the walls", Detail: detail},
		s.code == 0 && r.Passed && len(r.Walls) > 30)
	return nil
}
