package cgroup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"glovebox/threat-model/evidence"
)

// group makes a group on the real hierarchy; the test needs root, as the
// launcher does.
func group(t *testing.T, l Limits) (*Tree, *Group) {
	t.Helper()
	tree, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	base := fmt.Sprintf("gbtest-%d", os.Getpid())
	g, err := tree.Create(base, strings.ReplaceAll(t.Name(), "/", "-"), l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Destroy(ctx); err != nil {
			t.Error(err)
		}
		if err := tree.RemoveBase(base); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(g.main()); !os.IsNotExist(err) {
			t.Errorf("the group is still there: %v", err)
		}
	})
	return tree, g
}

// inside starts a shell command in a child group, as the engine would.
func inside(t *testing.T, g *Group, child, script string) *exec.Cmd {
	t.Helper()
	var enter strings.Builder
	for _, name := range needed {
		root := g.tree.roots[name]
		if g.tree.version == 2 {
			root = g.tree.roots[""]
		}
		dir := filepath.Join(root, g.name, child)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&enter, "echo $$ > %s/cgroup.procs; ", dir)
	}
	cmd := exec.Command("sh", "-c", enter.String()+script)
	cmd.Stderr = os.Stderr
	return cmd
}

var ample = Limits{MemoryBytes: 64 << 20, Pids: 100, CPUs: 1}

func TestMemoryDeathIsSeenAndPageCacheIsNot(t *testing.T) {
	evidence.Proves(t, "SBX-04", "SBX-16")
	t.Run("death", func(t *testing.T) {
		_, g := group(t, ample)
		if err := inside(t, g, "libpod-x", "exec tail /dev/zero").Run(); err == nil {
			t.Fatal("a program that keeps all of /dev/zero ended well")
		}
		if killed, err := g.MemoryKilled(); err != nil || !killed {
			t.Errorf("memory death seen: %v, %v", killed, err)
		}
	})
	t.Run("death of a child under a parent that ends well", func(t *testing.T) {
		_, g := group(t, ample)
		if err := inside(t, g, "libpod-x", "tail /dev/zero || true; exit 0").Run(); err != nil {
			t.Fatal(err)
		}
		if killed, err := g.MemoryKilled(); err != nil || !killed {
			t.Errorf("memory death seen: %v, %v", killed, err)
		}
	})
	t.Run("page cache", func(t *testing.T) {
		_, g := group(t, ample)
		file := filepath.Join(t.TempDir(), "large")
		script := "head -c 200000000 /dev/zero > " + file + "; sync; cat " + file + " > /dev/null"
		if err := inside(t, g, "libpod-x", script).Run(); err != nil {
			t.Fatal(err)
		}
		if killed, err := g.MemoryKilled(); err != nil || killed {
			t.Errorf("memory death seen: %v, %v", killed, err)
		}
	})
}

func TestTaskLimitBites(t *testing.T) {
	evidence.Proves(t, "SBX-04")
	const script = `n=0; while [ $n -lt 40 ]; do sleep 60 & n=$((n+1)); done 2>/dev/null; exit 0`
	_, g := group(t, Limits{MemoryBytes: 64 << 20, Pids: 8, CPUs: 1})
	_ = inside(t, g, "libpod-x", script).Run()
	pids, err := g.Core()
	if err != nil {
		t.Fatal(err)
	}
	if len(pids) == 0 || len(pids) > 8 {
		t.Errorf("%d processes live in a group limited to 8", len(pids))
	}
}

func TestKillCoreSparesTheMonitorAndDestroyDoesNot(t *testing.T) {
	evidence.Proves(t, "SBX-12")
	_, g := group(t, ample)
	core := inside(t, g, "libpod-x", "sleep 60 & echo ready; wait")
	ready, err := core.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	monitor := inside(t, g, monitorGroup, "echo ready; exec sleep 60")
	monitorReady, err := monitor.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{core, monitor} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	one := make([]byte, 1)
	if _, err := ready.Read(one); err != nil {
		t.Fatal(err)
	}
	if _, err := monitorReady.Read(one); err != nil {
		t.Fatal(err)
	}
	if held, err := g.Holds(core.Process.Pid); err != nil || !held {
		t.Fatalf("the group holds the process: %v, %v", held, err)
	}
	if held, err := g.Holds(os.Getpid()); err != nil || held {
		t.Fatalf("the group holds the test: %v, %v", held, err)
	}
	coreDone, monitorDone := make(chan error, 1), make(chan error, 1)
	go func() { coreDone <- core.Wait() }()
	go func() { monitorDone <- monitor.Wait() }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := g.KillCore(ctx); err != nil {
		t.Fatal(err)
	}
	<-coreDone
	if all, err := g.processes(true); err != nil || len(all) != 1 {
		t.Fatalf("with the core dead the group holds %v, %v; wanted the monitor alone", all, err)
	}
	if err := g.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	<-monitorDone
}

func TestLeftoversAreListed(t *testing.T) {
	tree, g := group(t, ample)
	names, err := tree.Leftovers(filepath.Dir(g.name))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 1 || names[0] != filepath.Base(g.name) {
		t.Errorf("leftovers are %v", names)
	}
	if names, err := tree.Leftovers("gbtest-none"); err != nil || len(names) != 0 {
		t.Errorf("leftovers of a base that is not there: %v, %v", names, err)
	}
}

func TestDetect(t *testing.T) {
	const v1 = `1 2 0:29 / /c/cpu rw - cgroup cgroup rw,cpu
1 2 0:30 / /c/memory rw - cgroup cgroup rw,memory
1 2 0:31 / /c/pids rw - cgroup cgroup rw,pids
1 2 0:32 / /c/systemd rw - cgroup systemd rw,name=systemd
`
	const unified = "1 2 0:33 / /c/unified rw - cgroup2 cgroup2 rw,nsdelegate\n"
	for name, c := range map[string]struct {
		table   string
		version int
		refused string
	}{
		"version 1":               {v1, 1, ""},
		"hybrid":                  {v1 + unified, 1, ""},
		"version 2":               {unified, 2, ""},
		"a controller is missing": {strings.Replace(v1, "rw,pids", "rw,rdma", 1), 0, "controller pids"},
		"none":                    {"", 0, "controller memory"},
	} {
		t.Run(name, func(t *testing.T) {
			tree, err := detect(c.table)
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Fatalf("error is %v, wanted one about %s", err, c.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tree.Version() != c.version {
				t.Errorf("version %d", tree.Version())
			}
		})
	}
}

// The version 2 layout is written to files that stand for the kernel's: this
// shows the names and forms, not that a kernel enforces them, which the
// self-test shows on the host it runs on.
func TestVersion2Files(t *testing.T) {
	root := t.TempDir()
	for _, f := range []string{"cgroup.subtree_control", "base/cgroup.subtree_control", "base/a/cgroup.subtree_control", "base/a/memory.max", "base/a/memory.swap.max", "base/a/pids.max", "base/a/cpu.max"} {
		path := filepath.Join(root, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"", "base", "base/a"} {
		if err := os.WriteFile(filepath.Join(root, dir, "cgroup.controllers"), []byte("cpuset cpu io memory pids\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// As the launcher that serves has it: the groups must be passable all the same.
	for _, dir := range []string{"base", "base/a"} {
		if err := os.Chmod(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	tree := &Tree{version: 2, roots: map[string]string{"": root}}
	g, err := tree.Create("base", "a", Limits{MemoryBytes: 1 << 20, Pids: 7, CPUs: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"cgroup.subtree_control": "+memory +pids +cpu", "base/cgroup.subtree_control": "+memory +pids +cpu",
		"base/a/memory.max": "1048576", "base/a/memory.swap.max": "0", "base/a/pids.max": "7", "base/a/cpu.max": "50000 100000",
	} {
		got, err := os.ReadFile(filepath.Join(root, file))
		if err != nil || string(got) != want {
			t.Errorf("%s holds %q (%v), wanted %q", file, got, err, want)
		}
	}
	for _, dir := range []string{"base", "base/a"} {
		if info, err := os.Stat(filepath.Join(root, dir)); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s cannot be passed by the container's root: %v, %v", dir, info.Mode(), err)
		}
	}
	events := filepath.Join(root, "base/a/memory.events")
	// In this order: a death once seen stays seen.
	for _, c := range []struct {
		text string
		want bool
	}{
		{"low 0\nmax 478\noom 0\noom_kill 0\n", false},
		{"max 1\noom 1\noom_kill 2\noom_group_kill 0\n", true},
		{"low 0\nmax 478\noom 0\noom_kill 0\n", true},
	} {
		if err := os.WriteFile(events, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		killed, err := g.MemoryKilled()
		if err != nil || killed != c.want {
			t.Errorf("%q: killed %v, %v", c.text, killed, err)
		}
	}
}

// A controller that was not handed over is named; nothing of it is left to chance.
func TestVersion2NamesAControllerThatIsNotDelegated(t *testing.T) {
	evidence.Proves(t, "SBX-10")
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "cgroup.controllers"), []byte("cpu pids\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tree := &Tree{version: 2, roots: map[string]string{"": root}, home: "/"}
	_, err := tree.Create("base", "a", ample)
	if err == nil || !strings.Contains(err.Error(), "controllers memory are not handed down") {
		t.Errorf("error is %v", err)
	}
}

func TestHome(t *testing.T) {
	for own, want := range map[string]string{
		"0::/system.slice/x.service\n":              "/", // root, and not handed over
		"0::/a/glovebox-launcher.service/self\n":    "/a/glovebox-launcher.service",
		"1:name=systemd:/x\n0::/a/l.service/self\n": "/a/l.service",
	} {
		if got, err := home(t.TempDir(), own); err != nil || got != want {
			t.Errorf("home of %q is %q, %v; wanted %q", own, got, err, want)
		}
	}
	if _, err := home(t.TempDir(), "4:memory:/x\n"); err == nil {
		t.Error("a text without version 2 is taken")
	}
}

// child starts a program that waits, under the name by which the kernel calls it.
func child(t *testing.T, name string) int {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	if err := os.Symlink("/bin/sleep", program); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

// A monitor outside the slot's group is not let pass: what it does would be charged
// to somebody else.
func TestAMonitorElsewhereIsMovedOrRefused(t *testing.T) {
	evidence.Proves(t, "SBX-16")
	tree, g := group(t, ample)
	outside := child(t, monitorName)
	err := g.AdoptMonitor(outside)
	held, heldErr := g.Holds(outside)
	if heldErr != nil {
		t.Fatal(heldErr)
	}
	if (err == nil) != held || tree.Version() == 2 && !held {
		t.Errorf("on version %d: %v, and the group holds the monitor: %v", tree.Version(), err, held)
	}
	if err := g.AdoptMonitor(os.Getpid()); err != nil {
		t.Errorf("without a monitor: %v", err)
	}
}

// Where the monitor has died, whoever takes orphans in is the parent, and must not be
// moved to where it would be killed. The tree is a folder: what would be moved is what
// is written.
func TestWhoTakesOrphansInIsNotMoved(t *testing.T) {
	evidence.Proves(t, "SBX-12", "SBX-16")
	for name, moved := range map[string]bool{"systemd": false, "podman": false, monitorName: true} {
		tree := &Tree{version: 2, roots: map[string]string{"": t.TempDir()}, home: "/"}
		g := tree.Group("base", "a")
		dir := filepath.Join(g.main(), monitorGroup)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		procs := filepath.Join(dir, "cgroup.procs")
		if err := os.WriteFile(procs, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		pid := child(t, name)
		err := g.AdoptMonitor(pid)
		text, readErr := os.ReadFile(procs)
		if readErr != nil {
			t.Fatal(readErr)
		}
		if (err == nil) != moved || (string(text) == strconv.Itoa(pid)) != moved || !moved && len(text) > 0 {
			t.Errorf("%s: %v, and process %q was moved", name, err, text)
		}
	}
}
