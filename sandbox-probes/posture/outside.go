package posture

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// spaces are the kinds of namespace.
var spaces = []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts", "time", "pid_for_children", "time_for_children"}

// HostNamespaces returns this process's own, by kind.
func HostNamespaces() (map[string]string, error) {
	out := map[string]string{}
	for _, kind := range spaces {
		target, err := os.Readlink("/proc/self/ns/" + kind)
		if errors.Is(err, fs.ErrNotExist) {
			continue // an older kernel
		}
		if err != nil {
			return nil, fmt.Errorf("read own namespace %s: %w", kind, err)
		}
		out[kind] = target
	}
	return out, nil
}

// Outside reads the same process in the host's /proc, with the groups that hold
// it and the monitor that watches it. group is the attempt's cgroup.
func (v View) Outside(pid int, group string) (Posture, error) {
	p := Posture{}
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	for _, name := range []string{"status", "uid_map", "gid_map", "setgroups", "limits", "mountinfo", "environ", "cmdline", "cgroup", "oom_score_adj",
		"attr/current", "loginuid", "net/dev"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case name == "attr/current" && errors.Is(err, syscall.EINVAL): // no security module is on
			text = nil
		case err != nil:
			return nil, fmt.Errorf("look at the core from outside: %w", err)
		}
		v.file(p, name, strings.TrimRight(string(text), "\x00\n")+"\n")
	}
	for _, kind := range spaces {
		if target, err := os.Readlink(filepath.Join(dir, "ns", kind)); err == nil {
			p["namespace "+kind] = v.namespace(kind, target)
		}
	}
	for _, name := range []string{"cwd", "root", "exe"} {
		target, err := os.Readlink(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("look at the core from outside: %w", err)
		}
		v.link(p, name, target)
	}
	fds, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return nil, fmt.Errorf("look at the core from outside: %w", err)
	}
	for _, fd := range fds {
		if target, err := os.Readlink(filepath.Join(dir, "fd", fd.Name())); err == nil {
			v.link(p, "fd/"+fd.Name(), target)
		}
	}
	v.groups(p, group)
	return p, v.monitor(p, dir)
}

// groups reads the limits of the slot's cgroup and of the container's below it.
func (v View) groups(p Posture, group string) {
	files := map[string][]string{
		"memory": {"memory/%s/memory.limit_in_bytes", "%s/memory.max"},
		"swap":   {"memory/%s/memory.memsw.limit_in_bytes", "%s/memory.swap.max"},
		"cpu":    {"cpu/%s/cpu.cfs_quota_us", "%s/cpu.max"},
		"period": {"cpu/%s/cpu.cfs_period_us"},
		"pids":   {"pids/%s/pids.max", "%s/pids.max"},
	}
	for name, paths := range files {
		for where, below := range map[string]string{"slot": group, "container": group + "/libpod-*"} {
			value := absent
			for _, form := range paths {
				found, _ := filepath.Glob("/sys/fs/cgroup/" + fmt.Sprintf(form, strings.Trim(below, "/")))
				if len(found) != 1 {
					continue
				}
				if text, err := os.ReadFile(found[0]); err == nil {
					value = strings.TrimSpace(string(text))
					break
				}
			}
			p["group "+where+" "+name] = value
		}
	}
}

// monitor reads how the engine's monitor was started: where it logs, when it ends
// the core, in which group it lives.
func (v View) monitor(p Posture, dir string) error {
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return fmt.Errorf("look at the monitor: %w", err)
	}
	parent := "0"
	for line := range strings.Lines(string(status)) {
		if n, ok := strings.CutPrefix(line, "PPid:"); ok {
			parent = strings.TrimSpace(n)
		}
	}
	text, err := os.ReadFile(filepath.Join("/proc", parent, "cmdline"))
	if err != nil {
		return fmt.Errorf("look at the monitor: %w", err)
	}
	args := strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
	p["monitor program"] = filepath.Base(args[0])
	p["monitor log"], p["monitor timeout"] = absent, absent
	for i, arg := range args {
		if arg == "-l" && i+1 < len(args) {
			p["monitor log"], _, _ = strings.Cut(args[i+1], ":")
		}
		if seconds, ok := strings.CutPrefix(arg, "--timeout="); ok {
			p["monitor timeout"] = seconds
		}
	}
	groups := Posture{}
	cgroup, err := os.ReadFile(filepath.Join("/proc", parent, "cgroup"))
	if err != nil {
		return fmt.Errorf("look at the monitor: %w", err)
	}
	v.cgroups(groups, string(cgroup))
	// On version 1 the monitor stays in the root of hierarchies that limit nothing.
	paths := strings.Fields(groups["cgroup"])
	paths = slices.DeleteFunc(paths, func(s string) bool { return s == "/" })
	p["monitor group"] = strings.Join(paths, " ")
	return nil
}
