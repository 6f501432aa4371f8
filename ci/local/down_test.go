package local

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// PostgreSQL's log lies in a folder of its own user, who may put anything there.
func TestLogsAreCopiedFromFilesAlone(t *testing.T) {
	dir := t.TempDir()
	secret, to := filepath.Join(dir, "secret"), filepath.Join(dir, "kept")
	if err := os.WriteFile(secret, []byte("root's"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(path string) error{
		"a link":  func(path string) error { return os.Symlink(secret, path) },
		"a pipe":  func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"nothing": func(string) error { return nil },
	} {
		from := filepath.Join(dir, name)
		if err := make(from); err != nil {
			t.Fatal(err)
		}
		if err := copyLog(from, to); name == "nothing" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if content, err := os.ReadFile(to); err == nil {
			t.Errorf("%s: %q was copied", name, content)
		}
	}
	if err := copyLog(secret, to); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(to); err != nil || string(content) != "root's" {
		t.Errorf("a file: %q was copied, %v", content, err)
	}
}
