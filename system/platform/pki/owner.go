package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// replaceKeepingOwner is replaceFile for a pair in use: the new file has the
// owner, group and mode of the one it replaces, so that a service which runs
// under its own uid can still read what root renewed.
func replaceKeepingOwner(path string, content []byte, mode fs.FileMode) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return replaceFile(path, content, mode)
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("look at %s: this system does not tell a file's owner", path)
	}
	return place(path, content, info.Mode().Perm()&^0o007|mode&0o007, owner, func(temporary string) error { return os.Rename(temporary, path) })
}
