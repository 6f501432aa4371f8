package slotfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A worker holds descriptors of the slot's filesystem and may keep them, or let a
// child of it keep them. The slot must be free for the next attempt all the same,
// so a filesystem in use is taken off its place and lives on without a name. What
// it may still hold then is nothing: it is emptied, and closed to every byte that
// would be written to it. A worker that keeps a descriptor of each attempt would
// else collect the memory or the disk of them all.

// retire takes every mount off dir. disk is the file behind a Loop mount.
func retire(dir, disk string) error {
	for {
		empty(dir)
		if err := retireResult(dir); err != nil {
			return err
		}
		err := unix.Unmount(dir, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EBUSY) {
			if err := seal(dir, disk); err != nil {
				return fmt.Errorf("close slot filesystem: %w", err)
			}
			err = unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
		switch {
		case err == nil: // there may be another layer below
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT): // not a mount point, or gone
			return nil
		default:
			return fmt.Errorf("unmount slot filesystem: %w", err)
		}
	}
}

// empty cuts every file below dir to nothing. What cannot be cut is found by seal.
func empty(dir string) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if f, err := root.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0); err == nil {
				_ = f.Close()
			}
		}
		return nil // the others are cut all the same
	})
}

// sealedBytes is the least size of a tmpfs; 0 would lift the bound.
const sealedBytes = 4096

// seal closes the filesystem that is mounted on dir to new bytes.
func seal(dir, disk string) error {
	if err := isMount(dir); err != nil {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return err
	}
	if st.Type == unix.TMPFS_MAGIC {
		// The kernel refuses a size below what is in use, and the slot stays out of
		// use until whoever runs a program of the image has ended.
		return unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|mountFlags, fmt.Sprintf("size=%d", sealedBytes))
	}
	if err := shutdown(dir); err != nil {
		return err
	}
	if err := os.Truncate(disk, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// isMount refuses a folder that belongs to the filesystem of its parent: nothing
// of the host's own must ever be shut down.
func isMount(dir string) error {
	var own, parent unix.Stat_t
	if err := errors.Join(unix.Lstat(dir, &own), unix.Lstat(filepath.Dir(dir), &parent)); err != nil {
		return err
	}
	if own.Dev == parent.Dev {
		return errors.New("nothing is mounted there")
	}
	return nil
}

// ext4Shutdown is EXT4_IOC_SHUTDOWN, and notFlushed its flag for "drop what is not
// written": every later read and write of the filesystem fails.
const (
	ext4Shutdown = 0x8004587d
	notFlushed   = 2
)

func shutdown(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.IoctlSetPointerInt(int(f.Fd()), ext4Shutdown, notFlushed)
}
