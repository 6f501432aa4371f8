package vm

import (
	"archive/tar"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pack writes a tar with one file.
func pack(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := tar.NewWriter(f)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: 4, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("text")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhatAMachineBringsBackStaysInItsFolder(t *testing.T) {
	for name, want := range map[string]string{"./log": "log", "../../escaped": "escaped", "/etc/planted": "planted"} {
		folder := t.TempDir()
		if err := unpack(pack(t, name), folder); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		entries, err := os.ReadDir(folder)
		if err != nil || len(entries) != 1 || entries[0].Name() != want {
			t.Errorf("%s: the folder holds %v, %v", name, entries, err)
		}
	}
}

func TestAMachineThatBroughtNothingBackDidNotEnd(t *testing.T) {
	blank := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(blank, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unpack(blank, t.TempDir()); err == nil || !strings.Contains(err.Error(), "did not come to its end") {
		t.Errorf("error is %v", err)
	}
}

func TestTheRecipeHasAName(t *testing.T) {
	first, err := digest()
	if err != nil || len(first) != 16 {
		t.Fatalf("%q, %v", first, err)
	}
	if again, err := digest(); err != nil || again != first {
		t.Errorf("%q, then %q, %v", first, again, err)
	}
}
