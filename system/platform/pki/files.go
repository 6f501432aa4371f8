package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Modes of what a Store writes.
const (
	modeFolder fs.FileMode = 0o700
	modeKey    fs.FileMode = 0o600
	modeCert   fs.FileMode = 0o644
)

// create puts content at path all at once, and refuses when path exists. The
// link, unlike a rename, fails on an existing name, so two makers never
// overwrite each other.
func createFile(path string, content []byte, mode fs.FileMode) error {
	return place(path, content, mode, func(temporary string) error {
		err := os.Link(temporary, path)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("write %s: %w", path, ErrExists)
		}
		return err
	})
}

// replaceFile puts content at path all at once, whatever was there.
func replaceFile(path string, content []byte, mode fs.FileMode) error {
	return place(path, content, mode, func(temporary string) error { return os.Rename(temporary, path) })
}

// place writes and syncs a temporary file beside path and lets settle give it
// its name. The temporary file is 0600 from its first byte on.
func place(path string, content []byte, mode fs.FileMode, settle func(temporary string) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".pki-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(f.Name()) // gone already after a rename
	_, err = f.Write(content)
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
