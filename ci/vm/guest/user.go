package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// The launcher's user and its places, as recipe/finish made the user.
const (
	user         = "glovebox"
	userID       = 1000
	worker       = "glovebox-worker"
	workerID     = 1001
	runtimeDir   = "/run/user/1000"
	engineSocket = runtimeDir + "/glovebox-engine.sock"
	slotsDir     = "/var/lib/glovebox"
	doorDir      = "/run/glovebox"
	benchDir     = "/var/lib/glovebox/bench"
	// benchUID is a number that appears in no limit or mode, so that a posture can
	// name it. It is the namespace's, not the host's.
	benchUID = 1_000_000
)

// said is what a command left.
type said struct {
	out  string
	code int
}

// patience bounds one command; what takes longer hangs. The probes have longer.
const patience = 90 * time.Second

// run runs a command and returns what it said on both outputs.
func run(ctx context.Context, name string, args ...string) (said, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return runFor(ctx, io.Discard, name, args...)
}

// runFor is run for what has its own bound. listener hears it while it speaks.
func runFor(ctx context.Context, listener io.Writer, name string, args ...string) (said, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var both bytes.Buffer
	cmd.Stdout = io.MultiWriter(&both, listener)
	cmd.Stderr = cmd.Stdout
	cmd.WaitDelay = time.Second // a child may keep the pipe
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		return said{}, fmt.Errorf("run %s %v: %w; it said %s", name, args, errors.Join(err, ctx.Err()), both.String())
	}
	return said{both.String(), cmd.ProcessState.ExitCode()}, nil
}

// must is run for what has to end well.
func must(ctx context.Context, name string, args ...string) error {
	s, err := run(ctx, name, args...)
	if err == nil && s.code != 0 {
		err = fmt.Errorf("%s %v ended with %d: %s", name, args, s.code, s.out)
	}
	return err
}

// as runs a command as another user, in this service's own cgroup.
func as(name string, command ...string) []string {
	return append([]string{"-u", name, "--", "env", "XDG_RUNTIME_DIR=" + runtimeDir, "DBUS_SESSION_BUS_ADDRESS=unix:path=" + runtimeDir + "/bus"}, command...)
}

// service runs a command as a service of the launcher's user. options are those of
// systemd-run.
func service(ctx context.Context, listener io.Writer, options []string, command ...string) (said, error) {
	args := append([]string{"systemd-run", "--user", "--quiet", "--pipe", "--wait", "--collect"}, options...)
	return runFor(ctx, listener, "runuser", as(user, append(args, command...)...)...)
}

// delegated is what the launcher's unit has.
var delegated = []string{"--property=Delegate=cpu memory pids"}

// setUp installs the launcher as ci/vm/install says.
func setUp(ctx context.Context) error {
	config := "/home/" + user + "/.config"
	for _, dir := range []struct {
		path  string
		group int
		mode  os.FileMode
	}{
		{slotsDir, userID, 0o711}, {benchDir, userID, 0o711}, {doorDir, workerID, 0o710}, {config, userID, 0o700},
		{config + "/containers", userID, 0o700}, {config + "/systemd", userID, 0o700}, {config + "/systemd/user", userID, 0o700},
		{out, userID, 0o755},
	} {
		if err := errors.Join(os.MkdirAll(dir.path, 0o700), os.Chown(dir.path, userID, dir.group), os.Chmod(dir.path, dir.mode)); err != nil {
			return err
		}
	}
	for from, to := range map[string]string{
		"containers.conf": config + "/containers", "glovebox-engine.service": config + "/systemd/user", "glovebox-launcher.service": config + "/systemd/user",
	} {
		text, err := os.ReadFile(filepath.Join(home, "install", from))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, from), text, 0o644); err != nil {
			return err
		}
	}
	if err := await(ctx, runtimeDir+"/bus"); err != nil {
		return err
	}
	if err := must(ctx, "runuser", as(user, "systemctl", "--user", "daemon-reload")...); err != nil {
		return err
	}
	if err := must(ctx, "runuser", as(user, "systemctl", "--user", "start", "glovebox-engine.service")...); err != nil {
		return err
	}
	return await(ctx, engineSocket)
}

// await returns when the file is there.
func await(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", path, ctx.Err())
		case <-ticker.C:
		}
	}
}
