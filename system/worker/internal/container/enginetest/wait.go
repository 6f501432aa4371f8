package enginetest

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"glovebox/system/worker/internal/container/cgroup"
)

// AwaitCore returns the process of the attempt once it runs the core itself, by
// the kernel's word; 20 seconds without it fail the test.
func AwaitCore(t testing.TB, tree *cgroup.Tree, name string) int {
	t.Helper()
	group := tree.Group(Label, name)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		if pid := runningCore(group); pid != 0 {
			return pid
		}
	}
	t.Fatal("the core does not run within 20 s")
	return 0
}

// AwaitAnyCore is AwaitCore for an attempt of unknown name; it returns 0 after 20
// seconds without one.
func AwaitAnyCore(tree *cgroup.Tree) int {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		names, err := tree.Leftovers(Label)
		if err != nil {
			return 0
		}
		for _, name := range names {
			if pid := runningCore(tree.Group(Label, name)); pid != 0 {
				return pid
			}
		}
	}
	return 0
}

// runningCore returns the process of the group that has become the core, or 0.
func runningCore(group *cgroup.Group) int {
	pids, err := group.Core()
	if err != nil {
		return 0
	}
	for _, pid := range pids {
		comm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
		if err == nil && strings.TrimSpace(string(comm)) == "core" {
			return pid
		}
	}
	return 0
}

// RunIn runs a shell command in the cgroups of dirs and waits for its end.
func RunIn(t testing.TB, dirs []string, script string) {
	t.Helper()
	var enter strings.Builder
	for _, dir := range dirs {
		enter.WriteString("echo $$ > " + dir + "/cgroup.procs; ")
	}
	err := exec.Command("sh", "-c", enter.String()+script).Run()
	t.Logf("%s: %v", script, err)
}

// StartIn starts a program in the cgroups of dirs and returns its process once
// it runs there. The process is killed at the test's end.
func StartIn(t testing.TB, dirs []string, program string) int {
	t.Helper()
	var enter strings.Builder
	for _, dir := range dirs {
		enter.WriteString("echo $$ > " + dir + "/cgroup.procs; ")
	}
	cmd := exec.Command("sh", "-c", enter.String()+"echo inside; exec "+program)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}
