package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
)

// Enter makes the group name and returns the directories into whose cgroup.procs
// a process must be written to live in it. The engine does this for a container;
// here it is for what runs beside one.
func (t *Tree) Enter(name string) ([]string, error) {
	var dirs []string
	for controller, root := range t.roots {
		if t.version == 1 && controller != "memory" && controller != "pids" && controller != "cpu" {
			continue
		}
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("make cgroup %s: %w", name, err)
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}
