// Package slotfs makes the private filesystem of one attempt and takes it away.
//
// It holds the attempt's own copy of the image, the input and the result, and is
// sized for exactly these: no other attempt shares an inode, a page or a free
// block with it (SBX-15), and neither the core nor a worker that writes through
// its descriptor can fill the host's disk.
//
//	ROOT/NAME/rootfs   the image's files and the engine's mount points
//	ROOT/NAME/input    root:slot 0440, bind-mounted read-only
//	ROOT/NAME/result   root:slot 0660, bind-mounted, the one writable file
//	ROOT/NAME/empty    stands in for files the engine would share
//
// The core is in the slot's group and owns nothing, so even without its seccomp
// filter it could change neither mode nor owner nor times.
package slotfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"glovebox/system/worker/internal/container/userns"
)

// Backing is what a slot's filesystem lives in.
type Backing string

// The backings.
const (
	// Tmpfs is memory: fast, and what the core writes is charged to its slot.
	Tmpfs Backing = "tmpfs"
	// Loop is a preallocated file on the disk of the slots' root, formatted as ext4.
	Loop Backing = "loop"
	// Auto is Tmpfs where input and result together stay below AutoTmpfsBytes.
	Auto Backing = "auto"
)

// AutoTmpfsBytes is the largest sum of both limits that Auto puts into memory.
const AutoTmpfsBytes = 128 << 20

// Config sizes the filesystems of one launcher.
type Config struct {
	Root           string // absolute; every attempt is a folder below it
	Backing        Backing
	MaxInputBytes  int64
	MaxResultBytes int64
	ImageBytes     int64
	ImageFiles     int
}

// Resolve returns the backing in force.
func (c Config) Resolve() Backing {
	if c.Backing != Auto {
		return c.Backing
	}
	if c.MaxInputBytes+c.MaxResultBytes <= AutoTmpfsBytes {
		return Tmpfs
	}
	return Loop
}

// bytes is the room for everything, with a page of slack for each file.
func (c Config) bytes() int64 {
	const slack = 256 << 10
	return c.ImageBytes + c.MaxInputBytes + c.MaxResultBytes + int64(c.ImageFiles)*4096 + slack
}

// inodes is one for each file and folder, ours included. The core can make none.
func (c Config) inodes() int { return c.ImageFiles + 32 }

// Files are the places of an attempt as the engine needs them.
type Files struct{ Rootfs, Input, Result, Empty string }

// FS is the filesystem of one attempt.
type FS struct {
	Files  Files
	Input  *os.File // to write the input
	Result *os.File // to read the result, opened before the core exists

	root, name string
	maxResult  int64
	kept       *os.File // the result, to judge and to empty it: never looked up again
	before     unix.Stat_t
}

// Unpacker puts the image's files into an empty folder.
type Unpacker interface {
	Unpack(into *os.Root) error
}

// mountPoints are what the OCI runtime mounts over; it could not make them on a
// root filesystem that its user namespace does not own.
var mountPoints = []struct {
	name   string
	folder bool
}{
	{"proc", true}, {"sys", true}, {"dev", true}, {"etc", true}, {"run", true}, {"in", true}, {"out", true},
	{"etc/hostname", false}, {"run/.containerenv", false}, {"in/input", false}, {"out/result", false},
}

// Make mounts and fills the filesystem name for the user range that begins at
// uidBase; gid is the core's group inside it. The caller must Remove it, after an
// error too.
func Make(ctx context.Context, c Config, name string, gid uint32, image Unpacker) (*FS, error) {
	f := &FS{root: c.Root, name: name, maxResult: c.MaxResultBytes}
	dir := f.dir()
	f.Files = Files{Rootfs: dir + "/rootfs", Input: dir + "/input", Result: dir + "/" + resultName, Empty: dir + "/empty"}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return f, fmt.Errorf("make slot folder: %w", err)
	}
	if err := mount(ctx, c, dir); err != nil {
		return f, err
	}
	if err := f.fill(gid, image); err != nil {
		return f, fmt.Errorf("fill slot filesystem: %w", err)
	}
	if userns.Inside() {
		if err := forbidExec(f.Files.Result); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (f *FS) dir() string { return filepath.Join(f.root, f.name) }

func (f *FS) fill(gid uint32, image Unpacker) error {
	slot, err := os.OpenRoot(f.dir())
	if err != nil {
		return err
	}
	defer slot.Close()
	// The OCI runtime resolves these paths as the slot's own user: it may pass
	// through, and see no names.
	if err := slot.Chmod(".", 0o711); err != nil {
		return err
	}
	if err := folder(slot, "rootfs"); err != nil {
		return err
	}
	rootfs, err := slot.OpenRoot("rootfs")
	if err != nil {
		return err
	}
	defer rootfs.Close()
	if err := image.Unpack(rootfs); err != nil {
		return err
	}
	for _, p := range mountPoints {
		if err := ensure(rootfs, p.name, p.folder); err != nil {
			return fmt.Errorf("mount point /%s: %w", p.name, err)
		}
	}
	if err := f.openFiles(slot, gid); err != nil {
		return err
	}
	return unix.Fstat(int(f.kept.Fd()), &f.before)
}

func (f *FS) openFiles(slot *os.Root, gid uint32) error {
	empty, err := create(slot, "empty", os.O_RDONLY, 0o444, 0)
	if err != nil {
		return err
	}
	if err := empty.Close(); err != nil {
		return err
	}
	if f.Input, err = create(slot, "input", os.O_WRONLY, 0o440, gid); err != nil {
		return err
	}
	if f.kept, err = create(slot, resultName, os.O_RDWR, 0o660, gid); err != nil {
		return err
	}
	f.Result, err = slot.Open(resultName)
	return err
}

// create makes a new file and sets mode and group whatever the umask is.
func create(root *os.Root, name string, access int, mode os.FileMode, gid uint32) (*os.File, error) {
	file, err := root.OpenFile(name, access|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(file.Chown(0, int(gid)), file.Chmod(mode)); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func folder(root *os.Root, name string) error {
	if err := root.Mkdir(name, 0o755); err != nil {
		return err
	}
	return root.Chmod(name, 0o755)
}

// ensure accepts what the image brought, if it is of the right kind and empty.
func ensure(root *os.Root, name string, isFolder bool) error {
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && isFolder:
		return folder(root, name)
	case errors.Is(err, fs.ErrNotExist):
		file, err := create(root, name, os.O_RDONLY, 0o444, 0)
		if err != nil {
			return err
		}
		return file.Close()
	case err != nil:
		return err
	case info.IsDir() != isFolder || !isFolder && !info.Mode().IsRegular():
		return fmt.Errorf("the image has a %s here", kind(info))
	}
	return nil
}

func kind(info fs.FileInfo) string {
	if info.IsDir() {
		return "folder"
	}
	return "file"
}

// InputSize returns the size of what was written, by the file's own word.
func (f *FS) InputSize() (int64, error) {
	info, err := f.Input.Stat()
	if err != nil {
		return 0, fmt.Errorf("look at the input: %w", err)
	}
	return info.Size(), nil
}

// Remove empties the files, unmounts and removes everything, also while a worker
// still holds its descriptors. It may be called again after an error, and on what
// Make left half made.
func (f *FS) Remove() error {
	for _, file := range []*os.File{f.Input, f.kept, f.Result} {
		if file != nil {
			_ = file.Close()
		}
	}
	f.Input, f.kept, f.Result = nil, nil, nil
	return remove(f.root, f.name)
}

func remove(root, name string) error {
	dir := filepath.Join(root, name)
	if err := retire(dir, imagePath(root, name)); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove slot folder: %w", err)
	}
	if err := os.Remove(imagePath(root, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove slot disk: %w", err)
	}
	return nil
}

func imagePath(root, name string) string { return path.Join(root, name+".disk") }
