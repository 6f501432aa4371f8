package slotfs

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"glovebox/threat-model/evidence"
)

// script is an image of one file that can be run.
type script struct{}

func (script) Unpack(into *os.Root) error {
	return into.WriteFile("core", []byte("#!/bin/sh\n"), 0o755)
}

func TestNothingIsRunFromTheResult(t *testing.T) {
	evidence.Proves(t, "SBX-03", "SBX-12")
	for _, backing := range []Backing{Tmpfs, Loop} {
		t.Run(string(backing), func(t *testing.T) {
			c := Config{Root: t.TempDir(), Backing: backing, MaxInputBytes: 4096, MaxResultBytes: 4096, ImageBytes: 4096, ImageFiles: 1}
			f, err := Make(t.Context(), c, NewName(), 1000, script{})
			if err != nil {
				t.Fatal(err)
			}
			worker, err := os.Open(f.Files.Result) // which a worker keeps
			if err != nil {
				t.Fatal(err)
			}
			defer worker.Close()
			if err := f.kept.Chmod(0o755); err != nil {
				t.Fatal(err)
			}
			if err := unix.Access(f.Files.Result, unix.X_OK); err != nil {
				t.Fatalf("control: it cannot be run before either: %v", err)
			}
			if err := forbidExec(f.Files.Result); err != nil {
				t.Fatal(err)
			}
			if err := unix.Access(f.Files.Result, unix.X_OK); err != unix.EACCES {
				t.Errorf("to run the result: wanted %v, got %v", unix.EACCES, err)
			}
			if err := exec.Command(f.Files.Rootfs + "/core").Run(); err != nil {
				t.Errorf("the core cannot be run: %v", err)
			}
			file, err := os.OpenFile(f.Files.Result, os.O_WRONLY, 0)
			if err != nil {
				t.Fatalf("the result cannot be written: %v", err)
			}
			defer file.Close() // a stranger keeps the new mount too
			if err := f.Remove(); err != nil {
				t.Errorf("remove: %v", err)
			}
			mounts, err := os.ReadFile("/proc/self/mountinfo")
			if err != nil || bytes.Contains(mounts, []byte(c.Root)) {
				t.Errorf("a mount is left (%v)", err)
			}
		})
	}
}
