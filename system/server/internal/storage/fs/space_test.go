package fs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"glovebox/system/server/internal/jobs/domain"
	"glovebox/system/server/internal/storage/fs"
	"glovebox/threat-model/evidence"
)

// The scenarios of this file need a file system of their own. Each runs in a
// child of the test process, in a mount namespace (and a user namespace where the
// test is not root) that vanishes with it.
const scenarioEnv = "GLOVEBOX_TEST_STORAGE_SCENARIO"

var scenarios = map[string]func(dir string) error{
	"full": fullDisk, "floor-before": floorBefore, "floor-while": floorWhile, "read-only": readOnly,
}

func TestMain(m *testing.M) {
	if name := os.Getenv(scenarioEnv); name != "" {
		if err := runScenario(name); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func runScenario(name string) error {
	dir := os.Getenv(scenarioEnv + "_DIR")
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m,mode=0700"); err != nil {
		return fmt.Errorf("mount a small file system: %w", err)
	}
	return scenarios[name](dir)
}

func inOwnFileSystem(t *testing.T, name string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), scenarioEnv+"="+name, scenarioEnv+"_DIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestFullDiskIsARefusalAndLeavesNothing(t *testing.T) {
	evidence.Proves(t, "UPL-04", "UPL-08")
	inOwnFileSystem(t, "full")
}

func TestTheFreeSpaceFloorHoldsBeforeWriting(t *testing.T) {
	evidence.Proves(t, "UPL-04")
	inOwnFileSystem(t, "floor-before")
}

func TestTheFreeSpaceFloorHoldsWhileWriting(t *testing.T) {
	evidence.Proves(t, "UPL-04")
	inOwnFileSystem(t, "floor-while")
}

func TestReadOnlyStorageIsARefusal(t *testing.T) {
	evidence.Proves(t, "UPL-04")
	inOwnFileSystem(t, "read-only")
}

func fullDisk(dir string) error {
	ctx := context.Background()
	s, err := fs.New(dir, fs.Options{})
	if err != nil {
		return err
	}
	for _, n := range []int{40 << 20, 25 << 20} {
		_, err = s.Stage(ctx, io.LimitReader(zeros{}, int64(n)), 1<<30)
		if err := refusedForRoom(err); err != nil {
			return err
		}
		if err := nothingLeft(dir); err != nil {
			return err
		}
	}
	// A small body on a disk that another process fills in the meantime.
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 23<<20+512<<10), 0o600); err != nil {
		return err
	}
	_, err = s.Stage(ctx, bytes.NewReader(make([]byte, 1<<20)), 1<<30)
	if err := refusedForRoom(err); err != nil {
		return err
	}
	if err := nothingLeft(dir); err != nil {
		return err
	}
	// The service goes on when space returns.
	if err := os.Remove(filler); err != nil {
		return err
	}
	st, err := s.Stage(ctx, io.LimitReader(zeros{}, 10<<20), 1<<30)
	if err != nil {
		return fmt.Errorf("after space returned: %w", err)
	}
	return st.Commit(ctx, key)
}

func floorBefore(dir string) error {
	s, err := fs.New(dir, fs.Options{MinFree: 1 << 40})
	if err != nil {
		return err
	}
	read := 0
	_, err = s.Stage(context.Background(), countReads{&read}, 1<<30)
	if err := refusedForRoom(err); err != nil {
		return err
	}
	if read != 0 {
		return errors.New("the body was read although there was no room")
	}
	if err := refusedForRoom(s.Check(context.Background())); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	return nothingLeft(dir)
}

func floorWhile(dir string) error {
	const floor = 8 << 20
	s, err := fs.New(dir, fs.Options{MinFree: floor})
	if err != nil {
		return err
	}
	var lowest uint64 = 1 << 62
	body := funcReader(func(p []byte) (int, error) {
		var st syscall.Statfs_t
		if err := syscall.Statfs(dir, &st); err != nil {
			return 0, err
		}
		lowest = min(lowest, st.Bavail*uint64(st.Bsize))
		return len(p), nil
	})
	_, err = s.Stage(context.Background(), body, 1<<30)
	if err := refusedForRoom(err); err != nil {
		return err
	}
	if lowest == 0 {
		return errors.New("the disk was filled to the last byte in spite of the floor")
	}
	return nothingLeft(dir)
}

func readOnly(dir string) error {
	s, err := fs.New(dir, fs.Options{})
	if err != nil {
		return err
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("remount read-only: %w", err)
	}
	_, err = s.Stage(context.Background(), strings.NewReader("x"), 1)
	if err := refusedForRoom(err); err != nil {
		return err
	}
	return refusedForRoom(s.Check(context.Background()))
}

func refusedForRoom(err error) error {
	if domain.CodeOf(err) != domain.CodeInsufficientStorage {
		return fmt.Errorf("error is %v, want code %s", err, domain.CodeInsufficientStorage)
	}
	var refusal *domain.Error
	if !errors.As(err, &refusal) || strings.Contains(refusal.Message, "/") {
		return fmt.Errorf("message for the caller shows a path: %v", err)
	}
	return nil
}

func nothingLeft(dir string) error {
	for _, pattern := range []string{"tmp/*", "objects/*/*"} {
		if left, _ := filepath.Glob(filepath.Join(dir, pattern)); len(left) > 0 {
			return fmt.Errorf("left behind: %v", left)
		}
	}
	return nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type countReads struct{ n *int }

func (c countReads) Read(p []byte) (int, error) { *c.n++; return len(p), nil }

type funcReader func([]byte) (int, error)

func (f funcReader) Read(p []byte) (int, error) { return f(p) }
