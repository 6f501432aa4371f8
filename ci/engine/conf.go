package engine

import (
	"fmt"
	"os"
	"path/filepath"
)

// podmanNproc is the hard process limit podman gives itself where it may not
// raise its own; asking for more makes every container fail to start.
const podmanNproc = 32768

// confForm is containers.conf. Two settings deserve a word. default_sysctls is
// empty because runc would write one through a /proc that shows the core itself
// only. Locks are files because the default, one shared memory segment for all of
// root's podman processes, would tie this service to the machine's own.
const confForm = `[containers]
default_ulimits = ["nofile=%[1]d:%[1]d", "nproc=%[2]d:%[2]d"]
default_sysctls = []

[engine]
runtime = %[3]q
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
tmp_dir = %[4]q
volume_path = %[5]q
`

func writeConf(o Options) (string, error) {
	nofile, err := limit("Max open files", 20000)
	if err != nil {
		return "", err
	}
	nproc, err := limit("Max processes", podmanNproc)
	if err != nil {
		return "", err
	}
	path := filepath.Join(o.Dir, "containers.conf")
	text := fmt.Sprintf(confForm, nofile, nproc, o.Runtime, filepath.Join(o.Dir, "tmp"), filepath.Join(o.Dir, "volumes"))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write the engine's configuration: %w", err)
	}
	return path, nil
}
