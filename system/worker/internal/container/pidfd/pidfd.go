// Package pidfd follows one process by a descriptor, which cannot come to mean
// another process as a number can. The process need not be a child.
//
// Death is seen by polling: readable when the process is dead, hung up when its
// parent has reaped it. From then on a recent kernel (6.15) tells the wait
// status to every holder of the descriptor; on an older one the caller must ask
// the process's parent, which here is the engine's monitor.
package pidfd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoStatus says that this kernel does not tell the wait status, or not yet.
var ErrNoStatus = errors.New("the kernel does not tell the wait status of a process that is not a child")

// Process is a held process. Its methods are safe for concurrent use.
type Process struct {
	file *os.File
	raw  syscall.RawConn
	pid  int
}

// Open takes hold of pid. The caller must make sure afterwards that it is the
// process it means, for instance by its cgroup: before Open a number can be
// reused, after it no more.
func Open(pid int) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("take hold of process %d: %w", pid, err)
	}
	return FromFD(fd, pid)
}

// OpenParent takes hold of the process that p's was started by, as long as that
// one lives: a container's monitor, for its first process.
func (p *Process) OpenParent() (*Process, error) {
	before, err := parentOf(p.pid)
	if err != nil {
		return nil, err
	}
	parent, err := Open(before)
	if err != nil {
		return nil, err
	}
	// The numbers are right if p has been alive and of the same parent throughout.
	after, err := parentOf(p.pid)
	if err != nil || after != before || p.Dead() {
		parent.Close()
		return nil, fmt.Errorf("take hold of the parent of process %d: it changed meanwhile", p.pid)
	}
	return parent, nil
}

// parentOf reads the fourth field of a process's status line; the second is its
// name, which may hold anything.
func parentOf(pid int) (int, error) {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, fmt.Errorf("find the parent of process %d: %w", pid, err)
	}
	fields := strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
	if len(fields) < 2 {
		return 0, fmt.Errorf("find the parent of process %d: unreadable status", pid)
	}
	return strconv.Atoi(fields[1])
}

// FromFD wraps a pidfd received from elsewhere and owns it.
func FromFD(fd, pid int) (*Process, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("take hold of process %d: %w", pid, err)
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("take hold of process %d: %w", pid, err)
	}
	return &Process{file: file, raw: raw, pid: pid}, nil
}

// PID returns the number the process had when it was opened.
func (p *Process) PID() int { return p.pid }

// Close lets go of the process. It waits for the other methods to return: end their
// contexts first.
func (p *Process) Close() error { return p.file.Close() }

// Kill sends SIGKILL; a process already dead is no error. As first process of a
// pid namespace it takes every other process of the namespace with it.
func (p *Process) Kill() error {
	var sent error
	err := p.raw.Control(func(fd uintptr) {
		sent = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0)
	})
	if err = errors.Join(err, sent); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", p.pid, err)
	}
	return nil
}

// Dead reports whether the process has died, without waiting.
func (p *Process) Dead() bool { return p.events()&unix.POLLIN != 0 }

// Wait returns nil once the process is dead, all its threads included, and the
// context's error if that is done first.
func (p *Process) Wait(ctx context.Context) error { return p.await(ctx, unix.POLLIN|unix.POLLHUP) }

// WaitEither is Wait for p or other, whichever dies first.
func (p *Process) WaitEither(ctx context.Context, other *Process) error {
	return wait(ctx, func(wake event) error {
		var result, inner error
		outer := p.raw.Control(func(fd uintptr) {
			inner = other.raw.Control(func(second uintptr) {
				result = poll(wake, unix.POLLIN|unix.POLLHUP, fd, second)
			})
		})
		return errors.Join(result, inner, outer)
	})
}

// Status returns the wait status. It waits until the process is reaped, which
// its parent does at once unless it is stopped or starved; ErrNoStatus means ask
// elsewhere.
func (p *Process) Status(ctx context.Context) (unix.WaitStatus, error) {
	// An older kernel would let us wait in vain: it knows the question or it does not.
	if _, err := p.info(0); errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EINVAL) {
		return 0, fmt.Errorf("%w: %w", ErrNoStatus, err)
	}
	if err := p.await(ctx, unix.POLLHUP); err != nil {
		return 0, fmt.Errorf("%w (not reaped: %w)", ErrNoStatus, err)
	}
	info, err := p.info(unix.PIDFD_INFO_EXIT)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoStatus, err)
	}
	if info.Mask&unix.PIDFD_INFO_EXIT == 0 {
		return 0, ErrNoStatus
	}
	return unix.WaitStatus(info.Exit_code), nil
}

func (p *Process) info(mask uint64) (unix.PidfdInfo, error) {
	info := unix.PidfdInfo{Mask: mask}
	var asked error
	err := p.raw.Control(func(fd uintptr) { asked = unix.IoctlPidfdInfo(int(fd), &info) })
	return info, errors.Join(err, asked)
}

func (p *Process) events() int16 {
	var events int16
	err := p.raw.Control(func(fd uintptr) { events = pollNow(int(fd)) })
	if err != nil {
		return 0
	}
	return events
}

func pollNow(fd int) int16 {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, 0)
		if !errors.Is(err, unix.EINTR) {
			return fds[0].Revents
		}
	}
}

// await returns once one of events is there. Kernels before 6.15 give no hang-up
// and leave a waiter for it to its context.
func (p *Process) await(ctx context.Context, events int16) error {
	return wait(ctx, func(wake event) error {
		var result error
		err := p.raw.Control(func(fd uintptr) { result = poll(wake, events, fd) })
		return errors.Join(result, err)
	})
}

// wait runs block until it returns by itself or, woken, for the context.
func wait(ctx context.Context, block func(wake event) error) error {
	ready := make(chan error, 1)
	wake, err := newEvent()
	if err != nil {
		return err
	}
	go func() { ready <- block(wake) }()
	select {
	case err := <-ready:
		wake.close()
		return err
	case <-ctx.Done():
		wake.set()
		err := <-ready
		wake.close()
		if errors.Is(err, errWoken) {
			return context.Cause(ctx)
		}
		return err
	}
}

var errWoken = errors.New("woken")

// poll holds a thread until one of events comes to one of the processes, or the
// wake-up does. Attempts are as many as slots, so the threads are few.
func poll(wake event, events int16, processes ...uintptr) error {
	fds := []unix.PollFd{{Fd: int32(wake), Events: unix.POLLIN}}
	for _, fd := range processes {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: events &^ unix.POLLHUP})
	}
	for {
		_, err := unix.Poll(fds, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for a process: %w", err)
		}
		for _, fd := range fds[1:] {
			if fd.Revents&events != 0 {
				return nil
			}
		}
		if fds[0].Revents != 0 {
			return errWoken
		}
	}
}

// event is an eventfd that ends a poll.
type event int

func newEvent() (event, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return -1, fmt.Errorf("make a wake-up event: %w", err)
	}
	return event(fd), nil
}

func (e event) set() { _, _ = unix.Write(int(e), []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

func (e event) close() { _ = unix.Close(int(e)) }

// StatusWithin is Status with a bound on the wait for the reaping parent.
func (p *Process) StatusWithin(ctx context.Context, d time.Duration) (unix.WaitStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return p.Status(ctx)
}
