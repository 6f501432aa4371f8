package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// oomWatch remembers memory deaths of a group.
//
// On version 1 it is an eventfd on the group's memory.oom_control. The group's
// memory.failcnt is no substitute: it also counts reclaimed page cache, hundreds
// for merely reading a large file. On version 2 the group's memory.events
// counts the kills below it.
type oomWatch struct {
	eventfd int    // version 1, else -1
	events  string // version 2, path of memory.events
	seen    bool
}

func (g *Group) watchOOM() (*oomWatch, error) {
	if g.tree.version == 2 {
		return &oomWatch{eventfd: -1, events: filepath.Join(g.main(), "memory.events")}, nil
	}
	dir := g.main()
	control, err := os.Open(filepath.Join(dir, "memory.oom_control"))
	if err != nil {
		return nil, fmt.Errorf("watch for memory deaths: %w", err)
	}
	defer control.Close()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch for memory deaths: %w", err)
	}
	registration := strconv.Itoa(fd) + " " + strconv.Itoa(int(control.Fd()))
	if err := write(dir, "cgroup.event_control", registration); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("watch for memory deaths: %w", err)
	}
	return &oomWatch{eventfd: fd}, nil
}

// fired reports whether a death was seen, once seen for good. It must be asked
// before the group is removed: removal signals the eventfd too.
func (w *oomWatch) fired() (bool, error) {
	if w.seen {
		return true, nil
	}
	if w.eventfd < 0 {
		text, err := os.ReadFile(w.events)
		if err != nil {
			return false, fmt.Errorf("read memory deaths: %w", err)
		}
		w.seen, err = killsIn(string(text))
		return w.seen, err
	}
	var count [8]byte
	_, err := unix.Read(w.eventfd, count[:])
	switch {
	case errors.Is(err, unix.EAGAIN):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read memory deaths: %w", err)
	}
	w.seen = true
	return true, nil
}

// killsIn reads the line "oom_kill N" of memory.events.
func killsIn(text string) (bool, error) {
	for line := range strings.SplitSeq(text, "\n") {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			count, err := strconv.ParseUint(n, 10, 64)
			if err != nil {
				return false, fmt.Errorf("read memory deaths: oom_kill is %q", n)
			}
			return count > 0, nil
		}
	}
	return false, errors.New("read memory deaths: memory.events has no line oom_kill; this kernel is too old")
}

func (w *oomWatch) close() {
	if w != nil && w.eventfd >= 0 {
		unix.Close(w.eventfd)
		w.eventfd = -1
	}
}
