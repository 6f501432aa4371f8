package slot_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/enginetest"
	"glovebox/threat-model/evidence"
)

// proc reads a file of a process's folder under /proc.
type proc string

func (p proc) read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(string(p), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// field returns the words after "Name:" in a status-like file.
func field(text, name string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.Join(strings.Fields(strings.TrimPrefix(rest, ":")), " ")
		}
	}
	return "absent"
}

// The spec as the kernel has it, of a core that runs. The engine's own word on
// it (inspect) is not asked: it reports limits that nobody enforces.
func TestSpecReadBackFromTheKernel(t *testing.T) {
	evidence.Proves(t, "SBX-01", "SBX-02", "SBX-03", "SBX-04", "SBX-05", "SBX-07", "SBX-08", "SBX-16")
	const pids, memory = 7, 96 << 20
	m := enginetest.Maker(t, enginetest.Podman(t), enginetest.Scripted(t), func(l *container.Limits) {
		l.Pids, l.MemoryBytes, l.CPUs, l.AddressSpaceBytes = pids, memory, 0.5, 256<<20
	})
	a := attempt(t, m, 1, "sleep")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = a.Run(ctx)
	}()
	pid := enginetest.AwaitCore(t, m.Tree, a.Name)
	defer func() { cancel(); <-done }()
	p := proc("/proc/" + strconv.Itoa(pid))
	const base = enginetest.UIDBase + container.IDRange // slot 1

	status := p.read(t, "status")
	ids := strings.TrimSpace(strings.Repeat(strconv.Itoa(base+container.CoreUID)+" ", 4))
	for name, want := range map[string]string{
		"Uid": ids, "Gid": ids, "NoNewPrivs": "1", "Seccomp": "2", "Seccomp_filters": "1",
		"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000", "CapBnd": "0000000000000000", "CapAmb": "0000000000000000",
	} {
		if got := field(status, name); got != want {
			t.Errorf("%s is %s, wanted %s", name, got, want)
		}
	}
	if groups := field(status, "Groups"); groups != strconv.Itoa(base+container.CoreUID) {
		t.Errorf("groups are %s", groups)
	}
	for _, file := range []string{"uid_map", "gid_map"} {
		if got, want := strings.Fields(p.read(t, file)), fmt.Sprint([]string{"0", strconv.Itoa(base), "65536"}); fmt.Sprint(got) != want {
			t.Errorf("%s is %v, wanted %s", file, got, want)
		}
	}
	if got := strings.TrimSpace(p.read(t, "oom_score_adj")); got != "1000" {
		t.Errorf("oom_score_adj is %s", got)
	}
	limits := p.read(t, "limits")
	for name, want := range map[string]string{
		"Max file size": "1048577 1048577 bytes", "Max address space": "268435456 268435456 bytes", "Max core file size": "1 1 bytes",
		"Max open files": "64 64 files", "Max locked memory": "0 0 bytes", "Max msgqueue size": "0 0 bytes", "Max processes": "64 64 processes",
		"Max cpu time": "35 35 seconds",
	} {
		if got := field(limits, name); got != want {
			t.Errorf("%s is %s, wanted %s", name, got, want)
		}
	}
	for _, ns := range []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"} {
		theirs, err := os.Readlink(string(p) + "/ns/" + ns)
		ours, err2 := os.Readlink("/proc/self/ns/" + ns)
		if err != nil || err2 != nil || theirs == ours {
			t.Errorf("namespace %s: %s and ours %s (%v, %v)", ns, theirs, ours, err, err2)
		}
	}
	checkGroups(t, m.Tree.Version(), a.Name, pids, memory)
	checkSurroundings(t, p, a.Name)
}

func checkGroups(t *testing.T, version int, name string, pids, memory int) {
	t.Helper()
	if version != 1 {
		return // the version 2 files are in package cgroup's test
	}
	for file, want := range map[string]string{
		"memory/%s/memory.limit_in_bytes":  strconv.Itoa(memory),
		"cpu/%s/cpu.cfs_quota_us":          "50000",
		"pids/%s/libpod-*/pids.max":        strconv.Itoa(pids),
		"memory/%s/conmon/cgroup.procs":    "[0-9]+", // the monitor is inside
		"cpu/%s/conmon/cgroup.procs":       "[0-9]+",
		"memory/%s/libpod-*/cgroup.procs":  "[0-9]+",
		"cpu/%s/libpod-*/cpu.cfs_quota_us": "-1",
		"pids/%s/pids.max":                 "[0-9]+",
	} {
		paths, err := filepath.Glob("/sys/fs/cgroup/" + fmt.Sprintf(file, enginetest.Label+"/"+name))
		if err != nil || len(paths) != 1 {
			t.Errorf("%s: %v, %v", file, paths, err)
			continue
		}
		content, err := os.ReadFile(paths[0])
		if err != nil || !regexp.MustCompile("^"+want+"$").MatchString(strings.TrimSpace(string(content))) {
			t.Errorf("%s is %q, %v; wanted %s", file, content, err, want)
		}
	}
}

func checkSurroundings(t *testing.T, p proc, name string) {
	t.Helper()
	if got := p.read(t, "environ"); got != "HOSTNAME=core\x00HOME=/\x00" {
		t.Errorf("environment is %q", got)
	}
	if got := p.read(t, "cmdline"); got != "/core\x00" {
		t.Errorf("command line is %q", got)
	}
	fds, err := os.ReadDir(string(p) + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, fd := range fds {
		target, _ := os.Readlink(string(p) + "/fd/" + fd.Name())
		targets = append(targets, fd.Name()+"="+regexp.MustCompile(`[0-9]+`).ReplaceAllString(target, "N"))
	}
	if got := strings.Join(targets, " "); got != "0=/dev/null 1=pipe:[N] 2=pipe:[N] 3=/in/input 4=/out/result" {
		t.Errorf("descriptors are %s", got)
	}
	if got := p.read(t, "net/dev"); strings.Count(got, ":") != 1 || !strings.Contains(got, "lo:") {
		t.Errorf("interfaces are %q", got)
	}
	mounts := p.read(t, "mountinfo")
	for line := range strings.SplitSeq(mounts, "\n") {
		// A cgroup's root is shown from the reader's namespace: inside it is "/".
		if !strings.Contains(line, " - cgroup") && (strings.Contains(line, name) || strings.Contains(line, "/tmp/")) {
			t.Errorf("the mount table names a host path: %s", line)
		}
	}
	writable := regexp.MustCompile(`(?m)^\S+ \S+ \S+ \S+ (\S+) rw\S* `)
	var open []string
	for _, match := range writable.FindAllStringSubmatch(mounts, -1) {
		open = append(open, match[1])
	}
	// /dev is a fresh tmpfs that only its root could write; its nodes are devices.
	const want = "/proc /dev /out/result /dev/pts /dev/mqueue /sys/fs/cgroup /dev/null /dev/random /dev/full /dev/tty /dev/zero /dev/urandom"
	if !sameWords(strings.Join(open, " "), want) {
		t.Errorf("mounted for writing: %s", strings.Join(open, " "))
	}
	if !strings.Contains(mounts, " /proc rw,nosuid,nodev,noexec,relatime - proc proc rw,subset=pid") {
		t.Errorf("/proc shows more than processes:\n%s", mounts)
	}
	for _, hidden := range []string{"/proc/meminfo", "/proc/sys", "/proc/kallsyms", "/proc/uptime", "/dev/shm", "/tmp", "/sys/kernel"} {
		if err := unix.Access(string(p)+"/root"+hidden, unix.F_OK); err != unix.ENOENT {
			t.Errorf("%s: %v, wanted that it is not there", hidden, err)
		}
	}
}

func sameWords(a, b string) bool {
	count := map[string]int{}
	for _, w := range strings.Fields(a) {
		count[w]++
	}
	for _, w := range strings.Fields(b) {
		count[w]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}
