// Package identity lets an attack act as another user of the host: what the
// worker's, the sweeper's or a stranger's process could open or connect to.
package identity

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

// User is who a process runs as.
type User struct {
	UID, GID int
	Groups   []int
}

// As calls do on a thread of its own that has become the user, for good: user ids
// belong to threads in Linux, and the thread ends with the call. do must stay on
// its goroutine. Needs root.
func As(user User, do func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("the call did not come to its end")
		defer func() { done <- err }()
		runtime.LockOSThread() // never unlocked: the thread dies with the goroutine
		if err = become(user); err == nil {
			err = do()
		}
	}()
	return <-done
}

func become(user User) error {
	var groups *uint32
	list := make([]uint32, len(user.Groups))
	for i, g := range user.Groups {
		list[i] = uint32(g)
	}
	if len(list) > 0 {
		groups = &list[0]
	}
	// The raw calls: those of package syscall change every thread.
	steps := []struct {
		name string
		call func() syscall.Errno
	}{
		{"setgroups", func() syscall.Errno {
			_, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(list)), uintptr(unsafe.Pointer(groups)), 0)
			return errno
		}},
		{"setresgid", func() syscall.Errno {
			_, _, errno := syscall.RawSyscall(syscall.SYS_SETRESGID, uintptr(user.GID), uintptr(user.GID), uintptr(user.GID))
			return errno
		}},
		{"setresuid", func() syscall.Errno {
			_, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(user.UID), uintptr(user.UID), uintptr(user.UID))
			return errno
		}},
	}
	for _, s := range steps {
		if errno := s.call(); errno != 0 {
			return fmt.Errorf("become uid %d: %s: %w", user.UID, s.name, errno)
		}
	}
	if user.UID != 0 && hasCapabilities() {
		return errors.New("the thread kept capabilities after it had become another user")
	}
	return nil
}

// hasCapabilities asks whether this thread has any effective capability.
func hasCapabilities() bool {
	const version3 = 0x20080522
	header := struct {
		version uint32
		pid     int32
	}{version: version3}
	var data [2]struct{ effective, permitted, inheritable uint32 }
	_, _, errno := syscall.RawSyscall(syscall.SYS_CAPGET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
	return errno != 0 || data[0].effective|data[1].effective != 0
}
