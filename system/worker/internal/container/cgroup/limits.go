package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// makeDirs makes base and the group in every tree that carries a needed limit.
// On version 2 a controller must be handed down level by level, and a group that
// hands it down may hold no process itself.
func (t *Tree) makeDirs(base, group string) error {
	if t.version == 1 {
		for _, name := range needed {
			if err := os.MkdirAll(filepath.Join(t.roots[name], group), 0o755); err != nil {
				return fmt.Errorf("make cgroup %s for %s: %w", group, name, err)
			}
		}
		return nil
	}
	root := t.roots[""]
	parent := filepath.Join(root, t.home, base)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("make cgroup %s: %w; start the launcher as a service with Delegate=cpu memory pids", base, err)
	}
	if err := os.Mkdir(filepath.Join(root, group), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make cgroup %s: %w", group, err)
	}
	// Whatever the umask is: the runtime mounts the container's own group as the
	// container's root, who passes through these as a stranger.
	if err := errors.Join(os.Chmod(parent, 0o755), os.Chmod(filepath.Join(root, group), 0o755)); err != nil {
		return fmt.Errorf("make cgroup %s passable: %w", group, err)
	}
	for _, dir := range []string{filepath.Join(root, t.home), parent, filepath.Join(root, group)} {
		if err := t.handDown(dir); err != nil {
			return err
		}
	}
	return nil
}

// limit writes the limits. It does not read them back: only the self-test, which
// exceeds them, is evidence that they hold.
func (g *Group) limit(l Limits) error {
	if g.tree.version == 2 {
		return g.limitV2(l)
	}
	memory := filepath.Join(g.tree.roots["memory"], g.name)
	bytes := strconv.FormatInt(l.MemoryBytes, 10)
	if err := write(memory, "memory.limit_in_bytes", bytes); err != nil {
		return err
	}
	// Memory and swap together: equal to the memory alone, so no swap. The file is
	// missing where the kernel does not account for swap, which then must be off.
	err := write(memory, "memory.memsw.limit_in_bytes", bytes)
	if errors.Is(err, fs.ErrNotExist) {
		err = requireNoSwap()
	}
	if err != nil {
		return err
	}
	if err := write(filepath.Join(g.tree.roots["pids"], g.name), "pids.max", strconv.FormatInt(l.Pids, 10)); err != nil {
		return err
	}
	cpu := filepath.Join(g.tree.roots["cpu"], g.name)
	if err := write(cpu, "cpu.cfs_period_us", strconv.FormatInt(cpuPeriod.Microseconds(), 10)); err != nil {
		return err
	}
	return write(cpu, "cpu.cfs_quota_us", strconv.FormatInt(quota(l.CPUs), 10))
}

func (g *Group) limitV2(l Limits) error {
	dir := g.main()
	for _, s := range [][2]string{
		{"memory.max", strconv.FormatInt(l.MemoryBytes, 10)},
		{"memory.swap.max", "0"},
		{"pids.max", strconv.FormatInt(l.Pids, 10)},
		{"cpu.max", fmt.Sprintf("%d %d", quota(l.CPUs), cpuPeriod.Microseconds())},
	} {
		err := write(dir, s[0], s[1])
		if errors.Is(err, fs.ErrNotExist) && s[0] == "memory.swap.max" {
			err = requireNoSwap()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// LiftQuota lets the monitor's clean-up take the time it needs. For a group whose core
// is dead.
func (g *Group) LiftQuota() error {
	if g.tree.version == 2 {
		return write(g.main(), "cpu.max", "max")
	}
	return write(filepath.Join(g.tree.roots["cpu"], g.name), "cpu.cfs_quota_us", "-1")
}

func quota(cpus float64) int64 {
	return max(int64(cpus*float64(cpuPeriod.Microseconds())), 1000) // the kernel's least is 1 ms
}

// requireNoSwap refuses a host that swaps without accounting for it.
func requireNoSwap() error {
	text, err := os.ReadFile("/proc/swaps")
	if err != nil {
		return fmt.Errorf("look for swap: %w", err)
	}
	if strings.Count(strings.TrimSpace(string(text)), "\n") > 0 {
		return errors.New("this kernel does not limit swap by cgroup and swap is on; turn swap off or boot with swapaccount=1")
	}
	return nil
}

// write sets one control file, which exists already: it is never created.
func write(dir, name, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("set %s: %w", name, err)
	}
	_, err = f.WriteString(value)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("set %s to %s: %w", name, value, err)
	}
	return nil
}
