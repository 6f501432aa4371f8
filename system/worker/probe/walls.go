package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/cgroup"
)

// Wall is one setting of the sandbox that can be taken away alone.
type Wall struct {
	ID    string
	Field string // of container.Spec, or where else it is set
	What  string // is lost without it
	// Under names walls that cover this one: it shows only when they are away too.
	Under []string
	// One of these two takes it away: from the spec, or, where the adapter has no
	// word for the lack (it refuses, or the engine's default is the same), from
	// the runtime's configuration by the name in Cut.
	alter func(*container.Spec, *cgroup.Tree)
	cut   string
}

func spec(change func(*container.Spec)) func(*container.Spec, *cgroup.Tree) {
	return func(s *container.Spec, _ *cgroup.Tree) { change(s) }
}

// option replaces one option of the mount at destination.
func option(destination, old, replacement string) func(*container.Spec, *cgroup.Tree) {
	return spec(func(s *container.Spec) {
		for i, m := range s.Mounts {
			if m.Destination != destination {
				continue
			}
			options := slices.DeleteFunc(slices.Clone(m.Options), func(o string) bool { return o == old })
			if replacement != "" {
				options = append(options, replacement)
			}
			s.Mounts[i].Options = options
		}
	})
}

func rlimit(name string) func(*container.Spec, *cgroup.Tree) {
	return spec(func(s *container.Spec) {
		s.Rlimits = slices.DeleteFunc(slices.Clone(s.Rlimits), func(r container.Rlimit) bool { return r.Name == name })
	})
}

// raised is for limits whose default the engine itself could not set.
func raised(name string, value uint64) func(*container.Spec, *cgroup.Tree) {
	return spec(func(s *container.Spec) {
		s.Rlimits = slices.Clone(s.Rlimits)
		for i := range s.Rlimits {
			if s.Rlimits[i].Name == name {
				s.Rlimits[i].Value = value
			}
		}
	})
}

// unlimited lifts a limit of the slot's parent cgroup.
func unlimited(controller, v1, v2 string) func(*container.Spec, *cgroup.Tree) {
	return func(s *container.Spec, tree *cgroup.Tree) {
		path, value := filepath.Join("/sys/fs/cgroup", controller, s.CgroupParent, v1), "-1"
		if tree.Version() == 2 {
			path, value = filepath.Join("/sys/fs/cgroup", s.CgroupParent, v2), "max"
		}
		_ = os.WriteFile(path, []byte(value), 0o600) // a failure shows as a wall that nobody misses
	}
}

// Walls lists every setting.
func Walls() []Wall {
	return []Wall{
		{ID: "rootfs-readonly", Field: "ReadOnlyRootfs", What: "the core writes into its own image", alter: spec(func(s *container.Spec) { s.ReadOnlyRootfs = false })},
		{ID: "hostname", Field: "Hostname", What: "the container's name shows", alter: spec(func(s *container.Spec) { s.Hostname = "other" })},
		{ID: "command", Field: "Command", What: "the core gets an argument", alter: spec(func(s *container.Spec) { s.Command = append(slices.Clone(s.Command), "argument") })},
		{ID: "user", Field: "UID, GID", What: "the core is root inside", alter: spec(func(s *container.Spec) { s.UID = 0 })},
		{ID: "id-range", Field: "IDMap.Host", What: "slots share a range of ids", alter: spec(func(s *container.Spec) { s.IDMap.Host += 7 * IDRange })},
		{ID: "id-size", Field: "IDMap.Size", What: "the range overlaps the next slot's", alter: spec(func(s *container.Spec) { s.IDMap.Size = 2 * IDRange })},
		{ID: "no-new-privileges", Field: "NoNewPrivileges", What: "a set-user-id file would give rights", Under: []string{"seccomp"}, alter: spec(func(s *container.Spec) { s.NoNewPrivileges = false })},
		{ID: "capabilities", Field: "DropCapabilities", What: "the bounding set is not empty", alter: spec(func(s *container.Spec) { s.DropCapabilities = nil })},
		{ID: "seccomp", Field: "SeccompProfile", What: "every system call is open", alter: spec(func(s *container.Spec) { s.SeccompProfile = "unconfined" })},
		{ID: "network", Field: "Network", What: "the core is in the host's network", cut: "namespace:network"},
		{ID: "ipc", Field: "IPC", What: "the core is in the host's ipc namespace", cut: "namespace:ipc"},
		{ID: "pid", Field: "Private: pid", What: "the core sees the host's processes", cut: "namespace:pid"},
		{ID: "uts", Field: "Private: uts", What: "the core is in the host's uts namespace", cut: "namespace:uts"},
		{ID: "cgroup", Field: "Private: cgroup", What: "the core sees the host's cgroup paths", cut: "namespace:cgroup"},
		{ID: "user-namespace", Field: "Private: user, IDMap", What: "the core's ids are the host's", cut: "namespace:user"},
		{ID: "proc-subset", Field: "Mounts: /proc subset=pid", What: "kernel-wide counters are readable", alter: option("/proc", "subset=pid", "")},
		{ID: "proc-nosuid", Field: "Mounts: /proc nosuid", What: "one flag of /proc", alter: option("/proc", "nosuid", "")},
		{ID: "proc-noexec", Field: "Mounts: /proc noexec", What: "one flag of /proc", alter: option("/proc", "noexec", "")},
		{ID: "input-readonly", Field: "Mounts: /in/input ro", What: "the core writes its input", alter: option("/in/input", "ro", "rw")},
		{ID: "input-noexec", Field: "Mounts: /in/input noexec", What: "the core runs its input", alter: option("/in/input", "noexec", "exec")},
		{ID: "input-nosuid", Field: "Mounts: /in/input nosuid", What: "one flag of the input", alter: option("/in/input", "nosuid", "suid")},
		{ID: "input-nodev", Field: "Mounts: /in/input nodev", What: "one flag of the input", alter: option("/in/input", "nodev", "dev")},
		{ID: "result-noexec", Field: "Mounts: /out/result noexec", What: "the core runs what it wrote", alter: option("/out/result", "noexec", "exec")},
		{ID: "result-nosuid", Field: "Mounts: /out/result nosuid", What: "one flag of the result", alter: option("/out/result", "nosuid", "suid")},
		{ID: "result-nodev", Field: "Mounts: /out/result nodev", What: "one flag of the result", alter: option("/out/result", "nodev", "dev")},
		{ID: "hostname-file", Field: "Mounts: /etc/hostname", What: "a file of a shared filesystem", alter: unmounted("/etc/hostname")},
		{ID: "containerenv-file", Field: "Mounts: /run/.containerenv", What: "a file of a shared filesystem", alter: unmounted("/run/.containerenv")},
		{ID: "extra-mount", Field: "Mounts", What: "the host's folder is inside", cut: "folder"},
		{ID: "masks", Field: "Masked", What: "/sys and files of /proc show", cut: "masks"},
		{ID: "readonly-paths", Field: "fixed by the engine: read-only paths", What: "/proc/sys could be written", Under: []string{"proc-subset"}, cut: "readonly-paths"},
		{ID: "slot-memory", Field: "cgroup parent: memory", What: "memory of core and monitor is unbounded", alter: unlimited("memory", "memory.memsw.limit_in_bytes", "memory.max")},
		{ID: "slot-cpu", Field: "cgroup parent: cpu", What: "processor time is unbounded", alter: unlimited("cpu", "cpu.cfs_quota_us", "cpu.max")},
		{ID: "slot-pids", Field: "cgroup parent: pids", What: "tasks of the slot are unbounded", alter: unlimitedPids},
		{ID: "cgroup-parent", Field: "CgroupParent", What: "no limit covers the monitor", alter: spec(func(s *container.Spec) { s.CgroupParent = "" })},
		{ID: "memory", Field: "MemoryBytes", What: "the container's own memory limit", alter: spec(func(s *container.Spec) { s.MemoryBytes = 1 << 40 })},
		{ID: "pids", Field: "Pids", What: "threads of the core are unbounded", alter: spec(func(s *container.Spec) { s.Pids = 4000 })},
		{ID: "fsize", Field: "Rlimits: fsize", What: "the result grows past its bound", alter: rlimit("fsize")},
		{ID: "as", Field: "Rlimits: as", What: "address space is unbounded", alter: rlimit("as")},
		{ID: "cpu-time", Field: "Rlimits: cpu", What: "the backstop of the deadline", alter: rlimit("cpu")},
		{ID: "nofile", Field: "Rlimits: nofile", What: "descriptors are unbounded", alter: raised("nofile", 1000)},
		{ID: "nproc", Field: "Rlimits: nproc", What: "tasks of the slot's user", alter: raised("nproc", 5000)},
		{ID: "memlock", Field: "Rlimits: memlock", What: "locked memory", alter: rlimit("memlock")},
		{ID: "msgqueue", Field: "Rlimits: msgqueue", What: "message queues", alter: rlimit("msgqueue")},
		{ID: "core-size", Field: "Rlimits: core", What: "a core dump reaches the host's handler", alter: rlimit("core")},
		{ID: "oom-score", Field: "OOMScoreAdj", What: "the kernel may kill others first", alter: spec(func(s *container.Spec) { s.OOMScoreAdj = 0 })},
		{ID: "log-driver", Field: "LogDriver", What: "the core's output is written to the host's disk", alter: spec(func(s *container.Spec) { s.LogDriver = "k8s-file" })},
		{ID: "backstop", Field: "Backstop", What: "a core outlives a dead launcher", alter: spec(func(s *container.Spec) { s.Backstop = 1000 * time.Hour })},
		{ID: "environment", Field: "fixed by the adapter: Env", What: "a secret of the environment shows", cut: "env"},
		{ID: "umask", Field: "fixed by the adapter: Umask", What: "files of the core would be readable to all", cut: "umask"},
		{ID: "device-nodes", Field: "fixed by the engine: devices", What: "the core can open a device of the host", cut: "device"},
	}
}

func unmounted(destination string) func(*container.Spec, *cgroup.Tree) {
	return spec(func(s *container.Spec) {
		s.Mounts = slices.DeleteFunc(slices.Clone(s.Mounts), func(m container.Mount) bool { return m.Destination == destination })
	})
}

func unlimitedPids(s *container.Spec, tree *cgroup.Tree) {
	path := filepath.Join("/sys/fs/cgroup/pids", s.CgroupParent, "pids.max")
	if tree.Version() == 2 {
		path = filepath.Join("/sys/fs/cgroup", s.CgroupParent, "pids.max")
	}
	_ = os.WriteFile(path, []byte("max"), 0o600) // as in unlimited
}

// removals joins the walls of ids into one change of the spec and the runtime's cuts.
func removals(ids []string) (alter func(*container.Spec, *cgroup.Tree), cuts []string, err error) {
	var changes []func(*container.Spec, *cgroup.Tree)
	walls := Walls()
	for _, id := range ids {
		i := slices.IndexFunc(walls, func(w Wall) bool { return w.ID == id })
		if i < 0 {
			return nil, nil, fmt.Errorf("no wall is called %q", id)
		}
		if w := walls[i]; w.cut != "" {
			cuts = append(cuts, w.cut)
		} else {
			changes = append(changes, w.alter)
		}
	}
	return func(s *container.Spec, t *cgroup.Tree) {
		for _, change := range changes {
			change(s, t)
		}
	}, cuts, nil
}

// notWalls are rows of the spec that name a thing and hold nothing back.
var notWalls = []string{"Name", "Label", "Rootfs"}

// SpecRows names the rows of the sandbox's spec, so that a row that is added
// without a wall here is found.
func SpecRows() []string {
	var rows []string
	t := reflect.TypeFor[container.Spec]()
	for i := range t.NumField() {
		if name := t.Field(i).Name; !slices.Contains(notWalls, name) {
			rows = append(rows, name)
		}
	}
	return rows
}
