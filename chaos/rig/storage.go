package rig

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// filler is the file that takes the storage's space; the server did not put it
// there and must leave it alone.
const filler = "filler"

// FillStorage takes the storage's free space but for room bytes. Others write
// meanwhile, so it is tried again where what was free a moment ago is not any more.
func (r *Rig) FillStorage(room int64) error {
	for {
		err := r.fillStorage(room)
		if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
	}
}

func (r *Rig) fillStorage(room int64) error {
	f, err := os.Create(filepath.Join(r.StorageRoot, filler))
	if err != nil {
		return fmt.Errorf("fill the storage: %w", err)
	}
	var stat syscall.Statfs_t
	if err := syscall.Statfs(r.StorageRoot, &stat); err != nil {
		return errors.Join(fmt.Errorf("ask for the storage's free space: %w", err), f.Close())
	}
	if take := int64(stat.Bavail)*stat.Bsize - room; take > 0 {
		err = syscall.Fallocate(int(f.Fd()), 0, 0, take)
	}
	return errors.Join(err, f.Close())
}

// EmptyStorage gives the space back.
func (r *Rig) EmptyStorage() error {
	err := os.Remove(filepath.Join(r.StorageRoot, filler))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// RemountStorage makes the storage read-only or writable again. A file system on
// which a file is open for writing does not become read-only; it is tried until
// ctx ends.
func (r *Rig) RemountStorage(ctx context.Context, readOnly bool) error {
	flags := uintptr(syscall.MS_REMOUNT | syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC)
	if readOnly {
		flags |= syscall.MS_RDONLY
	}
	for {
		err := syscall.Mount("", r.StorageRoot, "", flags, fmt.Sprintf("size=%d", r.Options.Storage))
		if err == nil || !errors.Is(err, syscall.EBUSY) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("remount the storage: %w", err)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// PlantOrphan puts a file into the storage that no row names, old enough to be
// swept, as a server leaves one that died between rename and commit.
func (r *Rig) PlantOrphan(label string) error {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	key := "input/planted-" + strings.ReplaceAll(label, "/", "-") + "-" + hex.EncodeToString(random)
	sum := sha256.Sum256([]byte(key))
	dir := filepath.Join(r.StorageRoot, "objects", hex.EncodeToString(sum[:1]))
	path := filepath.Join(dir, strings.ReplaceAll(key, "/", "~"))
	if err := os.WriteFile(path, []byte("an orphan"), 0o600); err != nil {
		return fmt.Errorf("plant an orphan: %w", err)
	}
	old := time.Now().Add(-time.Hour)
	return errors.Join(os.Chown(path, r.UIDs["server"], r.UIDs["server"]), os.Chtimes(path, old, old))
}

// Objects lists the stored files by their keys, whose parts are separated by ~ in
// a file's name.
func (r *Rig) Objects() (map[string]string, error) {
	found := make(map[string]string)
	err := filepath.WalkDir(filepath.Join(r.StorageRoot, "objects"), func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // swept while we looked
		}
		if err == nil && e.Type().IsRegular() {
			found[strings.ReplaceAll(e.Name(), "~", "/")] = path
		}
		return err
	})
	return found, err
}

// SumFile returns the SHA-256 of a file in hex, "" where there is none.
func SumFile(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
