// Package cgroup makes the group in which one attempt lives and dies.
//
// The group is the parent of the container's own: limits sit on it, so that they
// cover the engine's monitor too, and it outlives the core, so that it can tell
// whether memory ran out (SBX-16). Version 1 is a tree for each controller,
// version 2 one tree; a Group hides which.
//
//	/glovebox/ATTEMPT             made here, holds the limits
//	/glovebox/ATTEMPT/libpod-ID   the container, made by the engine
//	/glovebox/ATTEMPT/conmon      the engine's monitor
//
// On version 2 all of this lies below the launcher's own group (home.go).
package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// monitorGroup is the name the engine gives its monitor's group.
const monitorGroup = "conmon"

// Limits are what a group holds its processes to, all together.
type Limits struct {
	MemoryBytes int64   // RAM, with no swap beside it
	Pids        int64   // tasks, the monitor's and its helpers' included
	CPUs        float64 // 1.0 = one processor
}

// cpuPeriod is the span over which the cpu quota is given out.
const cpuPeriod = 100 * time.Millisecond

// Tree is the host's cgroup file system.
type Tree struct {
	version int
	// roots are mount points: of each controller for version 1, one under "" for 2.
	roots map[string]string
	// home is the group below which all others are made: the root, or on version 2
	// what a service manager has handed over.
	home string
}

// needed are the controllers without which no attempt is run.
var needed = []string{"memory", "pids", "cpu"}

// Detect reads the mount table and finds the hierarchies.
func Detect() (*Tree, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	t, err := detect(string(table))
	if err != nil || t.version == 1 {
		return t, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("find the own cgroup: %w", err)
	}
	t.home, err = home(t.roots[""], string(own))
	return t, err
}

func detect(mountinfo string) (*Tree, error) {
	v1 := map[string]string{}
	v2 := ""
	for line := range strings.SplitSeq(mountinfo, "\n") {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 {
			continue
		}
		switch r[0] {
		case "cgroup":
			for option := range strings.SplitSeq(r[2], ",") {
				if option != "rw" && option != "ro" && !strings.HasPrefix(option, "release_agent") && v1[option] == "" {
					v1[option] = l[4]
				}
			}
		case "cgroup2":
			v2 = l[4]
		}
	}
	if v1["memory"] == "" && v2 != "" {
		return &Tree{version: 2, roots: map[string]string{"": v2}, home: "/"}, nil
	}
	for _, name := range needed {
		if v1[name] == "" {
			return nil, fmt.Errorf("find cgroup controller %s: it is not mounted, so no limit of it can be set; mount it or boot with unified cgroups", name)
		}
	}
	if v2 != "" {
		v1["unified"] = v2 // the engine makes its groups here too: they must be removed
	}
	return &Tree{version: 1, roots: v1, home: "/"}, nil
}

// Version returns 1 or 2.
func (t *Tree) Version() int { return t.version }

// Group is one attempt's group.
type Group struct {
	tree *Tree
	name string // absolute path within the hierarchies
	oom  *oomWatch
}

// Create makes the group base/name with limits and starts to watch for memory
// deaths. The caller must Destroy it, after an error too.
func (t *Tree) Create(base, name string, l Limits) (*Group, error) {
	g := t.Group(base, name)
	if err := t.makeDirs(base, g.name); err != nil {
		return g, err
	}
	if err := g.limit(l); err != nil {
		return g, err
	}
	watch, err := g.watchOOM()
	if err != nil {
		return g, err
	}
	g.oom = watch
	return g, nil
}

// Group names an existing group, for instance one that a dead launcher left.
func (t *Tree) Group(base, name string) *Group {
	return &Group{tree: t, name: path.Join("/", t.home, base, name)}
}

// Leftovers lists the groups below base in any hierarchy.
func (t *Tree) Leftovers(base string) ([]string, error) {
	var names []string
	for _, root := range t.roots {
		entries, err := os.ReadDir(filepath.Join(root, t.home, base))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list cgroups of %s: %w", base, err)
		}
		for _, e := range entries {
			if e.IsDir() && !slices.Contains(names, e.Name()) {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// RemoveBase removes the base group itself, which must be empty.
func (t *Tree) RemoveBase(base string) error {
	var errs []error
	for _, root := range t.roots {
		if err := unix.Rmdir(filepath.Join(root, t.home, base)); err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("remove cgroup %s: %w", base, err))
		}
	}
	return errors.Join(errs...)
}

// Path is what the engine takes as the container's cgroup parent.
func (g *Group) Path() string { return g.name }

// MemoryKilled reports whether the kernel has killed for memory in the group
// since it was made. Page cache that was reclaimed does not count.
func (g *Group) MemoryKilled() (bool, error) {
	if g.oom == nil {
		return false, errors.New("ask for memory deaths: the group is not watched")
	}
	return g.oom.fired()
}

// Core returns the processes of the group but for the engine's monitor.
func (g *Group) Core() ([]int, error) { return g.processes(false) }

// Holds reports whether pid is in the group or below it.
func (g *Group) Holds(pid int) (bool, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return false, fmt.Errorf("read the cgroup of process %d: %w", pid, err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) != 3 {
			continue
		}
		limiting := fields[1] == "memory" || g.tree.version == 2 && fields[1] == ""
		if limiting && (fields[2] == g.name || strings.HasPrefix(fields[2], g.name+"/")) {
			return true, nil
		}
	}
	return false, nil
}

// processes walks the tree that holds the limits.
func (g *Group) processes(monitor bool) ([]int, error) {
	var pids []int
	err := filepath.WalkDir(g.main(), func(dir string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed while we look: nothing lives there
		}
		if err != nil || !d.IsDir() {
			return err
		}
		if !monitor && d.Name() == monitorGroup {
			return fs.SkipDir
		}
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
				return nil
			}
			return err
		}
		for field := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return fmt.Errorf("cgroup.procs holds %q", field)
			}
			pids = append(pids, pid)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list processes of cgroup %s: %w", g.name, err)
	}
	return pids, nil
}

// main is the directory whose cgroup.procs is asked: all controllers hold the
// same processes.
func (g *Group) main() string {
	if g.tree.version == 2 {
		return filepath.Join(g.tree.roots[""], g.name)
	}
	return filepath.Join(g.tree.roots["memory"], g.name)
}

// killPause is how long to wait for killed processes to go away between looks.
const killPause = 2 * time.Millisecond

// KillCore kills every process but the monitor and returns when none is left, or
// with the context's error and the number that would not die.
func (g *Group) KillCore(ctx context.Context) error { return g.kill(ctx, false) }

func (g *Group) kill(ctx context.Context, monitor bool) error {
	for {
		pids, err := g.processes(monitor)
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			// The pid was in the group a moment ago. A number reused in between
			// would belong to a process that was just born: the next look decides.
			if held, err := g.Holds(pid); err != nil || !held {
				continue
			}
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("kill process %d of cgroup %s: %w", pid, g.name, err)
			}
		}
		if err := pause(ctx, killPause); err != nil {
			return fmt.Errorf("%d processes of cgroup %s do not die: %w", len(pids), g.name, err)
		}
	}
}

// Destroy kills what lives in the group and removes it from every hierarchy. A
// group that is not there is no error.
func (g *Group) Destroy(ctx context.Context) error {
	g.oom.close()
	g.oom = nil
	for {
		if err := g.kill(ctx, true); err != nil {
			return err
		}
		err := g.removeDirs()
		if err == nil {
			return nil
		}
		// EBUSY: the kernel has not finished with a process that just died, or the
		// engine's clean-up has started another one.
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		if pauseErr := pause(ctx, killPause); pauseErr != nil {
			return errors.Join(err, pauseErr)
		}
	}
}

func (g *Group) removeDirs() error {
	for _, root := range g.tree.roots {
		var dirs []string
		err := filepath.WalkDir(filepath.Join(root, g.name), func(dir string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && d.IsDir() {
				dirs = append(dirs, dir)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("look below cgroup %s: %w", g.name, err)
		}
		for _, dir := range slices.Backward(dirs) {
			if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("remove cgroup %s: %w", g.name, err)
			}
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
