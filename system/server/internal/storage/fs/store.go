// Package fs keeps bytes in one folder of a local or shared file system.
//
// Layout below the root, all of it made by this package (files 0600; folders as
// open to owner and group as the root itself is):
//
//	tmp/HEX            a body on its way in; locked (flock) by the process that writes it
//	objects/XX/NAME    committed bytes; XX is the first byte of SHA-256 of the key
//
// NAME is the key with each slash written as a tilde, so that every object is one
// path component below one of 256 folders which exist from the start: nothing
// has to be created or removed on the way, and no component is ever chosen by a
// person. All access goes through os.Root, and on top of it no symbolic link is
// followed even inside the root: a component must be a folder, an object must be
// a regular file with one link, and what was opened must be what was looked at
// (UPL-05, UPL-06).
//
// A root of mode 2770 whose group holds the server's and the sweeper's users gives
// the sweeper the right to list and delete, and not to read: files stay 0600.
//
// Bytes become visible by one rename that refuses to replace anything, after the
// file was synced; then both folders are synced (STO-02).
package fs

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"syscall"
	"time"
)

const (
	tmpFolder     = "tmp"
	objectsFolder = "objects"
	rootMode      = 0o700 // of a root that is made here
	fileMode      = 0o600
)

// Options are the settings of a Store.
type Options struct {
	// MinFree is the number of bytes that must stay free in the file system: with
	// less, nothing is taken in (UPL-04). Zero switches the check off.
	MinFree int64
	// Existing opens a layout that a server made, and makes nothing: for processes
	// of another user, whose folders the server could not use.
	Existing bool
	// OwnedLikeRoot gives what is made here to the owner of the root folder: for an
	// administrator's commands, whose files the server must be able to read.
	OwnedLikeRoot bool
}

// Store keeps bytes below one folder. It is safe for concurrent use, and several
// processes may share the folder.
type Store struct {
	root    *os.Root
	tmp     *os.Root
	objects *os.Root
	opts    Options
	owner   int           // of the root folder, as uid
	wide    chan struct{} // permits for pipelined intake, see intake.go
}

// New opens the store at path and makes what is missing of its layout. The
// folder itself is made when its parent exists; one that other users can enter
// is refused.
func New(path string, opts Options) (*Store, error) {
	if !opts.Existing {
		if err := os.Mkdir(path, rootMode); err != nil && !errors.Is(err, iofs.ErrExist) {
			return nil, fmt.Errorf("make storage root: %w; create its parent folder", err)
		}
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("open storage root: %w", err)
	}
	s := &Store{root: root, opts: opts, wide: make(chan struct{}, maxWide)}
	if err := s.prepare(); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) prepare() error {
	info, err := s.root.Stat(".")
	if err != nil {
		return fmt.Errorf("look at storage root: %w", err)
	}
	if info.Mode().Perm()&0o007 != 0 {
		return fmt.Errorf("storage root is open to every user (mode %04o); run chmod o-rwx on it", info.Mode().Perm())
	}
	s.owner = ownerOf(info)
	ensure := func(parent *os.Root, name string) (*os.Root, error) {
		if s.opts.Existing {
			return openFolder(parent, name)
		}
		return s.ensureFolder(parent, name, info.Mode().Perm()&0o770)
	}
	if s.tmp, err = ensure(s.root, tmpFolder); err != nil {
		return err
	}
	if s.objects, err = ensure(s.root, objectsFolder); err != nil {
		return err
	}
	for i := range 256 {
		shard, err := ensure(s.objects, shardName(byte(i)))
		if err != nil {
			return err
		}
		_ = shard.Close()
	}
	if s.opts.Existing {
		return nil
	}
	// The layout must survive a power cut as the objects in it do.
	for _, folder := range []*os.Root{s.objects, s.root} {
		if err := syncFolder(folder); err != nil {
			return fmt.Errorf("sync storage layout: %w", err)
		}
	}
	return nil
}

// Close lets the folders go. Files already opened stay readable.
func (s *Store) Close() error {
	var errs []error
	for _, r := range []*os.Root{s.tmp, s.objects, s.root} {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	return errors.Join(errs...)
}

// Check writes, syncs and removes a small file, and looks at the free space: it
// is what /ready and `check` ask.
func (s *Store) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.roomFor(0); err != nil {
		return err
	}
	f, name, err := s.createTemp()
	if err != nil {
		return err
	}
	defer f.Close()
	defer func() { _ = s.tmp.Remove(name) }()
	if _, err := f.Write([]byte("glovebox")); err != nil {
		return storageError("write a test file", err)
	}
	if err := f.Sync(); err != nil {
		return storageError("sync a test file", err)
	}
	return nil
}

// Free returns the bytes that this process may still write, down to the floor.
func (s *Store) Free() (int64, error) {
	free, err := s.available()
	if err != nil {
		return 0, err
	}
	return max(free-s.opts.MinFree, 0), nil
}

// ensureFolder opens the folder name of parent, which it makes with mode when
// missing, whatever the process's umask.
func (s *Store) ensureFolder(parent *os.Root, name string, mode iofs.FileMode) (*os.Root, error) {
	err := parent.Mkdir(name, rootMode)
	if errors.Is(err, iofs.ErrExist) {
		return openFolder(parent, name)
	}
	if err != nil {
		return nil, storageError("make storage folder "+name, err)
	}
	made, err := parent.Stat(name)
	if err != nil {
		return nil, storageError("look at storage folder "+name, err)
	}
	if s.opts.OwnedLikeRoot {
		if err := parent.Lchown(name, s.owner, -1); err != nil {
			return nil, storageError("give storage folder "+name+" to the root's owner", err)
		}
	}
	if err := parent.Chmod(name, mode|made.Mode()&iofs.ModeSetgid); err != nil {
		return nil, storageError("open storage folder "+name+" to its group", err)
	}
	return openFolder(parent, name)
}

// openFolder opens the folder name of parent without following a link at name:
// os.Root alone would follow one that stays inside the root.
func openFolder(parent *os.Root, name string) (*os.Root, error) {
	seen, err := parent.Lstat(name)
	if err != nil {
		return nil, fmt.Errorf("look at storage folder %s: %w", name, err)
	}
	if !seen.IsDir() {
		return nil, fmt.Errorf("storage folder %s is not a folder (%s); something else wrote into the storage root", name, seen.Mode().Type())
	}
	folder, err := parent.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("open storage folder %s: %w", name, err)
	}
	opened, err := folder.Stat(".")
	if err == nil && !os.SameFile(seen, opened) {
		err = errors.New("it changed while it was opened")
	}
	if err != nil {
		_ = folder.Close()
		return nil, fmt.Errorf("open storage folder %s: %w", name, err)
	}
	return folder, nil
}

func syncFolder(folder *os.Root) error {
	f, err := folder.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// plainFile refuses anything but a regular file with exactly one link.
func plainFile(info iofs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("it is not a regular file (%s)", info.Mode().Type())
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Nlink != 1 {
		return errors.New("it has more than one link")
	}
	return nil
}

// Entry is one committed object, as the sweeper sees it.
type Entry struct {
	Key     string
	Size    int64
	ModTime time.Time
}
