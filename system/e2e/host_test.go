package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"glovebox/ci/local"
)

// leftovers says what a finished system still holds that it should not:
// containers, core processes, mounts and cgroups of slots, temporary files.
// The oracles are the engine's own list, the kernel's tables and the disk.
func leftovers(s *local.System) string {
	var found []string
	state := filepath.Dir(s.BinDir)

	out, err := exec.Command("podman", "--remote", "--url", "unix://"+s.Sockets.Engine, "ps", "--all", "--quiet").Output()
	if err != nil {
		return "the engine's list cannot be read: " + err.Error()
	}
	if n := len(strings.Fields(string(out))); n > 0 {
		found = append(found, fmt.Sprintf("%d containers", n))
	}
	for _, pid := range coreProcesses(s) {
		found = append(found, "core process "+pid)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err.Error()
	}
	if n := strings.Count(string(mounts), " "+filepath.Join(state, "slots-")); n > 0 {
		found = append(found, fmt.Sprintf("%d slot mounts", n))
	}
	for _, group := range slotGroups(s) {
		found = append(found, "cgroup "+group)
	}
	for _, dir := range slotFolders(state) {
		found = append(found, "slot folder "+dir)
	}
	for _, path := range temporaryFiles(s.StorageRoot) {
		found = append(found, "temporary file "+path)
	}
	return strings.Join(found, ", ")
}

// launcherNames are the names that the system's launchers give to their cgroups:
// they follow from the slots' roots, so another system on this host has others.
func launcherNames(s *local.System) []string {
	var names []string
	for i := range s.PIDs.Launcher {
		sum := sha256.Sum256([]byte(filepath.Join(filepath.Dir(s.BinDir), fmt.Sprintf("slots-%d", i))))
		names = append(names, "glovebox-"+hex.EncodeToString(sum[:4]))
	}
	return names
}

// coreProcesses returns the pids in the groups of the system's slots that run as a
// slot's user.
func coreProcesses(s *local.System) []string {
	var pids []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		status, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil {
			continue
		}
		groups, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil || !slices.ContainsFunc(launcherNames(s), func(name string) bool { return strings.Contains(string(groups), name) }) {
			continue
		}
		for line := range strings.Lines(string(status)) {
			var uid int
			if n, _ := fmt.Sscanf(line, "Uid:\t%d", &uid); n == 1 && uid >= 300000 {
				pids = append(pids, filepath.Base(dir))
			}
		}
	}
	return pids
}

// slotGroups lists the cgroups of attempts, in every hierarchy of the host.
func slotGroups(s *local.System) []string {
	var found []string
	for _, name := range launcherNames(s) {
		for _, pattern := range []string{"/sys/fs/cgroup/*/" + name + "/*", "/sys/fs/cgroup/" + name + "/*"} {
			paths, _ := filepath.Glob(pattern)
			for _, path := range paths {
				if info, err := os.Stat(path); err == nil && info.IsDir() {
					found = append(found, path)
				}
			}
		}
	}
	return found
}

// slotFolders lists the attempts that lie in the launchers' slot roots.
func slotFolders(state string) []string {
	found, _ := filepath.Glob(filepath.Join(state, "slots-*", "a-*"))
	return found
}

// temporaryFiles lists bodies that have not become objects.
func temporaryFiles(storage string) []string {
	found, _ := filepath.Glob(filepath.Join(storage, "tmp", "*"))
	return found
}

// resultFiles lists the stored results of a job; their names hold its id.
func resultFiles(storage, jobID string) []string {
	found, _ := filepath.Glob(filepath.Join(storage, "objects", "*", "result~*"+jobID+"*"))
	return found
}

func clean(t *testing.T, s *local.System) {
	t.Helper()
	eventually(t, 20*time.Second, "a clean host", func() string { return leftovers(s) })
}
