package oracle_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"glovebox/attacks/oracle"
)

func inventory(t *testing.T, root string) oracle.Inventory {
	t.Helper()
	all, err := oracle.Disk(root, true)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Every kind of change is one line, and no change is none.
func TestTheDiskIsSeenWithEveryChange(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	path := func(name string) string { return filepath.Join(root, name) }
	must := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	must(os.Mkdir(path("sub"), 0o700), os.WriteFile(path("sub/same"), []byte("one"), 0o600), os.WriteFile(path("sub/gone"), []byte("two"), 0o600))
	before := inventory(t, root)
	sum := sha256.Sum256([]byte("one"))
	if e := before["sub/same"]; e.SHA256 != hex.EncodeToString(sum[:]) || e.Size != 3 || e.Links != 1 || e.UID != uint32(os.Getuid()) {
		t.Errorf("a file is seen as %s", e)
	}
	if diff := before.Diff(inventory(t, root)); len(diff) != 0 {
		t.Errorf("no change is seen as %v", diff)
	}
	changes := []struct {
		name, mark string
		do         func() error
	}{
		{"content of the same size", "~ sub/same", func() error { return os.WriteFile(path("sub/same"), []byte("eno"), 0o600) }},
		{"mode", "~ sub/same", func() error { return os.Chmod(path("sub/same"), 0o644) }},
		{"second link", "~ sub/same", func() error { return os.Link(path("sub/same"), path("sub/second")) }},
		{"file gone", "- sub/gone", func() error { return os.Remove(path("sub/gone")) }},
		{"symbolic link", "+ sub/link", func() error { return os.Symlink("/etc/passwd", path("sub/link")) }},
		{"pipe", "+ sub/pipe", func() error { return syscall.Mkfifo(path("sub/pipe"), 0o600) }},
		{"folder", "+ new", func() error { return os.Mkdir(path("new"), 0o700) }},
		{"mode of a folder", "~ sub", func() error { return os.Chmod(path("sub"), 0o711) }},
	}
	for _, c := range changes {
		before := inventory(t, root)
		must(c.do())
		if diff := before.Diff(inventory(t, root)); !slices.ContainsFunc(diff, func(line string) bool { return strings.HasPrefix(line, c.mark+" ") }) {
			t.Errorf("%s is seen as %v", c.name, diff)
		}
	}
	last := inventory(t, root)
	if e := last["sub/link"]; e.Target != "/etc/passwd" || e.SHA256 != "" {
		t.Errorf("a link is seen as %s", e)
	}
	if files := last.Below("sub/"); !slices.Equal(files, []string{"sub/same", "sub/second"}) || last.Bytes() != 6 {
		t.Errorf("files are %v with %d bytes", files, last.Bytes())
	}
}
