package slotfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

const mountFlags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOATIME

// loopTries bounds the race for a free loop device with other processes.
const loopTries = 32

func mount(ctx context.Context, c Config, dir string) error {
	switch c.Resolve() {
	case Tmpfs:
		options := fmt.Sprintf("size=%d,nr_inodes=%d,mode=0711,huge=never", c.bytes(), c.inodes())
		err := unix.Mount("tmpfs", dir, "tmpfs", mountFlags, options)
		if errors.Is(err, unix.EINVAL) { // a kernel without huge pages knows no huge=
			options = fmt.Sprintf("size=%d,nr_inodes=%d,mode=0711", c.bytes(), c.inodes())
			err = unix.Mount("tmpfs", dir, "tmpfs", mountFlags, options)
		}
		if err != nil {
			return fmt.Errorf("mount slot memory: %w; the launcher needs to be root", err)
		}
		return nil
	case Loop:
		return mountLoop(ctx, c, dir)
	}
	return fmt.Errorf("mount slot filesystem: backing %q is not one of auto, tmpfs, loop", c.Backing)
}

// mountLoop makes a disk in a file, with all its blocks: a host that runs out of
// space refuses here, and never loses a write of the core's later.
func mountLoop(ctx context.Context, c Config, dir string) error {
	disk, err := os.OpenFile(dir+".disk", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make slot disk: %w", err)
	}
	defer disk.Close()
	size := c.bytes()
	size += size/50 + 8<<20 // ext4's own tables
	size = (size + 4095) &^ 4095
	if err := unix.Fallocate(int(disk.Fd()), 0, 0, size); err != nil {
		return fmt.Errorf("make slot disk of %d bytes: %w; free space below slots.root", size, err)
	}
	// No journal, for nothing survives a crash; no space kept back for root.
	mkfs := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-b", "4096", "-N", strconv.Itoa(c.inodes()+16),
		"-O", "^has_journal,^resize_inode", "-E", "nodiscard,lazy_itable_init=1", dir+".disk")
	var said bytes.Buffer
	mkfs.Stderr = &said
	if err := mkfs.Run(); err != nil {
		return fmt.Errorf("format slot disk: %w (%q); install e2fsprogs", err, said.String())
	}
	loop, err := attach(disk)
	if err != nil {
		return err
	}
	defer loop.Close() // the mount holds the device; with the mount it goes
	if err := unix.Mount(loop.Name(), dir, "ext4", mountFlags, ""); err != nil {
		return fmt.Errorf("mount slot disk: %w", err)
	}
	return os.Remove(dir + "/lost+found")
}

// attach finds a free loop device and gives it the disk, until nobody uses it.
func attach(disk *os.File) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("ask for a loop device: %w; load the kernel module loop or set slots.backing to tmpfs", err)
	}
	defer control.Close()
	for range loopTries {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("ask for a loop device: %w", err)
		}
		loop, err := os.OpenFile("/dev/loop"+strconv.Itoa(n), os.O_RDWR, 0)
		if err != nil {
			return nil, fmt.Errorf("open loop device: %w", err)
		}
		config := unix.LoopConfig{Fd: uint32(disk.Fd()), Size: 4096}
		config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO
		if err := unix.IoctlLoopConfigure(int(loop.Fd()), &config); err == nil {
			return loop, nil
		} else if !errors.Is(err, unix.EBUSY) {
			loop.Close()
			return nil, fmt.Errorf("attach slot disk: %w", err)
		}
		loop.Close() // somebody else was faster
	}
	return nil, errors.New("attach slot disk: no loop device stays free; raise the kernel's max_loop")
}
