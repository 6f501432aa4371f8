// Package enginetest holds what tests of the sandbox share: the conformance suite
// of container.Engine, a private podman service, a core that follows a script,
// and an engine without walls for tests of what stands around one.
package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/cgroup"
	"glovebox/system/worker/internal/container/pidfd"
	"glovebox/system/worker/internal/container/slotfs"
)

// Label is the label and cgroup of every container a test process makes, its own
// because several test processes run at the same time.
var Label = fmt.Sprintf("gbtest%d", os.Getpid())

// Engine is what the suite exercises.
type Engine interface {
	container.Engine
	container.Inventory
	container.Service
}

// UIDBase is the first host id of slot 0 in tests, clear of the installed
// launcher's.
const UIDBase = 900_000_000

// bench makes places for specs by hand, as package slot does it.
type bench struct {
	engine  Engine
	tree    *cgroup.Tree
	config  slotfs.Config
	image   slotfs.Unpacker
	profile string
}

// Exercise runs the conformance suite on engine. profile is the path of a
// seccomp profile that the engine may read.
func Exercise(t *testing.T, engine Engine, profile string) {
	tree, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.RemoveBase(Label); err != nil {
			t.Errorf("cgroups are left: %v", err)
		}
	})
	img := Scripted(t)
	b := &bench{
		engine: engine, tree: tree, image: img, profile: profile,
		config: slotfs.Config{Root: SlotsRoot(t), Backing: slotfs.Tmpfs, MaxInputBytes: 1 << 20, MaxResultBytes: 1 << 20, ImageBytes: img.Bytes, ImageFiles: img.Files},
	}
	t.Run("a prepared process waits for Start", b.waits)
	t.Run("exit codes", b.exitCodes)
	t.Run("Remove kills and is repeatable", b.removes)
	t.Run("Labelled finds what is there", b.lists)
	t.Run("unknown names", b.unknown)
	t.Run("a spec that cannot be made", b.broken)
}

// SlotsRoot is a root for slots that a foreign user may pass through, which
// t.TempDir is not.
func SlotsRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gbs")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("the slots' root is not empty: %v", err)
		}
	})
	return dir
}

// place makes a spec whose core will follow script.
func (b *bench) place(t *testing.T, script string) (container.Spec, *slotfs.FS) {
	t.Helper()
	name := slotfs.NewName()
	group, err := b.tree.Create(Label, name, cgroup.Limits{MemoryBytes: 128 << 20, Pids: 128, CPUs: 1})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := errors.Join(b.engine.Remove(ctx, name), group.Destroy(ctx)); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	fs, err := slotfs.Make(t.Context(), b.config, name, UIDBase+container.CoreUID, b.image)
	t.Cleanup(func() {
		if err := fs.Remove(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fs.Input.WriteString(script); err != nil {
		t.Fatal(err)
	}
	limits := container.Defaults()
	limits.MaxResultBytes = b.config.MaxResultBytes
	return container.New(container.Place{
		Name: name, Label: Label, UIDBase: UIDBase, Rootfs: fs.Files.Rootfs, Input: fs.Files.Input,
		Result: fs.Files.Result, Empty: fs.Files.Empty, CgroupParent: group.Path(), Profile: b.profile,
	}, limits), fs
}

func (b *bench) prepare(t *testing.T, spec container.Spec) *pidfd.Process {
	t.Helper()
	pid, err := b.engine.Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	p, err := pidfd.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func (b *bench) waits(t *testing.T) {
	spec, fs := b.place(t, "exit 0")
	p := b.prepare(t, spec)
	group := b.tree.Group(Label, spec.Name)
	if held, err := group.Holds(p.PID()); err != nil || !held {
		t.Errorf("the process is in the spec's cgroup: %v, %v", held, err)
	}
	if p.Dead() {
		t.Error("the prepared process is dead")
	}
	if info, err := fs.Result.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("the core ran before its start: %d bytes, %v", info.Size(), err)
	}
	if err := b.engine.Start(t.Context(), spec.Name); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := fs.Result.Stat(); err != nil || info.Size() != int64(len("half")) {
		t.Errorf("the result has %d bytes, %v", info.Size(), err)
	}
}

func (b *bench) exitCodes(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "segv": 139} {
		spec, _ := b.place(t, script)
		b.prepare(t, spec)
		if err := b.engine.Start(t.Context(), spec.Name); err != nil {
			t.Fatal(err)
		}
		if code, err := b.engine.ExitCode(t.Context(), spec.Name); err != nil || code != want {
			t.Errorf("%s: code %d, %v", script, code, err)
		}
	}
}

func (b *bench) removes(t *testing.T) {
	spec, _ := b.place(t, "loop")
	p := b.prepare(t, spec)
	if err := b.engine.Start(t.Context(), spec.Name); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.engine.Remove(t.Context(), spec.Name); err != nil {
			t.Fatal(err)
		}
	}
	if !p.Dead() {
		t.Error("the core outlives its container")
	}
}

func (b *bench) lists(t *testing.T) {
	spec, _ := b.place(t, "loop")
	b.prepare(t, spec)
	names, err := b.engine.Labelled(t.Context(), Label)
	if err != nil || !slices.Contains(names, spec.Name) {
		t.Errorf("labelled: %v, %v", names, err)
	}
	if names, err := b.engine.Labelled(t.Context(), "another"); err != nil || len(names) != 0 {
		t.Errorf("labelled otherwise: %v, %v", names, err)
	}
	if err := b.engine.Remove(t.Context(), spec.Name); err != nil {
		t.Fatal(err)
	}
	if names, err := b.engine.Labelled(t.Context(), Label); err != nil || slices.Contains(names, spec.Name) {
		t.Errorf("labelled after the removal: %v, %v", names, err)
	}
}

func (b *bench) unknown(t *testing.T) {
	name := slotfs.NewName()
	if err := b.engine.Start(t.Context(), name); !errors.Is(err, container.ErrUnknownContainer) {
		t.Errorf("start: %v", err)
	}
	if _, err := b.engine.ExitCode(t.Context(), name); !errors.Is(err, container.ErrUnknownContainer) {
		t.Errorf("exit code: %v", err)
	}
	if err := b.engine.Remove(t.Context(), name); err != nil {
		t.Errorf("remove: %v", err)
	}
}

func (b *bench) broken(t *testing.T) {
	spec, _ := b.place(t, "exit 0")
	spec.Mounts[1].Source += "-is-not-there"
	if _, err := b.engine.Prepare(t.Context(), spec); err == nil || strings.TrimSpace(err.Error()) == "" {
		t.Errorf("error is %v", err)
	}
	if err := b.engine.Remove(t.Context(), spec.Name); err != nil {
		t.Errorf("remove: %v", err)
	}
}
