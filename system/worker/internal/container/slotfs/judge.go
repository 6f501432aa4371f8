package slotfs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"glovebox/system/worker/internal/container/verdict"
)

// Judge looks at the result through the descriptor kept from before the start.
// Every process of the attempt must be dead.
func (f *FS) Judge() (verdict.Result, error) {
	fd := int(f.kept.Fd())
	// On a disk, written is not stored: an error of the write-back shows here.
	if err := unix.Fsync(fd); err != nil {
		if errors.Is(err, unix.EIO) || errors.Is(err, unix.ENOSPC) {
			return verdict.Result{Problem: verdict.NotDurable}, nil
		}
		return verdict.Result{}, fmt.Errorf("store the result: %w", err)
	}
	var after unix.Stat_t
	if err := unix.Fstat(fd, &after); err != nil {
		return verdict.Result{}, fmt.Errorf("look at the result: %w", err)
	}
	return verdict.JudgeResult(f.before, after, f.maxResult), nil
}
