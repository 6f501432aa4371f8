// Package rig is the whole real system on a test bench: two servers, three workers
// with their launchers, a sweeper, PostgreSQL and the engine, with a proxy on each
// connection between them, a storage of its own that can be filled, programs that
// die at named points and believe in other times, and oracles that look at all of
// it from outside.
//
// Everything belongs to one instance: its state folder, ports, cgroups and
// containers. Nothing else of the machine is touched or counted.
package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"glovebox/ci/local"
)

// Bounds that the system runs under. They are short, so that a lease runs out and
// a sweep goes by many times in a run.
const (
	Lease      = 4 * time.Second
	Heartbeat  = time.Second
	Sweep      = time.Second
	OrphanAge  = 5 * time.Second
	StagedAge  = 20 * time.Second
	RunTimeout = 15 * time.Second // of the core
	Attempts   = 20               // a friendly file must not run out of them under a storm of kills
	MinFree    = 1 << 20          // limits.min_free_bytes
)

// Options of a Rig.
type Options struct {
	Root      string // the project's folder
	Name      string // tells rigs apart
	PortBase  int
	Servers   int
	Workers   int
	Storage   int64 // bytes of the storage's file system
	Retention time.Duration
	Progress  func(string)
}

// Rig is a running system and what is needed to spoil and to watch it.
type Rig struct {
	*local.System
	Links   *Links
	Options Options
	// Public are the addresses that users call, one a server, through a link each.
	Public []string

	state string
	out   string
}

// Start builds the programs and starts the system. Close ends it.
func Start(ctx context.Context, o Options) (*Rig, error) {
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return nil, err
	}
	o.Root = root
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	r := &Rig{Options: o, Links: newLinks(), out: filepath.Join(root, "out/chaos/build-"+o.Name)}
	o.Progress("programs with crash points and a clock that can be wrong")
	programs, err := buildPrograms(ctx, root, r.out)
	if err != nil {
		return nil, err
	}
	image, err := buildImage(ctx, root, r.out)
	if err != nil {
		return nil, err
	}
	// A run that was cut off may have left its system.
	if err := local.DownAt(root, o.Name); err != nil {
		o.Progress("an earlier run had left its system: " + err.Error())
	}
	r.System, err = local.Up(ctx, local.Options{
		Root: root, Name: o.Name, PortBase: o.PortBase, Servers: o.Servers, Workers: o.Workers, Image: image,
		StorageBytes: o.Storage, Programs: programs, Via: r.Links.Between, Progress: o.Progress, LogLevel: "info",
		Set: []string{
			fmt.Sprintf("lease.duration=%s lease.heartbeat=%s worker.grace=1s jobs.max_attempts=%d jobs.claim_poll=500ms", Lease, Heartbeat, Attempts),
			fmt.Sprintf("sweeper.interval=%s sweeper.orphan_age=%s sweeper.staged_age=%s http.stall_timeout=8s", Sweep, OrphanAge, StagedAge),
			fmt.Sprintf("retention.duration=%s limits.min_free_bytes=%d jobs.timeout=%s", o.Retention, MinFree, RunTimeout),
			"limits.max_input_bytes=8388608 limits.max_result_bytes=8388608 sandbox.slots=2 worker.slots=2 sandbox.timeout=20s",
		},
	})
	if err != nil {
		r.Links.Close()
		return nil, fmt.Errorf("start the system: %w", err)
	}
	r.state = filepath.Dir(r.BinDir)
	return r, r.openDoors()
}

// openDoors puts a link before each server's public address.
func (r *Rig) openDoors() error {
	for i, s := range r.Servers {
		address, err := hostPort(s.PublicURL)
		if err != nil {
			return err
		}
		between, err := r.Links.Between("users", fmt.Sprintf("server-%d", i), address)
		if err != nil {
			return err
		}
		r.Public = append(r.Public, "https://"+between)
	}
	return nil
}

// Close stops the system and removes its state; the logs stay.
func (r *Rig) Close() error {
	err := r.Down()
	r.Links.Close()
	return err
}

// Everyone lists every process of ours by the name that Kill and Restart know.
func (r *Rig) Everyone() []string {
	var names []string
	for i := range r.Options.Servers {
		names = append(names, fmt.Sprintf("server-%d", i))
	}
	for i := range r.Options.Workers {
		names = append(names, fmt.Sprintf("worker-%d", i), fmt.Sprintf("launcher-%d", i))
	}
	return append(names, "sweeper")
}

// Missing names the processes that should run and do not.
func (r *Rig) Missing() []string {
	var missing []string
	for _, name := range append(r.Everyone(), "postgres", "engine") {
		if _, alive := r.Process(name); !alive {
			missing = append(missing, name)
		}
	}
	return missing
}

// Password reads a user's password.
func (r *Rig) Password(user int) (string, error) {
	content, err := os.ReadFile(r.Users[user].PasswordFile)
	if err != nil {
		return "", fmt.Errorf("read a user's password: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// Revive starts what does not run. It is for the end of a run that a fault left
// half-way; the errors tell what could not be started.
func (r *Rig) Revive(ctx context.Context) error {
	var errs []error
	for _, name := range r.Missing() {
		if _, recorded := r.find(name); recorded {
			errs = append(errs, r.Await(ctx, name))
		}
		errs = append(errs, r.Restart(ctx, name))
	}
	return errors.Join(errs...)
}

// LastWords is the last line of a process's log, or of a crash that ended it.
func (r *Rig) LastWords(name string) string {
	content, err := os.ReadFile(filepath.Join(r.LogsDir, name+".log"))
	if err != nil {
		return "no log"
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	for _, line := range lines[max(0, len(lines)-200):] {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			return line
		}
	}
	return lines[len(lines)-1]
}

// find returns the process of that name, alive or not.
func (r *Rig) find(name string) (local.Process, bool) {
	for _, p := range r.Processes {
		if p.Name == name {
			return p, true
		}
	}
	return local.Process{}, false
}

// Signal sends a signal to a process that runs.
func (r *Rig) Signal(name string, signal syscall.Signal) error {
	p, alive := r.Process(name)
	if !alive {
		return fmt.Errorf("%s does not run", name)
	}
	return p.Signal(signal)
}

// RenewCertificates gives every process a new certificate and key in the place of
// its old one, as the operator's timer does.
func (r *Rig) RenewCertificates(ctx context.Context) error {
	var files []string
	for _, pattern := range []string{"tls/server/*.crt", "tls/worker/*.crt"} {
		found, err := filepath.Glob(filepath.Join(r.state, pattern))
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	_, err := output(ctx, r.state, nil, filepath.Join(r.BinDir, "glovebox-server"), append([]string{"pki", "renew", "--dir", filepath.Join(r.state, "pki")}, files...)...)
	return err
}

// SignalAll sends a signal to a process and its children: the postmaster's children
// are the sessions.
func (r *Rig) SignalAll(name string, signal syscall.Signal) error {
	p, alive := r.Process(name)
	if !alive {
		return fmt.Errorf("%s does not run", name)
	}
	if err := p.Signal(signal); err != nil {
		return err
	}
	if name != "postgres" {
		return nil // the engine's children are the cores' monitors, which are not its own
	}
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.PID, p.PID))
	if err != nil {
		return fmt.Errorf("find the children of %s: %w", name, err)
	}
	for pid := range strings.FieldsSeq(string(content)) {
		child, err := strconv.Atoi(pid)
		if err != nil {
			return err
		}
		if err := syscall.Kill(child, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// Stopped reports whether a process was stopped by a signal.
func Stopped(pid int) bool {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The name, in parentheses, may hold anything.
	_, state, ok := strings.Cut(string(content[strings.LastIndexByte(string(content), ')')+1:]), " ")
	return ok && strings.HasPrefix(state, "T")
}
