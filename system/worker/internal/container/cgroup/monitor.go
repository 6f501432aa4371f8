package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// monitorName is what the kernel calls the engine's monitor.
const monitorName = "conmon"

// AdoptMonitor sees to it that the engine's monitor lives in the group too: what it
// does for a slot is charged to the slot (SBX-16). A rootful engine puts it there by
// itself; a rootless one on version 2 leaves it in the engine's own group and says
// nothing, so it is moved here.
func (g *Group) AdoptMonitor(monitor int) error {
	if monitor == os.Getpid() {
		return nil // the core is our own child: there is no monitor
	}
	held, err := g.Holds(monitor)
	if err != nil || held {
		return err
	}
	// A process whose monitor has died is the child of whoever takes orphans in: the
	// engine's service, a user's service manager or the host's first process. Moved
	// here, that one would be killed with the group.
	name, err := os.ReadFile("/proc/" + strconv.Itoa(monitor) + "/comm")
	if err != nil {
		return fmt.Errorf("look whether process %d is the engine's monitor: %w", monitor, err)
	}
	if got := strings.TrimSuffix(string(name), "\n"); got != monitorName {
		return fmt.Errorf("the container's process is the child of process %d (%s) and not of a monitor; the engine's monitor has died", monitor, got)
	}
	if g.tree.version == 1 {
		return fmt.Errorf("the engine's monitor, process %d, is not in the slot's cgroup; the engine ignored the cgroup parent", monitor)
	}
	dir := filepath.Join(g.main(), monitorGroup)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the monitor's cgroup: %w", err)
	}
	if err := write(dir, "cgroup.procs", strconv.Itoa(monitor)); err != nil {
		return fmt.Errorf("move the engine's monitor into the slot's cgroup: %w", err)
	}
	return nil
}
