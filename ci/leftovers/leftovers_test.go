package leftovers_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"glovebox/ci/engine"
	"glovebox/ci/leftovers"
	"glovebox/threat-model/evidence"
)

// name is of an attempt that is planted.
const name = "a-00000000000000000000000000000000"

// host makes the state of a system whose one launcher keeps warm containers ready,
// and has none.
func host(t *testing.T, warm string) leftovers.Host {
	t.Helper()
	dir, err := os.MkdirTemp("", "gbx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.MkdirAll(dir+"/etc", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir+"/slots-0", 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/etc/launcher-0.toml", []byte("[sandbox]\nslots = 2\n"+warm), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := engine.Start(ctx, engine.Options{Dir: dir + "/e"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return leftovers.Host{State: dir, Launchers: 1, Engine: s.Socket, Holders: []int{os.Getpid()}}
}

func found(t *testing.T, h leftovers.Host) string {
	t.Helper()
	all, err := h.Found()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "; ")
}

// Each thing that an attempt can leave is found, and nothing where there is none.
func TestEachLeftoverIsFound(t *testing.T) {
	evidence.Proves(t, "SBX-12")
	h := host(t, "warm = 0\n")
	folder := filepath.Join(h.State, "slots-0", name)
	group := filepath.Join("/sys/fs/cgroup/memory", h.Launcher(0), name)
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err != nil {
		group = filepath.Join("/sys/fs/cgroup", h.Launcher(0), name)
	}
	if said := found(t, h); said != "" {
		t.Fatalf("on a clean host: %s", said)
	}
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	remote := []string{"podman", "--remote", "--url", "unix://" + h.Engine}
	for _, c := range []struct {
		kind        string
		plant, take func()
		want        string
	}{
		{"a folder", func() { run("mkdir", folder) }, func() { run("rmdir", folder) }, "folder true"},
		{"a mount", func() { run("mkdir", folder); run("mount", "-t", "tmpfs", "none", folder) }, func() { run("umount", folder); run("rmdir", folder) }, "mount true"},
		{"a cgroup", func() { run("mkdir", "-p", group) }, func() { run("rmdir", group, filepath.Dir(group)) }, "1 cgroups"},
		{"a container", func() {
			run(append(slices.Clone(remote), "create", "--name", name, "--label", "glovebox.launcher="+h.Launcher(0), "--rootfs", t.TempDir(), "/core")...)
		}, func() { run(append(slices.Clone(remote), "rm", name)...) }, "container true"},
	} {
		c.plant()
		said := found(t, h)
		c.take()
		if !strings.Contains(said, c.want) || !strings.Contains(said, name) {
			t.Errorf("%s: %q", c.kind, said)
		}
		if said := found(t, h); said != "" {
			t.Errorf("%s was taken away: %s", c.kind, said)
		}
	}
}

func TestAProcessAndADescriptorAreFound(t *testing.T) {
	evidence.Proves(t, "SBX-12")
	h := host(t, "warm = 0\n")
	root := filepath.Join(h.State, "slots-0")
	file, err := os.Create(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil {
		t.Fatal(err)
	}
	if said := found(t, h); !strings.Contains(said, "holds "+file.Name()) {
		t.Errorf("a descriptor: %q", said)
	}
	file.Close()
	group := filepath.Join("/sys/fs/cgroup/memory", h.Launcher(0), name)
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err != nil {
		group = filepath.Join("/sys/fs/cgroup", h.Launcher(0), name)
	}
	if err := os.MkdirAll(group, 0o755); err != nil {
		t.Fatal(err)
	}
	sleeper := exec.Command("sh", "-c", "echo $$ >"+group+"/cgroup.procs && echo in && exec sleep 300")
	out, err := sleeper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	said := found(t, h)
	_ = sleeper.Process.Kill()
	_ = sleeper.Wait()
	if !strings.Contains(said, "sleep") && !strings.Contains(said, "sh ") {
		t.Fatalf("a process: %q", said)
	}
	for os.Remove(group) != nil { // the kernel has not finished with the dead
		time.Sleep(time.Millisecond)
	}
	if err := os.Remove(filepath.Dir(group)); err != nil {
		t.Error(err)
	}
}

// A launcher that keeps nothing ready although it should is noticed.
func TestMissingWarmContainersAreFound(t *testing.T) {
	h := host(t, "")
	if said := found(t, h); !strings.Contains(said, "0 containers wait, configured are 2") {
		t.Errorf("found %q", said)
	}
}
