package e2e_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"glovebox/ci/leftovers"
	"glovebox/ci/local"
)

// host names where the system's attempts live.
func host(s *local.System) leftovers.Host {
	return leftovers.Host{
		State: filepath.Dir(s.BinDir), Launchers: len(s.PIDs.Launcher), Engine: s.Sockets.Engine,
		Holders: append(append([]int{}, s.PIDs.Launcher...), s.PIDs.Worker...),
	}
}

// left says what a finished system still holds that it should not: containers,
// processes, mounts, cgroups, folders and descriptors of attempts, temporary files.
func left(s *local.System) string {
	found, err := host(s).Found()
	if err != nil {
		return err.Error()
	}
	for _, path := range temporaryFiles(s.StorageRoot) {
		found = append(found, "temporary file "+path)
	}
	return strings.Join(found, ", ")
}

// coreProcesses returns the processes of the system's slots that run the core.
func coreProcesses(s *local.System) []string { return host(s).Cores() }

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
	eventually(t, 20*time.Second, "a clean host", func() string { return left(s) })
}
