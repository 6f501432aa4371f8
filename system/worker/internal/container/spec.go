// Package container says, as data, in what the core runs: the whole sandbox is
// one Spec, and an Engine is whatever can make a container of it.
//
// The parts that make an attempt are packages below this one, each of one
// concern: image (the verified files of the core), slotfs (the slot's own
// filesystem), cgroup (the slot's own limits), seccomp (the allow list), pidfd
// (life and death of a process), verdict (what a death means), slot (an attempt
// from beginning to end), selftest (the walls, tried), podman (the engine).
package container

import (
	"math"
	"time"
)

// Identity of the core inside its user namespace, and the size of a slot's range
// of host ids. One extent of full size: two extents fail to mount.
const (
	CoreUID = 65532
	IDRange = 65536
)

// Paths of the contract (core/CONTRACT.md).
const (
	CorePath   = "/core"
	InputPath  = "/in/input"
	ResultPath = "/out/result"
)

// Spec is a container in full. Each field is a wall or carries one; the podman
// adapter translates and adds nothing of its own.
type Spec struct {
	Name   string // random, tells nothing of user, job or file (SBX-08)
	Label  string // the launcher's own name, by which leftovers are found
	Rootfs string // host path of the slot's private copy of the image

	Command  []string
	Hostname string

	UID, GID uint32
	IDMap    IDMap

	NoNewPrivileges  bool
	DropCapabilities []string
	ReadOnlyRootfs   bool
	SeccompProfile   string // host path of a file in the engine's JSON form

	Network string // "none": a namespace with no interface but lo
	IPC     string // "none": a namespace without /dev/shm
	Private []string

	Mounts []Mount
	Masked []string

	CgroupParent string // holds the limits that count; made by the caller
	MemoryBytes  int64  // of the container's own group, above the parent's
	Pids         int64
	Rlimits      []Rlimit
	OOMScoreAdj  int

	LogDriver string
	Backstop  time.Duration // the engine's own kill, from creation
}

// IDMap maps Size ids from Container to Host, for users and groups alike.
type IDMap struct{ Container, Host, Size uint32 }

// Mount is one mount, with the options the OCI runtime knows.
type Mount struct {
	Type, Source, Destination string
	Options                   []string
}

// Rlimit is a resource limit, soft and hard alike, by its lower-case name.
type Rlimit struct {
	Name  string
	Value uint64
}

// Place says where one attempt lives on the host.
type Place struct {
	Name         string
	Label        string
	UIDBase      uint32
	Rootfs       string
	Input        string
	Result       string
	Empty        string // an empty file on the slot's filesystem
	CgroupParent string
	Profile      string
}

// backstopMargin is what the engine waits longer than the launcher, whose own
// deadline is the one that counts.
const backstopMargin = 30 * time.Second

// parentMargin keeps the container's own memory limit above its parent's, so
// that the parent's bites first: only the parent outlives the core and can tell.
const parentMargin = 64 << 20

// New returns the spec of an attempt at place under limits.
func New(p Place, l Limits) Spec {
	seconds := uint64(math.Ceil(l.Timeout.Seconds()*math.Max(1, l.CPUs))) + 5
	return Spec{
		Name: p.Name, Label: p.Label, Rootfs: p.Rootfs,
		Command: []string{CorePath}, Hostname: "core",
		UID: CoreUID, GID: CoreUID,
		IDMap: IDMap{Container: 0, Host: p.UIDBase, Size: IDRange},

		NoNewPrivileges:  true,
		DropCapabilities: []string{"ALL"},
		ReadOnlyRootfs:   true,
		SeccompProfile:   p.Profile,

		Network: "none", IPC: "none", Private: []string{"pid", "uts", "cgroup", "user"},

		Mounts: mounts(p),
		// With subset=pid most of what is masked does not exist any more. The list
		// stays as the second wall for an engine that drops the mount option.
		Masked: []string{"/sys", "/proc/cmdline", "/proc/version", "/proc/partitions", "/proc/modules", "/proc/kallsyms",
			"/proc/interrupts", "/proc/config.gz", "/proc/slabinfo", "/proc/vmallocinfo"},

		CgroupParent: p.CgroupParent,
		MemoryBytes:  l.MemoryBytes + parentMargin,
		Pids:         l.Pids,
		Rlimits: []Rlimit{
			{"fsize", uint64(l.FileSizeLimit())},
			{"as", uint64(l.AddressSpaceBytes)},
			{"cpu", seconds},
			{"nofile", l.OpenFiles},
			{"nproc", uint64(max(l.Pids, 64))},
			{"memlock", 0},
			{"msgqueue", 0},
			// 1, not 0: a piped core_pattern starts the host's handler even at 0.
			{"core", 1},
		},
		OOMScoreAdj: 1000,

		LogDriver: "none", // anything else is a write to the host's disk that the core steers
		Backstop:  l.Timeout + backstopMargin,
	}
}

// mounts lists all that the core sees beside its read-only root. The two empty
// files take the place of files of the engine's, which lie on a filesystem that
// all containers share and whose free space one could read (SBX-15).
func mounts(p Place) []Mount {
	bind := func(source, destination, mode string) Mount {
		return Mount{Type: "bind", Source: source, Destination: destination,
			Options: []string{"bind", mode, "nosuid", "nodev", "noexec", "private"}}
	}
	return []Mount{
		{Type: "proc", Source: "proc", Destination: "/proc", Options: []string{"nosuid", "nodev", "noexec", "subset=pid"}},
		bind(p.Input, InputPath, "ro"),
		bind(p.Result, ResultPath, "rw"),
		bind(p.Empty, "/etc/hostname", "ro"),
		bind(p.Empty, "/run/.containerenv", "ro"),
	}
}
