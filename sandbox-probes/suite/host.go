package suite

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"glovebox/system/worker/probe"
	"glovebox/threat-model/evidence"
)

// inventory is what of the host a sandboxed job might change, each thing by name.
// Things of other work on the same machine are left out: processes that are not of
// a slot's user, mounts and groups that do not name the bench.
type inventory map[string]string

// settings of the kernel that an escape would reach for first.
var settings = []string{"kernel/core_pattern", "kernel/hostname", "kernel/domainname", "kernel/modprobe", "kernel/hotplug", "kernel/randomize_va_space",
	"kernel/sysrq", "kernel/pid_max", "kernel/msgmax", "kernel/shmmax", "kernel/unprivileged_bpf_disabled", "kernel/perf_event_paranoid", "kernel/panic",
	"vm/overcommit_memory", "vm/mmap_min_addr", "vm/swappiness", "fs/suid_dumpable", "fs/file-max", "fs/protected_symlinks", "fs/protected_hardlinks",
	"net/ipv4/ip_forward", "user/max_user_namespaces"}

// sysvKeys are the keys that probes use, as /proc writes them.
var sysvKeys = [2]string{" 1633837924 ", " 1735159670 "}

// takeInventory looks at the host. bench is the folder of the bench's state.
func takeInventory(bench string) (inventory, error) {
	all := inventory{}
	for _, name := range settings {
		if text, err := os.ReadFile("/proc/sys/" + name); err == nil {
			all["sysctl "+name] = strings.TrimSpace(string(text))
		}
	}
	for _, dir := range []string{"/dev", "/dev/shm", "/dev/mqueue", "/", "/etc", "/run", "/var/tmp", "/tmp"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // not every host has each
		}
		for _, e := range entries {
			if name := filepath.Join(dir, e.Name()); ours(name) {
				all["file "+name] = e.Type().String()
			}
		}
	}
	if err := all.processes(); err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("take the host's inventory: %w", err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], bench+"/slots") {
			all["mount "+fields[4]] = "there"
		}
	}
	for _, table := range []string{"shm", "sem", "msg"} {
		if text, err := os.ReadFile("/proc/sysvipc/" + table); err == nil {
			all["sysv "+table] = fmt.Sprint(strings.Count(string(text), sysvKeys[0]) + strings.Count(string(text), sysvKeys[1]))
		}
	}
	sockets, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, fmt.Errorf("take the host's inventory: %w", err)
	}
	all["abstract sockets of probes"] = fmt.Sprint(strings.Count(string(sockets), "@glovebox-"))
	return all, all.groups()
}

// ours tells names that a probe would plant: what else comes and goes there is
// other people's.
func ours(name string) bool {
	base := filepath.Base(name)
	for _, word := range []string{"glovebox-probe", "glovebox-pair", "glovebox-node", "planted", "core."} {
		if strings.Contains(base, word) {
			return true
		}
	}
	return filepath.Dir(name) == "/" || filepath.Dir(name) == "/dev" && !strings.HasPrefix(base, "loop")
}

// processes lists those that run as a slot's user.
func (all inventory) processes() error {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		status, err := os.ReadFile(dir + "/status")
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(status)) {
			var uid int
			if n, _ := fmt.Sscanf(line, "Uid:\t%d", &uid); n == 1 && uid >= probe.UIDBase && uid < probe.UIDBase+probe.Slots*probe.IDRange {
				all["process "+filepath.Base(dir)] = "there"
			}
		}
	}
	return nil
}

// groups lists the attempts' control groups.
func (all inventory) groups() error {
	return filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // it went away while we looked
		}
		if strings.HasPrefix(d.Name(), fmt.Sprintf("gbprobe%d", os.Getpid())) {
			entries, _ := os.ReadDir(path)
			for _, e := range entries {
				if e.IsDir() {
					all["group "+path+"/"+e.Name()] = "there"
				}
			}
			return fs.SkipDir
		}
		if strings.Count(strings.TrimPrefix(path, "/sys/fs/cgroup"), "/") >= 2 {
			return fs.SkipDir
		}
		return nil
	})
}

// changes compares two inventories.
func changes(before, after inventory) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if now, ok := after[key]; !ok {
			out = append(out, key+" is gone")
		} else if now != before[key] {
			out = append(out, fmt.Sprintf("%s was %q, is %q", key, before[key], now))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[key]; !ok {
			out = append(out, key+" is new")
		}
	}
	return out
}

func (s *Suite) hostUnchanged(before inventory) {
	c := evidence.Case{
		ID: "host/unchanged", Title: "the host is as it was before all attempts", Requirements: []string{"SBX-03", "SBX-04", "SBX-12"}, Threats: []string{"BOX-T1", "BOX-D3", "BOX-E3"}, Tried: "the whole suite",
		Oracle: "processes of the slots' users, mounts, groups, devices, planted files, sockets, System V tables, kernel settings", Verdict: evidence.Held,
		Detail: fmt.Sprintf("%d things looked at", len(before)),
	}
	after, err := takeInventory(s.bench.Dir())
	if err != nil {
		c.Verdict, c.Detail = evidence.Errored, err.Error()
	} else if changed := changes(before, after); len(changed) > 0 {
		c.Verdict, c.Detail = evidence.Breached, strings.Join(changed, "; ")
	}
	s.file(c)
}
