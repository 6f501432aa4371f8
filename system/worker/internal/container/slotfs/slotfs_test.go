package slotfs_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"glovebox/system/worker/internal/container/slotfs"
	"glovebox/system/worker/internal/container/verdict"
	"glovebox/threat-model/evidence"
)

const gid = 365532

// files is an image of two files.
type files map[string]string

func (f files) Unpack(into *os.Root) error {
	for name, content := range f {
		if err := into.WriteFile(name, []byte(content), 0o555); err != nil {
			return err
		}
	}
	return nil
}

func config(t *testing.T, backing slotfs.Backing) slotfs.Config {
	t.Helper()
	return slotfs.Config{Root: t.TempDir(), Backing: backing, MaxInputBytes: 1 << 20, MaxResultBytes: 1 << 20, ImageBytes: 64 << 10, ImageFiles: 8}
}

func made(t *testing.T, c slotfs.Config) *slotfs.FS {
	t.Helper()
	f, err := slotfs.Make(t.Context(), c, slotfs.NewName(), gid, files{"core": "program"})
	t.Cleanup(func() {
		if err := f.Remove(); err != nil {
			t.Errorf("remove: %v", err)
		}
		left, err := os.ReadDir(c.Root)
		if err != nil || len(left) != 0 {
			t.Errorf("left below the root: %v, %v", left, err)
		}
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil || bytes.Contains(mounts, []byte(c.Root)) {
			t.Errorf("a mount is left (%v)", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func backings(t *testing.T, run func(*testing.T, slotfs.Config)) {
	for _, b := range []slotfs.Backing{slotfs.Tmpfs, slotfs.Loop} {
		t.Run(string(b), func(t *testing.T) { run(t, config(t, b)) })
	}
}

func TestWhatIsMade(t *testing.T) {
	evidence.Proves(t, "SBX-03", "SBX-15", "JOB-10")
	old := unix.Umask(0o077) // the launcher's: modes must not depend on it
	defer unix.Umask(old)
	backings(t, func(t *testing.T, c slotfs.Config) {
		f := made(t, c)
		for path, want := range map[string]struct {
			mode uint32
			gid  uint32
		}{
			filepath.Dir(f.Files.Rootfs):          {unix.S_IFDIR | 0o711, 0},
			f.Files.Rootfs:                        {unix.S_IFDIR | 0o755, 0},
			f.Files.Rootfs + "/core":              {unix.S_IFREG | 0o500, 0}, // as this image's Unpack made it under the umask
			f.Files.Rootfs + "/proc":              {unix.S_IFDIR | 0o755, 0},
			f.Files.Rootfs + "/in/input":          {unix.S_IFREG | 0o444, 0},
			f.Files.Rootfs + "/run/.containerenv": {unix.S_IFREG | 0o444, 0},
			f.Files.Input:                         {unix.S_IFREG | 0o440, gid},
			f.Files.Result:                        {unix.S_IFREG | 0o660, gid},
			f.Files.Empty:                         {unix.S_IFREG | 0o444, 0},
		} {
			var st unix.Stat_t
			if err := unix.Lstat(path, &st); err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if st.Mode != want.mode || st.Uid != 0 || st.Gid != want.gid {
				t.Errorf("%s: mode %o, owner %d:%d; wanted %o, 0:%d", path, st.Mode, st.Uid, st.Gid, want.mode, want.gid)
			}
		}
		other := made(t, config(t, c.Backing))
		var a, b unix.Statfs_t
		if err := errors.Join(unix.Statfs(f.Files.Result, &a), unix.Statfs(other.Files.Result, &b)); err != nil {
			t.Fatal(err)
		}
		if a.Fsid == b.Fsid {
			t.Error("two attempts share a filesystem")
		}
		if err := os.WriteFile(f.Files.Result, make([]byte, 1<<20), 0); err != nil {
			t.Fatal(err)
		}
		if err := unix.Statfs(other.Files.Result, &a); err != nil {
			t.Fatal(err)
		}
		if a.Bfree != b.Bfree {
			t.Error("writing in one attempt changes the free space of another")
		}
	})
}

func TestRoomIsForBothLimitsAndNoMore(t *testing.T) {
	evidence.Proves(t, "SBX-04")
	backings(t, func(t *testing.T, c slotfs.Config) {
		f := made(t, c)
		if _, err := f.Input.Write(make([]byte, c.MaxInputBytes)); err != nil {
			t.Fatalf("the largest input does not fit: %v", err)
		}
		if err := os.WriteFile(f.Files.Result, make([]byte, c.MaxResultBytes), 0); err != nil {
			t.Fatalf("the largest result does not fit beside it: %v", err)
		}
		if size, err := f.InputSize(); err != nil || size != c.MaxInputBytes {
			t.Errorf("input size is %d, %v", size, err)
		}
		// A worker that writes on is stopped by the slot, not by the host's disk.
		n, err := io.Copy(f.Input, io.LimitReader(zeros{}, 1<<30))
		if !errors.Is(err, unix.ENOSPC) || n > 16<<20 {
			t.Errorf("%d bytes more were taken, %v", n, err)
		}
		count := 0
		for count < 10_000 {
			if err := os.WriteFile(filepath.Join(filepath.Dir(f.Files.Input), "x"+strings.Repeat("y", count%100)+string(rune('a'+count/100))), nil, 0o600); err != nil {
				break
			}
			count++
		}
		if count > 100 {
			t.Errorf("%d files more could be made", count)
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestJudgeSeesThroughTheKeptDescriptor(t *testing.T) {
	evidence.Proves(t, "JOB-12", "SBX-03")
	backings(t, func(t *testing.T, c slotfs.Config) {
		for want, act := range map[verdict.Problem]func(path string) error{
			"":               func(p string) error { return os.WriteFile(p, []byte("result"), 0) },
			verdict.TooLarge: func(p string) error { return os.Truncate(p, c.MaxResultBytes+1) },
			verdict.TooManyBlk: func(p string) error {
				return withFile(p, func(fd int) error { return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, c.MaxResultBytes+128<<10) })
			},
			verdict.ModeChanged: func(p string) error { return os.Chmod(p, 0o4777) },
			verdict.OwnerChange: func(p string) error { return os.Chown(p, 0, 0) },
			verdict.Links:       func(p string) error { return os.Link(p, p+"2") },
		} {
			t.Run("problem "+string(want), func(t *testing.T) {
				f := made(t, c)
				if err := act(f.Files.Result); err != nil {
					t.Fatal(err)
				}
				r, err := f.Judge()
				if err != nil || r.Problem != want || r.OK != (want == "") {
					t.Errorf("%+v, %v", r, err)
				}
			})
		}
	})
}

// A link in the result's place leads the launcher nowhere: it asks the
// descriptor, and the file the link names is untouched.
func TestLinkInPlaceOfTheResult(t *testing.T) {
	evidence.Proves(t, "SBX-03")
	c := config(t, slotfs.Tmpfs)
	host := filepath.Join(t.TempDir(), "host")
	if err := os.WriteFile(host, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := made(t, c)
	if err := errors.Join(os.Remove(f.Files.Result), os.Symlink(host, f.Files.Result)); err != nil {
		t.Fatal(err)
	}
	if r, err := f.Judge(); err != nil || r.OK || r.Problem != verdict.Links {
		t.Errorf("%+v, %v", r, err)
	}
	if err := f.Remove(); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(host); err != nil || string(content) != "precious" {
		t.Errorf("the host's file is now %q, %v", content, err)
	}
}

func withFile(path string, do func(fd int) error) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(do(int(f.Fd())), f.Close())
}

// A worker that keeps the descriptors of an attempt keeps nothing of the host's:
// no byte that was there, the image's included, and no room for new ones.
func TestHeldDescriptorsKeepNothing(t *testing.T) {
	evidence.Proves(t, "SBX-12", "SBX-09")
	backings(t, func(t *testing.T, c slotfs.Config) {
		f, err := slotfs.Make(t.Context(), c, slotfs.NewName(), gid, files{"core": strings.Repeat("program", 4096)})
		t.Cleanup(func() { _ = f.Remove() })
		if err != nil {
			t.Fatal(err)
		}
		input, err := unix.Dup(int(f.Input.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(input)
		// The image can be read by every user of the host.
		program, err := os.Open(filepath.Join(f.Files.Rootfs, "core"))
		if err != nil {
			t.Fatal(err)
		}
		defer program.Close()
		var disk *os.File
		if c.Backing == slotfs.Loop {
			if disk, err = os.Open(filepath.Dir(f.Files.Input) + ".disk"); err != nil {
				t.Fatal(err)
			}
			defer disk.Close()
		}
		if _, err := f.Input.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		if err := f.Remove(); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(c.Root); err != nil || len(left) != 0 {
			t.Errorf("left below the root: %v, %v", left, err)
		}
		if n, err := unix.Pwrite(input, make([]byte, 1<<20), 0); err == nil && n > 4096 {
			t.Errorf("%d bytes could be written after the end of the slot", n)
		}
		used(t, input, disk)
	})
}

// A program of the image that a worker's user runs cannot be emptied; its slot is
// not called clean, so that no more than each slot's own room is ever held.
func TestARunningProgramKeepsItsOwnSlotOnly(t *testing.T) {
	evidence.Proves(t, "SBX-12")
	sleep, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	c := config(t, slotfs.Tmpfs)
	c.ImageBytes = int64(len(sleep))
	f, err := slotfs.Make(t.Context(), c, slotfs.NewName(), gid, files{"core": string(sleep)})
	t.Cleanup(func() { _ = f.Remove() })
	if err != nil {
		t.Fatal(err)
	}
	program := exec.Command(filepath.Join(f.Files.Rootfs, "core"), "300")
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	removed := f.Remove()
	if err := errors.Join(program.Process.Kill(), ignoreExit(program.Wait())); err != nil {
		t.Fatal(err)
	}
	if removed == nil {
		t.Error("the slot was called clean while a program of it ran")
	}
	if err := f.Remove(); err != nil {
		t.Errorf("after the program's end: %v", err)
	}
	if left, err := os.ReadDir(c.Root); err != nil || len(left) != 0 {
		t.Errorf("left below the root: %v, %v", left, err)
	}
}

func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// used demands that what the held descriptors keep alive costs a page at most.
func used(t *testing.T, fd int, disk *os.File) {
	t.Helper()
	if disk != nil {
		if info, err := disk.Stat(); err != nil || info.Size() != 0 {
			t.Errorf("the slot's disk still has %d bytes, %v", info.Size(), err)
		}
		return
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		t.Fatal(err)
	}
	if st.Blocks > 1 || st.Blocks-st.Bfree > 1 {
		t.Errorf("the held filesystem has %d blocks, of which %d are in use", st.Blocks, st.Blocks-st.Bfree)
	}
}

func TestLeftoversAreFoundAndRemoved(t *testing.T) {
	evidence.Proves(t, "SBX-12")
	backings(t, func(t *testing.T, c slotfs.Config) {
		name := slotfs.NewName()
		f, err := slotfs.Make(t.Context(), c, name, gid, files{"core": "x"})
		if err != nil {
			t.Fatal(err)
		}
		// The launcher dies here: its descriptors close, nothing else happens.
		f.Input.Close()
		f.Result.Close()
		keep := filepath.Join(c.Root, "not-an-attempt")
		if err := os.Mkdir(keep, 0o700); err != nil {
			t.Fatal(err)
		}
		names, err := slotfs.Leftovers(c.Root)
		if err != nil || len(names) != 1 || names[0] != name {
			t.Fatalf("leftovers are %v, %v", names, err)
		}
		if err := slotfs.RemoveLeftover(c.Root, name); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(c.Root)
		if err != nil || len(entries) != 1 || entries[0].Name() != "not-an-attempt" {
			t.Errorf("left: %v, %v", entries, err)
		}
		if err := slotfs.RemoveLeftover(c.Root, "not-an-attempt"); err == nil {
			t.Error("a foreign folder was taken for an attempt's")
		}
	})
}

func TestAutoBacking(t *testing.T) {
	for sum, want := range map[int64]slotfs.Backing{slotfs.AutoTmpfsBytes: slotfs.Tmpfs, slotfs.AutoTmpfsBytes + 1: slotfs.Loop} {
		c := slotfs.Config{Backing: slotfs.Auto, MaxInputBytes: 10, MaxResultBytes: sum - 10}
		if got := c.Resolve(); got != want {
			t.Errorf("limits of %d bytes lie in %s", sum, got)
		}
	}
}
