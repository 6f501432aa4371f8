package suite

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelLog follows the kernel's log from the moment it is opened.
type kernelLog struct{ fd int }

func openKernelLog() (kernelLog, error) {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return kernelLog{}, fmt.Errorf("open the kernel's log: %w", err)
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		unix.Close(fd)
		return kernelLog{}, fmt.Errorf("find the end of the kernel's log: %w", err)
	}
	return kernelLog{fd}, nil
}

// naming returns the lines since then that contain word, and closes the log.
func (l kernelLog) naming(word string) ([]string, error) {
	defer unix.Close(l.fd)
	record := make([]byte, 8192)
	var lines []string
	for {
		n, err := unix.Read(l.fd, record)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return lines, nil
		case errors.Is(err, unix.EPIPE): // overwritten before it was read: go on with the next
			continue
		case err != nil:
			return nil, fmt.Errorf("read the kernel's log: %w", err)
		}
		if text := string(record[:n]); strings.Contains(text, word) {
			lines = append(lines, strings.SplitN(text, "\n", 2)[0])
		}
	}
}
