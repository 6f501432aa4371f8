package fs_test

import (
	"os"
	"path/filepath"
	"testing"

	"glovebox/system/server/internal/storage/blobtest"
	"glovebox/system/server/internal/storage/fs"
	"glovebox/threat-model/evidence"
)

// open returns a store in a fresh folder, and the folder.
func open(t *testing.T, opts fs.Options) (*fs.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "storage")
	s, err := fs.New(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, dir
}

func temporaryFiles(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "tmp"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, filepath.Join(dir, "tmp", e.Name()))
	}
	return names
}

func TestConformance(t *testing.T) {
	evidence.Proves(t, "UPL-01", "UPL-08")
	blobtest.Exercise(t, func(t *testing.T) blobtest.Subject {
		s, dir := open(t, fs.Options{})
		return blobtest.Subject{Store: s, Leftovers: func(t *testing.T) int { return len(temporaryFiles(t, dir)) }}
	})
}
