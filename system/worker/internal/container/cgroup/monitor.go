package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

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
