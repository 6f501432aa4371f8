package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"glovebox/ci/leftovers"
)

// engineTime bounds a question to the engine, which may hang.
const engineTime = 20 * time.Second

// Remains says what is there of attempts when launchers and workers have ended in
// good order: then nothing waits for a next job, and nothing at all may be left, of
// whatever name. A launcher that is asked to end in the middle of making a
// container must not leave it.
func (r *Rig) Remains(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, "podman", "--remote", "--url", "unix://"+r.Sockets.Engine, "ps", "--all", "--format", "{{.Names}}").Output()
	if err != nil {
		return nil, fmt.Errorf("read the engine's list: %w", err)
	}
	var found []string
	for name := range strings.FieldsSeq(string(out)) {
		found = append(found, "container "+name)
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
	host := leftovers.Host{State: r.state, Launchers: r.Options.Workers, Engine: r.Sockets.Engine}
	for i := range r.Options.Workers {
		for _, name := range host.Names(i) {
			found = append(found, fmt.Sprintf("folder or cgroup of launcher %d: %s", i, name))
		}
	}
	for _, pid := range host.Cores() {
		found = append(found, "core process "+pid)
	}
	return found, nil
}
