package attacks

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"glovebox/attacks/harness"
	"glovebox/attacks/identity"
)

// slowLua is an input that keeps the core busy for a moment.
func slowLua() []byte {
	var b strings.Builder
	for i := range 6000 {
		fmt.Fprintf(&b, "local function f%d(a, b) return a + b * %d end\n", i%150, i)
		if i%150 == 149 {
			b.WriteString("do end\n")
		}
	}
	return []byte("do " + strings.ReplaceAll(b.String(), "do end\n", "end do ") + "end\n")
}

// mountsBelow counts the mounts below the attacked launcher's slots.
func mountsBelow(e *harness.Env) (n int) {
	content, err := os.ReadFile("/proc/self/mounts")
	e.Must(err, "read the mounts")
	root := statePath(e, fmt.Sprintf("slots-%d/", len(e.Endpoint.PIDs.Launcher)-1))
	for l := range strings.Lines(string(content)) {
		if strings.Contains(l, " "+root) {
			n++
		}
	}
	return n
}

var launcherFiles = []harness.Case{
	{
		ID: "launcher/descriptor-rights", Title: "the two descriptors open more than one input and one result", Lock: "launcher",
		Requirements: []string{"SBX-09", "JOB-10", "JOB-12"}, Threats: []string{"LCH-E1", "LCH-T2"},
		Attack:  "read the input, write, cut, open up and replace the result, through the descriptors and through /proc/self/fd, as the worker's user; walk up from them",
		Control: "the input is written and the result read",
		Oracle:  "the kernel's answer to each call",
		Run: func(e *harness.Env) {
			l, r := acquired(e)
			defer l.close()
			input, result := r.files[0], r.files[1]
			_, err := input.Write(harness.Lua())
			e.Control(err == nil, "the input cannot be written: %v", err)
			_, err = result.Read(make([]byte, 1))
			e.Control(err == nil || errors.Is(err, io.EOF), "the result cannot be read: %v", err)
			worker := user(e, "worker")
			as := func(what string, try func() error) {
				err := identity.As(worker, try)
				e.Check(err != nil, "%s was done", what)
			}
			self := func(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
			as("reading the input", func() error { _, err := unix.Pread(int(input.Fd()), make([]byte, 8), 0); return err })
			as("writing the result", func() error { _, err := unix.Pwrite(int(result.Fd()), []byte("forged"), 0); return err })
			as("cutting the result", func() error { return unix.Ftruncate(int(result.Fd()), 0) })
			as("growing the result", func() error { return unix.Fallocate(int(result.Fd()), 0, 0, 1<<20) })
			as("opening up the result", func() error { return unix.Fchmod(int(result.Fd()), 0o777) })
			as("taking the result", func() error { return unix.Fchown(int(result.Fd()), worker.UID, worker.GID) })
			as("opening the result for writing by its number", func() error { return openAgain(self(result), unix.O_RDWR) })
			as("opening the input for reading by its number", func() error { return openAgain(self(input), unix.O_RDONLY) })
			as("linking the result", func() error {
				return unix.Linkat(int(result.Fd()), "", unix.AT_FDCWD, "/tmp/"+harness.RandomHex(8), unix.AT_EMPTY_PATH)
			})
			as("linking the result by its number", func() error {
				return unix.Linkat(unix.AT_FDCWD, self(result), unix.AT_FDCWD, "/tmp/"+harness.RandomHex(8), unix.AT_SYMLINK_FOLLOW)
			})
			for _, f := range r.files {
				as("walking up", func() error {
					fd, err := unix.Openat(int(f.Fd()), "..", unix.O_RDONLY, 0)
					if err == nil {
						_ = unix.Close(fd)
					}
					return err
				})
				path, err := os.Readlink(self(f))
				e.Must(err, "read where the descriptor leads")
				as("opening it by its path", func() error { return openAgain(path, unix.O_RDONLY) })
				as("listing its folder", func() error { _, err := os.ReadDir(filepath.Dir(path)); return err })
			}
		},
	},
	{
		ID: "launcher/after-release", Title: "a worker keeps its descriptors and reads or changes the next attempt", Lock: "launcher",
		Requirements: []string{"JOB-10", "SBX-12", "SBX-15"}, Threats: []string{"LCH-E1", "NBR-I1", "LCH-T2"},
		Attack:  "descriptors of attempts that were released, in hand while ten others run in the same slots: written to and read from",
		Control: "the later attempts' results are read by their own descriptors",
		Oracle:  "bytes of the later results; what the old descriptors give",
		Run: func(e *harness.Env) {
			var old []reply
			for range 4 {
				l, r := acquired(e)
				_, err := r.files[0].Write(harness.Lua())
				e.Must(err, "write an input")
				_, err = l.ask("run")
				e.Must(err, "run")
				_, err = l.ask("release")
				e.Must(err, "release")
				l.close()
				old = append(old, r)
			}
			results := map[string]bool{}
			for range 10 {
				l, r := acquired(e)
				source := harness.Lua()
				_, err := r.files[0].Write(source)
				e.Must(err, "write an input")
				for _, o := range old {
					_, _ = o.files[0].WriteAt([]byte("os.exit(1) -- by an older attempt"), 0)
				}
				ran, err := l.ask("run")
				e.Must(err, "run")
				content, err := io.ReadAll(r.files[1])
				e.Control(err == nil && ran.code() == "" && len(content) > 0, "a later attempt: %s, %d bytes (%v)", ran.raw, len(content), err)
				e.Check(!results[string(content)] && !strings.Contains(string(content), "older"), "two attempts have one result")
				results[string(content)] = true
				for _, o := range old {
					all := make([]byte, 1<<20)
					n, _ := o.files[1].ReadAt(all, 0)
					e.Check(!slices.Equal(all[:n], content), "an old descriptor reads the new result")
				}
				_, err = l.ask("release")
				e.Must(err, "release")
				l.close()
			}
		},
	},
	{
		ID: "launcher/input-too-large", Title: "an input beyond the limit is given to the core, or fills the host", Lock: "launcher",
		Requirements: []string{"UPL-01", "SBX-04", "SBX-09"}, Threats: []string{"LCH-D1", "BOX-D1"},
		Attack:  "an input one byte too large, one that is written until the kernel refuses, and a hole of a terabyte",
		Control: "an input of the largest size is run",
		Oracle:  "the launcher's answer to run; the kernel's refusal of the write; free space of the host's disk",
		Run: func(e *harness.Env) {
			const limit = 262_144 // limits.max_input_bytes of this world
			run := func(fill func(f *os.File)) string {
				l, r := acquired(e)
				defer l.close()
				fill(r.files[0])
				_ = r.files[0].Close()
				ran, err := l.ask("run")
				e.Must(err, "run")
				return ran.code()
			}
			comment := []byte("--" + strings.Repeat("x", limit-2))
			e.Control(run(func(f *os.File) { _, err := f.Write(comment); e.Must(err, "write an input") }) == "", "an input of the largest size")
			e.Check(run(func(f *os.File) { _, _ = f.Write(append(comment, 'x')) }) == "input_too_large", "one byte more was run")
			written := int64(0)
			free := freeBytes(e)
			code := run(func(f *os.File) {
				block := make([]byte, 1<<20)
				for range 4096 {
					n, err := f.Write(block)
					written += int64(n)
					if err != nil {
						break
					}
				}
				e.Check(free-freeBytes(e) < 512<<20, "the host's disk lost %d bytes", free-freeBytes(e))
			})
			e.Check(code == "input_too_large" && written < 512<<20, "%d bytes were written, then run: %q", written, code)
			code = run(func(f *os.File) { _ = f.Truncate(1 << 40) })
			e.Check(code == "input_too_large" || code == "", "a hole of a terabyte: %q", code)
		},
	},
}

// openAgain opens a path and closes it.
func openAgain(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// freeBytes is what the disk below the state folder has left.
func freeBytes(e *harness.Env) int64 {
	var st syscall.Statfs_t
	e.Must(syscall.Statfs(filepath.Dir(e.Endpoint.BinDir), &st), "look at the free space")
	return int64(st.Bavail) * st.Bsize
}
