package seccomp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"glovebox/system/worker/internal/container/enginetest"
	"glovebox/system/worker/internal/container/seccomp"
	"glovebox/system/worker/internal/container/verdict"
	"glovebox/threat-model/evidence"
)

type rule struct {
	Names    []string
	Action   string
	ErrnoRet *uint
	Args     []struct {
		Index, Value, ValueTwo uint64
		Op                     string
	}
}

func render(t *testing.T, p seccomp.Policy, mode seccomp.Mode) (string, []rule) {
	t.Helper()
	text, err := p.Render(mode)
	if err != nil {
		t.Fatal(err)
	}
	again, err := p.Render(mode)
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("rendered twice, two texts (%v)", err)
	}
	var out struct {
		DefaultAction string
		Syscalls      []rule
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out.DefaultAction, out.Syscalls
}

func load(t *testing.T) seccomp.Policy {
	t.Helper()
	p, err := seccomp.Load()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProfilesDifferInTheDefaultAlone(t *testing.T) {
	evidence.Proves(t, "SBX-06")
	p := load(t)
	coreAction, core := render(t, p, seccomp.Core)
	probeAction, probe := render(t, p, seccomp.Probe)
	if coreAction != "SCMP_ACT_KILL_PROCESS" || probeAction != "SCMP_ACT_ERRNO" {
		t.Errorf("default actions are %s and %s", coreAction, probeAction)
	}
	a, _ := json.Marshal(core)
	b, _ := json.Marshal(probe)
	if !bytes.Equal(a, b) {
		t.Error("the rules differ")
	}
}

// Calls that no rule may allow, whatever becomes of the list.
func TestNeverAllowed(t *testing.T) {
	evidence.Proves(t, "SBX-06")
	_, rules := render(t, load(t), seccomp.Core)
	for _, name := range []string{
		"socket", "socketpair", "connect", "bind", "fork", "vfork", "execveat", "memfd_create", "fallocate", "chmod", "fchmod", "fchmodat", "chown",
		"mount", "umount2", "unshare", "setns", "ptrace", "bpf", "keyctl", "add_key", "io_uring_setup", "userfaultfd", "perf_event_open", "init_module",
		"finit_module", "kexec_load", "process_vm_readv", "pidfd_open", "shmget", "mq_open", "setxattr", "fsetxattr", "unlink", "rename", "link", "symlink",
		"mknod", "flock", "truncate", "utimensat", "setrlimit", "personality", "modify_ldt", "open_by_handle_at", "setuid", "capset", "kill", "tkill", "open", "creat",
	} {
		for _, r := range rules {
			if r.Action == "SCMP_ACT_ALLOW" && slices.Contains(r.Names, name) {
				t.Errorf("%s is allowed", name)
			}
		}
	}
}

func TestWithLiftsOneNameAlone(t *testing.T) {
	p := load(t)
	_, before := render(t, p, seccomp.Probe)
	_, after := render(t, p.With("clone"), seccomp.Probe)
	unconditional := func(rules []rule, name string) bool {
		return slices.ContainsFunc(rules, func(r rule) bool {
			return r.Action == "SCMP_ACT_ALLOW" && len(r.Args) == 0 && slices.Contains(r.Names, name)
		})
	}
	if unconditional(before, "clone") || !unconditional(after, "clone") {
		t.Error("clone is not lifted")
	}
	for _, name := range []string{"socket", "mmap", "clone3"} {
		if unconditional(after, name) {
			t.Errorf("%s is lifted too", name)
		}
	}
	_, again := render(t, p, seccomp.Probe)
	if len(again) != len(before) {
		t.Error("the policy itself was changed")
	}
}

// arguments tries each rule on both sides of its condition, in the sandbox.
const arguments = `
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>
static int out;
static void say(const char *n, long r) { dprintf(out, "%s %d\n", n, r == -1 ? errno : 0); }
#define SAY(x) say(#x, (long)(x))
int main(void)
{
	enum { MERGEABLE = 12, COLD = 20, PAGEOUT = 21 };
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rlimit l; struct sysinfo s; struct flock f = { .l_type = F_RDLCK }; char t[64], e;
	out = open("/out/result", O_WRONLY);
	SAY(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	SAY(mmap(NULL, 4096, PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	SAY(mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	SAY(mprotect(p, 4096, PROT_READ));
	SAY(mprotect(p, 4096, PROT_WRITE | PROT_EXEC));
	SAY(madvise(p, 4096, MADV_DONTNEED));
	SAY(madvise(p, 4096, MERGEABLE));
	SAY(madvise(p, 4096, COLD));
	SAY(madvise(p, 4096, PAGEOUT));
	SAY(syscall(SYS_prlimit64, 0, RLIMIT_CORE, NULL, &l));
	SAY(syscall(SYS_prlimit64, 0, RLIMIT_CORE, &l, NULL));
	SAY(fcntl(out, F_GETFL));
	SAY(fcntl(out, F_SETLK, &f));
	SAY(fcntl(out, F_SETLEASE, F_RDLCK));
	SAY(fcntl(out, F_ADD_SEALS, 1));
	SAY(ioctl(0, TCGETS, t));
	SAY(ioctl(0, TIOCSTI, &e));
	SAY(syscall(SYS_clone3, NULL, 0));
	SAY(syscall(SYS_clone, CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_SIGHAND, 0, 0, 0, 0));
	SAY(sysinfo(&s));
	return 0;
}`

func TestArgumentRules(t *testing.T) {
	evidence.Proves(t, "SBX-06", "SBX-15")
	m := enginetest.Maker(t, enginetest.Podman(t), enginetest.ImageOf(t, enginetest.Compile(t, []byte(arguments))), nil)
	m.Profile = enginetest.Profile(t, seccomp.Probe)
	a, err := m.Acquire(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if v, err := a.Run(t.Context()); err != nil || v.Kind != verdict.Exited || v.ExitCode != 0 {
		t.Fatalf("%+v, %v", v, err)
	}
	tried := 0
	for scanner := bufio.NewScanner(a.Result()); scanner.Scan(); tried++ {
		i := strings.LastIndexByte(scanner.Text(), ' ')
		call, got := scanner.Text()[:i], scanner.Text()[i+1:]
		want := "1" // EPERM
		switch {
		case strings.Contains(call, "PROT_READ | PROT_EXEC"), strings.Contains(call, "PROT_READ)"), strings.Contains(call, "MADV_DONTNEED"),
			strings.Contains(call, "NULL, &l"):
			want = "0"
		case strings.Contains(call, "TCGETS"), strings.Contains(call, "0x5401"):
			want = "25" // ENOTTY: the call is made, /dev/null is no terminal
		case strings.Contains(call, "SYS_clone3"), strings.Contains(call, "435"):
			want = "38" // ENOSYS
		}
		if got != want {
			t.Errorf("%s: errno %s, wanted %s", call, got, want)
		}
	}
	if tried != 20 {
		t.Errorf("%d calls were tried, wanted 20", tried)
	}
	if unix.EPERM != 1 || unix.ENOTTY != 25 || unix.ENOSYS != 38 {
		t.Error("this test's numbers are of another architecture")
	}
}
