package slotfs

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// resultName is the one file that the core may write.
const resultName = "result"

// forbidExec makes the result a mount of its own from which nothing is run. The spec
// asks the runtime for the same, but crun 1.8.1 leaves it out of a bind mount that is
// not read-only in a rootless container. What the source's mount lacks, no mount of it
// in a user namespace below can get back.
func forbidExec(result string) error {
	if err := unix.Mount(result, result, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount the result: %w", err)
	}
	if err := unix.Mount("", result, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_NOEXEC|mountFlags, ""); err != nil {
		return fmt.Errorf("forbid to run the result: %w", err)
	}
	return nil
}

// retireResult takes the mount of forbidExec away, where there is one.
func retireResult(dir string) error {
	for {
		// The files that are open belong to the filesystem below: no mount of the
		// host's uses this one, and the runtime's are copies.
		err := unix.Unmount(filepath.Join(dir, resultName), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		switch {
		case err == nil: // there may be another layer below
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT): // not a mount point, or gone
			return nil
		default:
			return fmt.Errorf("unmount the result: %w", err)
		}
	}
}
