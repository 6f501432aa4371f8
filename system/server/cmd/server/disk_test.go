package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// smallDisk mounts a file system of that size, gone with the test. It needs root,
// as the whole-system tests do.
func (in *installation) smallDisk(bytes int) string {
	in.t.Helper()
	dir := filepath.Join(in.t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		in.t.Fatal(err)
	}
	if err := syscall.Mount("glovebox-test", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, fmt.Sprintf("size=%d,mode=0700", bytes)); err != nil {
		in.t.Fatalf("mount a small file system: %v", err)
	}
	in.t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			in.t.Errorf("unmount the small file system: %v", err)
		}
	})
	return dir
}
