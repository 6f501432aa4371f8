// Package leftovers looks from outside for what attempts have left on this host: the
// engine's own list, the kernel's tables and the disk, and no word of the launcher.
//
// A launcher keeps containers ready for the next jobs (sandbox.warm). These belong
// to the system at rest and are told from leftovers by what they are: all parts of
// one are there, its input and result are empty, and its one process is the
// runtime's init, which has not become the core. There must be as many as were
// configured, so that one of too many is found.
package leftovers

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// Bound is how long anything of an attempt may outlive it, as docs/ARCHITECTURE.md
// promises: from the attempt's end while launcher and engine run, else from when both
// run again.
const Bound = 15 * time.Second

// Host is where one local system's attempts live.
type Host struct {
	State     string // the system's state folder
	Launchers int
	Engine    string // socket of the engine
	// Holders are processes that must hold no file of an attempt that is gone: the
	// launchers and workers.
	Holders []int
}

// attempt is what there is of one name.
type attempt struct {
	container, folder, mount bool
	groups                   []string // paths
	processes                []process
}

type process struct {
	pid     string
	command string // what the kernel calls it
	program string // the file it runs
}

func (p process) isCore() bool { return strings.HasSuffix(p.program, "/core") }

// Launcher returns the name of launcher i, which its containers and cgroups bear.
func (h Host) Launcher(i int) string {
	sum := sha256.Sum256([]byte(h.root(i)))
	return "glovebox-" + hex.EncodeToString(sum[:4])
}

func (h Host) root(i int) string { return filepath.Join(h.State, fmt.Sprintf("slots-%d", i)) }

// Found lists what is left, and what of the containers that should wait is missing or
// too much. An error says that an oracle could not be asked.
func (h Host) Found() ([]string, error) {
	var found []string
	for i := range h.Launchers {
		all, err := h.attempts(i)
		if err != nil {
			return nil, err
		}
		waiting := 0
		for _, name := range sorted(all) {
			if why := all[name].notWaiting(filepath.Join(h.root(i), name)); why != "" {
				found = append(found, fmt.Sprintf("launcher %d, %s: %s", i, name, why))
				continue
			}
			waiting++
		}
		wanted, err := h.warm(i)
		if err != nil {
			return nil, err
		}
		if waiting != wanted {
			found = append(found, fmt.Sprintf("launcher %d: %d containers wait, configured are %d", i, waiting, wanted))
		}
		found = append(found, h.descriptors(i, all)...)
	}
	return found, nil
}

// Names lists the attempts of launcher i of which a folder or a cgroup is there. It
// does not ask the engine.
func (h Host) Names(i int) []string {
	all := map[string]*attempt{}
	folders, _ := filepath.Glob(filepath.Join(h.root(i), "a-*"))
	for _, path := range append(folders, h.groups(i)...) {
		all[strings.TrimSuffix(filepath.Base(path), ".disk")] = nil
	}
	return sorted(all)
}

// Running lists the attempts of launcher i whose core runs.
func (h Host) Running(i int) []string {
	all := map[string]*attempt{}
	for _, path := range h.groups(i) {
		if slices.ContainsFunc(processesOf(path), process.isCore) {
			all[filepath.Base(path)] = nil
		}
	}
	return sorted(all)
}

// Cores returns the processes of all attempts that have become the core.
func (h Host) Cores() []string {
	var pids []string
	for i := range h.Launchers {
		for _, path := range h.groups(i) {
			for _, p := range processesOf(path) {
				if p.isCore() {
					pids = append(pids, p.pid)
				}
			}
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// Monitors returns the engine's monitors of all attempts, by process number.
func (h Host) Monitors() []int {
	var pids []int
	for i := range h.Launchers {
		for _, path := range h.groups(i) {
			for _, p := range processesOf(path) {
				if pid, err := strconv.Atoi(p.pid); err == nil && p.command == "conmon" && !slices.Contains(pids, pid) {
					pids = append(pids, pid)
				}
			}
		}
	}
	slices.Sort(pids)
	return pids
}

// attempts gathers by name what there is of launcher i's.
func (h Host) attempts(i int) (map[string]*attempt, error) {
	all := map[string]*attempt{}
	of := func(name string) *attempt {
		if all[name] == nil {
			all[name] = &attempt{}
		}
		return all[name]
	}
	out, err := exec.Command("podman", "--remote", "--url", "unix://"+h.Engine, "ps", "--all", "--format", "{{.Names}}",
		"--filter", "label=glovebox.launcher="+h.Launcher(i)).Output()
	if err != nil {
		return nil, fmt.Errorf("read the engine's list: %w", err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		of(name).container = true
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		if below, ok := strings.CutPrefix(fields[1], h.root(i)+"/"); ok {
			name, _, _ := strings.Cut(below, "/")
			of(name).mount = true
		}
	}
	folders, _ := filepath.Glob(filepath.Join(h.root(i), "a-*"))
	for _, path := range folders {
		of(strings.TrimSuffix(filepath.Base(path), ".disk")).folder = true
	}
	for _, path := range h.groups(i) {
		a := of(filepath.Base(path))
		a.groups = append(a.groups, path)
		for _, p := range processesOf(path) {
			if !slices.Contains(a.processes, p) {
				a.processes = append(a.processes, p)
			}
		}
	}
	return all, nil
}

// groups lists the cgroups of launcher i's attempts in every hierarchy.
func (h Host) groups(i int) []string {
	var groups []string
	for _, pattern := range []string{"/sys/fs/cgroup/*/" + h.Launcher(i) + "/*", "/sys/fs/cgroup/" + h.Launcher(i) + "/*"} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				groups = append(groups, path)
			}
		}
	}
	return groups
}

// processesOf lists the living processes of a cgroup and of those below it.
func processesOf(group string) []process {
	var all []process
	for _, pattern := range []string{"/cgroup.procs", "/*/cgroup.procs"} {
		files, _ := filepath.Glob(group + pattern)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue // gone meanwhile
			}
			for pid := range strings.FieldsSeq(string(text)) {
				command, err := os.ReadFile("/proc/" + pid + "/comm")
				program, _ := os.Readlink("/proc/" + pid + "/exe")
				if err == nil {
					all = append(all, process{pid, strings.TrimSpace(string(command)), program})
				}
			}
		}
	}
	return all
}

// notWaiting says what makes an attempt a leftover, or "".
func (a *attempt) notWaiting(dir string) string {
	var inits, others []string
	for _, p := range a.processes {
		switch {
		case strings.HasPrefix(p.command, "runc:") && !p.isCore():
			inits = append(inits, p.pid)
		case p.command != "conmon":
			others = append(others, p.command+" "+p.pid)
		}
	}
	var sizes []int64
	for _, file := range []string{"input", "result"} {
		if info, err := os.Stat(filepath.Join(dir, file)); err == nil {
			sizes = append(sizes, info.Size())
		}
	}
	if a.container && a.folder && a.mount && len(a.groups) > 0 && len(inits) == 1 && len(others) == 0 && slices.Equal(sizes, []int64{0, 0}) {
		return ""
	}
	return fmt.Sprintf("container %v, folder %v, mount %v, %d cgroups, processes %v, sizes of input and result %v",
		a.container, a.folder, a.mount, len(a.groups), a.processes, sizes)
}

// descriptors lists open files of attempts that are gone.
func (h Host) descriptors(i int, all map[string]*attempt) []string {
	var found []string
	for _, pid := range h.Holders {
		links, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		for _, link := range links {
			target, err := os.Readlink(link)
			if err != nil {
				continue
			}
			below, ok := strings.CutPrefix(target, h.root(i)+"/a-")
			if !ok {
				continue
			}
			name, _, _ := strings.Cut("a-"+below, "/")
			if all[name] == nil {
				found = append(found, fmt.Sprintf("process %d holds %s", pid, target))
			}
		}
	}
	return found
}

// warm reads how many containers launcher i was told to keep ready.
func (h Host) warm(i int) (int, error) {
	text, err := os.ReadFile(filepath.Join(h.State, fmt.Sprintf("etc/launcher-%d.toml", i)))
	if err != nil {
		return 0, fmt.Errorf("read the launcher's configuration: %w", err)
	}
	var c struct {
		Sandbox struct {
			Slots *int `toml:"slots"`
			Warm  *int `toml:"warm"`
		} `toml:"sandbox"`
	}
	if err := toml.Unmarshal(text, &c); err != nil {
		return 0, fmt.Errorf("read the launcher's configuration: %w", err)
	}
	switch {
	case c.Sandbox.Warm != nil && *c.Sandbox.Warm >= 0:
		return *c.Sandbox.Warm, nil
	case c.Sandbox.Slots != nil:
		return *c.Sandbox.Slots, nil
	}
	return 2, nil // the launcher's default
}

func sorted(all map[string]*attempt) []string {
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
