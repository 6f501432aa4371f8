package selftest

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/userns"
	"glovebox/system/worker/internal/container/verdict"
)

// probe is one run of the probe program and what it must meet.
type probe struct {
	name    string
	command string // first line of its input
	profile string
	limits  func(*container.Limits) // changes of the limits, for this probe alone
	alter   func(*container.Spec)   // the wall that is lifted
	judge   func(finding) []Wall
}

// overshoot is how far a probe goes beyond a memory limit: enough to meet it, and
// little enough that a host without the limit survives.
const overshoot = 64 << 20

// probeTime bounds a probe that must end by itself.
const probeTime = 20 * time.Second

func (t *Tester) probes() []probe {
	limits := t.Maker.Limits
	calm := func(l *container.Limits) { l.Timeout = probeTime }
	return []probe{
		{name: "walls", command: fmt.Sprintf("walls %d", limits.FileSizeLimit()), profile: t.Profiles.Probe, limits: calm, judge: t.judgeWalls},
		{
			name: "memory", command: fmt.Sprintf("memory %d", limits.MemoryBytes+overshoot), profile: t.Profiles.Probe, limits: calm,
			alter: func(s *container.Spec) { setRlimit(s, "as", uint64(limits.MemoryBytes)+8*overshoot) },
			judge: one("memory", func(f finding) (bool, string) {
				return f.verdict.Kind == verdict.OutOfMemory, fmt.Sprintf("%d bytes over the limit of %d: %s", int64(overshoot), limits.MemoryBytes, ended(f.verdict))
			}),
		},
		{
			name: "address_space", command: "address_space", profile: t.Profiles.Probe, limits: calm,
			judge: one("address_space", func(f finding) (bool, string) {
				given, err := f.number("address_space_mib")
				most := limits.AddressSpaceBytes >> 20
				return err == nil && given > 0 && given <= most, fmt.Sprintf("%d MiB given of %d (%s)", given, most, ended(f.verdict))
			}),
		},
		{
			name: "tasks", command: fmt.Sprintf("tasks %d", limits.Pids+50), profile: t.Profiles.Tasks, limits: calm,
			alter: func(s *container.Spec) { setRlimit(s, "nproc", uint64(limits.Pids)+500) },
			judge: one("tasks", func(f finding) (bool, string) {
				made, err := f.number("tasks_made")
				standing := err == nil && made < limits.Pids && (made > 0 || limits.Pids == 1)
				return standing, fmt.Sprintf("%d processes made beside the first, limit %d (%s)", made, limits.Pids, ended(f.verdict))
			}),
		},
		{
			name: "cpu", command: fmt.Sprintf("cpu %d", int(100*mostCPUs)), profile: t.Profiles.Probe,
			limits: func(l *container.Limits) { calm(l); l.CPUs, l.Pids = probeCPUs, max(l.Pids, 8) },
			judge:  one("cpu", judgeCPU),
		},
		{
			name: "forbidden", command: "forbidden", profile: t.Profiles.Core, limits: calm,
			judge: one("seccomp_kill", func(f finding) (bool, string) { return f.verdict.Forbidden(), ended(f.verdict) }),
		},
		{
			name: "endless", command: "endless", profile: t.Profiles.Core,
			limits: func(l *container.Limits) { l.Timeout = 500 * time.Millisecond },
			judge: one("deadline", func(f finding) (bool, string) {
				return f.verdict.Kind == verdict.Timeout, fmt.Sprintf("%s after %d ms", ended(f.verdict), f.verdict.DurationMS)
			}),
		},
	}
}

// probeCPUs is the quota of the cpu probe: so little that even a busy host gives two
// threads more in some tenth of a second, and the kernel has to hold them back.
const probeCPUs = 0.05

// mostCPUs is what the probe may get of it, with an allowance for the quota's grain.
const mostCPUs = probeCPUs + 0.15

// judgeCPU demands that the kernel held the probe back, and that it did so enough:
// processor time alone would let a busy host pass for one with a quota.
func judgeCPU(f finding) (bool, string) {
	used, err1 := f.number("cpu_ms")
	wall, err2 := f.number("wall_ms")
	standing := err1 == nil && err2 == nil && used > 0 && float64(used) <= mostCPUs*float64(wall) && f.throttled > 0
	return standing, fmt.Sprintf("%d ms of processor in %d ms at a quota of %g, held back %d times (%s)", used, wall, probeCPUs, f.throttled, ended(f.verdict))
}

func one(name string, judge func(finding) (bool, string)) func(finding) []Wall {
	return func(f finding) []Wall {
		stands, detail := judge(f)
		return []Wall{{Name: name, Stands: stands, Detail: detail}}
	}
}

func ended(v verdict.Verdict) string {
	switch v.Kind {
	case verdict.Exited:
		return "exit " + strconv.Itoa(v.ExitCode)
	case verdict.Signaled:
		return "signal " + strconv.Itoa(v.Signal)
	}
	return string(v.Kind)
}

// refused are attempts that must fail, whatever the error.
var refused = []string{
	"socket_inet", "socket_inet6", "socket_unix", "socket_netlink", "socket_packet", "socket_vsock",
	"unshare_user", "unshare_mount", "fork", "clone_process", "memfd", "write_exec",
	"input_for_writing", "create_in_out", "create_in_root", "proc_counters", "raise_limit", "preallocate",
	"login_id",
}

// remedies say what to do about walls that are for the host to set up.
var remedies = map[string]string{
	"login_id": "the engine has no audit login id: let its service begin with echo 0 >/proc/self/loginuid (docs/MODES.md)",
}

// judgeWalls reads the one probe that tries many things.
func (t *Tester) judgeWalls(f finding) []Wall {
	if f.verdict.Kind != verdict.Exited || f.verdict.ExitCode != 0 {
		return []Wall{{Name: "probe_walls", Detail: "the probe did not come to its end: " + ended(f.verdict)}}
	}
	var walls []Wall
	for _, name := range refused {
		errno, err := f.number(name)
		w := Wall{Name: name, Stands: err == nil && errno != 0, Detail: errnoName(errno, err)}
		if remedy := remedies[name]; !w.Stands && remedy != "" {
			w.Detail += "; " + remedy
		}
		walls = append(walls, w)
	}
	for _, name := range []string{"root_read_only", "input_read_only"} {
		is, err := f.number(name)
		walls = append(walls, Wall{Name: name, Stands: err == nil && is == 1, Detail: fmt.Sprintf("mount flag: %d", is)})
	}
	last, err1 := f.number("last_byte")
	beyond, err2 := f.number("beyond_last_byte")
	walls = append(walls, Wall{
		Name: "file_size", Stands: err1 == nil && err2 == nil && last == 0 && beyond == int64(unix.EFBIG),
		Detail: fmt.Sprintf("last byte within %d: %s; first beyond: %s", t.Maker.Limits.FileSizeLimit(), errnoName(last, err1), errnoName(beyond, err2)),
	})
	base := int64(t.Maker.UIDBase) + int64(t.Slot)*container.IDRange
	uid := strconv.Itoa(container.CoreUID)
	uids := uid + " " + uid + " " + uid + " " + uid
	for _, s := range []struct{ name, field, want string }{
		{"user", "Uid", uids}, {"group", "Gid", uids},
		{"no_new_privileges", "NoNewPrivs", "1"}, {"seccomp_mode", "Seccomp", "2"},
		{"capabilities_effective", "CapEff", none}, {"capabilities_permitted", "CapPrm", none}, {"capabilities_bounding", "CapBnd", none},
		{"capabilities_inheritable", "CapInh", none}, {"capabilities_ambient", "CapAmb", none},
	} {
		got := f.status(s.field)
		walls = append(walls, Wall{Name: s.name, Stands: got == s.want, Detail: s.field + " is " + got})
	}
	return append(walls, idMap(f.lines, base))
}

// none is an empty capability set in /proc/self/status.
const none = "0000000000000000"

func idMap(lines string, base int64) Wall {
	var inside, outside, size int64
	w := Wall{Name: "user_namespace", Detail: "the probe says nothing of its id map"}
	for line := range strings.SplitSeq(lines, "\n") {
		if n, _ := fmt.Sscanf(line, "uid_map: %d %d %d", &inside, &outside, &size); n == 3 {
			w.Detail = fmt.Sprintf("%d ids from %d are host ids from %d", size, inside, outside)
			// The probe sees the launcher's numbers; what counts is what the host calls them.
			host, err := userns.Outside(uint64(outside))
			w.Stands = err == nil && inside == 0 && outside == base && size == container.IDRange && host > math.MaxUint16
		}
	}
	return w
}

func errnoName(errno int64, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case errno == 0:
		return "it worked"
	}
	if name := unix.ErrnoName(syscall.Errno(errno)); name != "" {
		return name
	}
	return strconv.FormatInt(errno, 10)
}
