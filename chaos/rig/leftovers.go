package rig

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// slotUIDs is where the slots' user ids begin in a local system.
const slotUIDs = 300000

// Leftovers says what the system holds although no job runs: containers, core
// processes, mounts, cgroups and folders of slots, temporary files (SBX-12,
// UPL-08). The oracles are the engine's own list, the kernel's tables and the disk.
func (r *Rig) Leftovers() ([]string, error) {
	var found []string
	out, err := exec.Command("podman", "--remote", "--url", "unix://"+r.Sockets.Engine, "ps", "--all", "--quiet").Output()
	if err != nil {
		return nil, fmt.Errorf("read the engine's list: %w", err)
	}
	for _, id := range strings.Fields(string(out)) {
		found = append(found, "container "+id)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], filepath.Join(r.state, "slots-")) {
			found = append(found, "mount "+fields[1])
		}
	}
	for _, pid := range r.coreProcesses() {
		found = append(found, "core process "+pid)
	}
	for _, pattern := range r.groupPatterns() {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				found = append(found, "cgroup "+path)
			}
		}
	}
	folders, _ := filepath.Glob(filepath.Join(r.state, "slots-*", "a-*"))
	for _, path := range folders {
		found = append(found, "slot folder "+path)
	}
	staged, _ := filepath.Glob(filepath.Join(r.StorageRoot, "tmp", "*"))
	for _, path := range staged {
		found = append(found, "temporary file "+path)
	}
	return found, nil
}

// groupNames are the names that the launchers give to their cgroups. They follow
// from the slots' folders, so another system on this host has others.
func (r *Rig) groupNames() []string {
	var names []string
	for i := range r.Options.Workers {
		sum := sha256.Sum256([]byte(filepath.Join(r.state, fmt.Sprintf("slots-%d", i))))
		names = append(names, "glovebox-"+hex.EncodeToString(sum[:4]))
	}
	return names
}

func (r *Rig) groupPatterns() []string {
	var patterns []string
	for _, name := range r.groupNames() {
		patterns = append(patterns, "/sys/fs/cgroup/*/"+name+"/*", "/sys/fs/cgroup/"+name+"/*")
	}
	return patterns
}

// coreProcesses returns the pids in the slots' groups that run as a slot's user.
func (r *Rig) coreProcesses() []string {
	var pids []string
	names := r.groupNames()
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		groups, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil || !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(string(groups), name) }) {
			continue
		}
		status, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(status)) {
			var uid int
			if n, _ := fmt.Sscanf(line, "Uid:\t%d", &uid); n == 1 && uid >= slotUIDs {
				pids = append(pids, filepath.Base(dir))
			}
		}
	}
	return pids
}
