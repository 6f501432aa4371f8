package filter

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of ptrace that package unix does not wrap.
const (
	ptraceGetFilter = 0x420c
	maxInstructions = 4096 // the kernel's own bound
)

// ErrNotTold says that this kernel does not show installed filters.
var ErrNotTold = errors.New("the kernel does not show installed filters; it lacks CONFIG_CHECKPOINT_RESTORE, or we lack CAP_SYS_ADMIN")

// Installed fetches the filters of process pid from the kernel, the last one
// installed first. The process stops for the moment of it. It takes root outside
// of any filter.
func Installed(pid int) (programs [][]Instruction, err error) {
	// A tracer is a thread, not a process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.PtraceSeize(pid); err != nil {
		return nil, fmt.Errorf("trace process %d: %w", pid, err)
	}
	defer func() { err = errors.Join(err, detach(pid)) }()
	if err := unix.PtraceInterrupt(pid); err != nil {
		return nil, fmt.Errorf("stop process %d: %w", pid, err)
	}
	var status unix.WaitStatus
	for {
		if _, err = unix.Wait4(pid, &status, unix.WALL, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil || !status.Stopped() {
		return nil, fmt.Errorf("stop process %d: status %#x, %w", pid, uint32(status), err)
	}
	for index := 0; ; index++ {
		program, err := fetch(pid, index)
		if errors.Is(err, unix.ENOENT) || index == 0 && errors.Is(err, unix.EINVAL) {
			return programs, nil // no more, or none at all
		}
		if err != nil {
			return nil, err
		}
		programs = append(programs, program)
	}
}

func fetch(pid, index int) ([]Instruction, error) {
	buffer := make([]Instruction, maxInstructions)
	n, _, errno := unix.Syscall6(unix.SYS_PTRACE, ptraceGetFilter, uintptr(pid), uintptr(index), uintptr(unsafe.Pointer(&buffer[0])), 0, 0)
	switch {
	case errno == unix.ENOENT || errno == unix.EINVAL:
		return nil, errno
	case errno == unix.EACCES || errno == unix.EIO:
		return nil, fmt.Errorf("%w (%w)", ErrNotTold, errno)
	case errno != 0:
		return nil, fmt.Errorf("fetch filter %d of process %d: %w", index, pid, errno)
	}
	return buffer[:n], nil
}

func detach(pid int) error {
	if err := unix.PtraceDetach(pid); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("let process %d go on: %w", pid, err)
	}
	return nil
}
