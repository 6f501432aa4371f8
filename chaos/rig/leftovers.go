package rig

import (
	"path/filepath"

	"glovebox/ci/leftovers"
)

// Leftovers says what the system holds although no job runs: containers, processes,
// mounts, cgroups, folders and descriptors of attempts, temporary files (SBX-12,
// UPL-08). The oracles are the engine's own list, the kernel's tables and the disk.
func (r *Rig) Leftovers() ([]string, error) {
	found, err := leftovers.Host{
		State: r.state, Launchers: r.Options.Workers, Engine: r.Sockets.Engine,
		Holders: append(append([]int{}, r.PIDs.Launcher...), r.PIDs.Worker...),
	}.Found()
	if err != nil {
		return nil, err
	}
	staged, _ := filepath.Glob(filepath.Join(r.StorageRoot, "tmp", "*"))
	for _, path := range staged {
		found = append(found, "temporary file "+path)
	}
	return found, nil
}
