package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestMain lets one run of these tests work at a time: they have fixed ports, and
// a run clears away what an earlier one of the same name left.
func TestMain(m *testing.M) {
	unlock, err := lock(filepath.Join(root, "out", "e2e.lock"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	code := m.Run()
	unlock()
	os.Exit(code)
}

// lock waits until no other run holds the file at path.
func lock(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		fmt.Fprintln(os.Stderr, "e2e: another run is at work in this tree, waiting for its end")
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			return nil, err
		}
	}
	return func() { _ = f.Close() }, nil
}
