package enginetest

import (
	"bytes"
	"context"
	"os"
	"testing"

	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/cgroup"
	"glovebox/system/worker/internal/container/image"
	"glovebox/system/worker/internal/container/seccomp"
	"glovebox/system/worker/internal/container/slot"
	"glovebox/system/worker/internal/container/slotfs"
)

// Maker returns a maker of attempts with limits small enough to be reached in a
// test. At its end the test fails if anything of an attempt is left.
func Maker(t testing.TB, engine Engine, img *image.Image, adjust func(*container.Limits)) *slot.Maker {
	t.Helper()
	root := SlotsRoot(t)
	m := maker(t, engine, img, root, Label, adjust)
	t.Cleanup(func() { NothingLeft(t, engine, m.Tree, root) })
	return m
}

// MakerAt returns a maker for a process that is to die: what it leaves is the
// business of whoever killed it.
func MakerAt(t testing.TB, engine Engine, ref, root, label string) *slot.Maker {
	t.Helper()
	parsed, err := image.ParseRef(ref)
	if err != nil {
		t.Fatal(err)
	}
	img, err := image.Open(parsed)
	if err != nil {
		t.Fatal(err)
	}
	return maker(t, engine, img, root, label, nil)
}

func maker(t testing.TB, engine Engine, img *image.Image, root, label string, adjust func(*container.Limits)) *slot.Maker {
	t.Helper()
	tree, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	limits := container.Defaults()
	limits.MemoryBytes = 64 << 20
	limits.MaxInputBytes, limits.MaxResultBytes = 1<<20, 1<<20
	if adjust != nil {
		adjust(&limits)
	}
	return &slot.Maker{
		Engine: engine, Tree: tree, Image: img, Label: label, UIDBase: UIDBase, Limits: limits,
		Profile: Profile(t, seccomp.Core),
		FS: slotfs.Config{
			Root: root, Backing: slotfs.Auto, MaxInputBytes: limits.MaxInputBytes, MaxResultBytes: limits.MaxResultBytes,
			ImageBytes: img.Bytes, ImageFiles: img.Files,
		},
	}
}

// NothingLeft fails the test if a container, cgroup, mount, disk or folder of an
// attempt is left. It asks the engine and the kernel, not the launcher.
func NothingLeft(t testing.TB, engine container.Inventory, tree *cgroup.Tree, root string) {
	t.Helper()
	if engine != nil {
		names, err := engine.Labelled(context.Background(), Label)
		if err == nil && len(names) > 0 {
			t.Errorf("containers are left: %v", names)
		}
	}
	if names, err := tree.Leftovers(Label); err != nil || len(names) > 0 {
		t.Errorf("cgroups are left: %v, %v", names, err)
	}
	if err := tree.RemoveBase(Label); err != nil {
		t.Errorf("the base cgroup is left: %v", err)
	}
	for _, table := range []string{"/proc/self/mountinfo", "/sys/block"} {
		if found, err := mentions(table, root); err != nil || found {
			t.Errorf("%s still mentions %s (%v)", table, root, err)
		}
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) > 0 {
		t.Errorf("folders are left: %v, %v", entries, err)
	}
}

// mentions looks for text in a file, or in the backing files of loop devices.
func mentions(table, text string) (bool, error) {
	if table != "/sys/block" {
		content, err := os.ReadFile(table)
		return bytes.Contains(content, []byte(text)), err
	}
	devices, err := os.ReadDir(table)
	if err != nil {
		return false, err
	}
	for _, d := range devices {
		content, err := os.ReadFile(table + "/" + d.Name() + "/loop/backing_file")
		if err == nil && bytes.Contains(content, []byte(text)) {
			return true, nil
		}
	}
	return false, nil
}
