package pki

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Modes of what a Store writes.
const (
	modeFolder fs.FileMode = 0o700
	modeKey    fs.FileMode = 0o600
	modeCert   fs.FileMode = 0o644
)

// maxFile bounds what is read of one file.
const maxFile = 1 << 20

// readFile reads a file that may lie in a service's own folder: a pipe there, or
// one without an end, must not hold up whoever renews for everybody.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("read %s: it is not a regular file", path)
	}
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("read %s: it is larger than %d bytes", path, maxFile)
	}
	return content, err
}

// createFile puts content at path all at once, and refuses when path exists. The
// link, unlike a rename, fails on an existing name, so two makers never
// overwrite each other.
func createFile(path string, content []byte, mode fs.FileMode) error {
	return place(path, content, mode, nil, func(temporary string) error {
		err := os.Link(temporary, path)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("write %s: %w", path, ErrExists)
		}
		return err
	})
}

// replaceFile puts content at path all at once, whatever was there.
func replaceFile(path string, content []byte, mode fs.FileMode) error {
	return place(path, content, mode, nil, func(temporary string) error { return os.Rename(temporary, path) })
}

// place writes and syncs a temporary file beside path and lets settle give it
// its name. The temporary file is 0600 from its first byte on. It is given to
// owner, where there is one, by its descriptor: by its name, whoever owns the
// folder could have put another file in its place.
func place(path string, content []byte, mode fs.FileMode, owner *syscall.Stat_t, settle func(temporary string) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".pki-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(f.Name()) // gone already after a rename
	_, err = f.Write(content)
	if err == nil && owner != nil {
		err = f.Chown(int(owner.Uid), int(owner.Gid))
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := settle(f.Name()); err != nil {
		return err
	}
	return syncFolder(dir)
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open folder %s: %w", dir, err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync folder %s: %w", dir, err)
	}
	return nil
}
