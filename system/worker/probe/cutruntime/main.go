// Command cutruntime stands in for runc in the suites: it takes settings out of
// a container's configuration and then becomes the real runc. What to take out it
// reads from cuts.json beside itself; without that file it changes nothing.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "cutruntime:", err)
		os.Exit(1)
	}
}

func run() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if bundle := bundle(os.Args[1:]); bundle != "" && slices.Contains(os.Args, "create") {
		if err := cut(filepath.Join(filepath.Dir(self), "cuts.json"), filepath.Join(bundle, "config.json")); err != nil {
			return fmt.Errorf("cut %s: %w", bundle, err)
		}
	}
	real, err := lookup()
	if err != nil {
		return fmt.Errorf("find the real runc: %w", err)
	}
	return syscall.Exec(real, append([]string{"runc"}, os.Args[1:]...), os.Environ())
}

func bundle(args []string) string {
	for i, arg := range args {
		if (arg == "--bundle" || arg == "-b") && i+1 < len(args) {
			return args[i+1]
		}
		if dir, ok := strings.CutPrefix(arg, "--bundle="); ok {
			return dir
		}
	}
	return ""
}

func cut(cutsFile, configFile string) error {
	text, err := os.ReadFile(cutsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var cuts []string
	if err := json.Unmarshal(text, &cuts); err != nil {
		return err
	}
	if text, err = os.ReadFile(configFile); err != nil {
		return err
	}
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	for _, name := range cuts {
		if err := apply(config, name); err != nil {
			return err
		}
	}
	if text, err = json.Marshal(config); err != nil {
		return err
	}
	return os.WriteFile(configFile, text, 0o600)
}

func apply(config map[string]any, name string) error {
	linux, _ := config["linux"].(map[string]any)
	process, _ := config["process"].(map[string]any)
	if linux == nil || process == nil {
		return errors.New("the configuration has no linux or process part")
	}
	kind, what, _ := strings.Cut(name, ":")
	switch kind {
	case "namespace":
		return dropNamespace(config, linux, what)
	case "masks":
		delete(linux, "maskedPaths")
	case "readonly-paths":
		delete(linux, "readonlyPaths")
	case "env":
		env, _ := process["env"].([]any)
		process["env"] = append(env, "DATABASE_PASSWORD=planted")
	case "umask":
		user, _ := process["user"].(map[string]any)
		if user == nil {
			return errors.New("the process has no user")
		}
		user["umask"] = 0o22
	case "device":
		addMount(config, "/dev/kmsg", "/dev/kmsg")
	case "folder":
		addMount(config, "/dev/host", "/usr/share")
	default:
		return fmt.Errorf("no cut is called %q", name)
	}
	return nil
}

// dropNamespace leaves the container in the runtime's own namespace of the type.
func dropNamespace(config, linux map[string]any, what string) error {
	list, _ := linux["namespaces"].([]any)
	kept := slices.DeleteFunc(slices.Clone(list), func(n any) bool {
		m, _ := n.(map[string]any)
		return m["type"] == what
	})
	if len(kept) == len(list) {
		return fmt.Errorf("the container has no %s namespace of its own", what)
	}
	linux["namespaces"] = kept
	// What the kernel lets only the owner of the namespace do goes with it, else no
	// container starts and nothing is shown.
	switch what {
	case "user":
		delete(linux, "uidMappings")
		delete(linux, "gidMappings")
	case "network":
		replaceMount(config, "sysfs", map[string]any{"type": "tmpfs", "source": "tmpfs", "options": []string{"ro"}})
	case "ipc":
		replaceMount(config, "mqueue", nil)
	case "pid":
		replaceMount(config, "proc", map[string]any{"type": "bind", "source": "/proc", "options": []string{"rbind", "nosuid", "nodev", "noexec"}})
	case "uts":
		delete(config, "hostname")
	}
	return nil
}

func addMount(config map[string]any, destination, source string) {
	mounts, _ := config["mounts"].([]any)
	config["mounts"] = append(mounts, map[string]any{"destination": destination, "type": "bind", "source": source, "options": []string{"rbind", "rw"}})
}

// replaceMount changes the mounts of a type, or takes them away.
func replaceMount(config map[string]any, kind string, with map[string]any) {
	mounts, _ := config["mounts"].([]any)
	var kept []any
	for _, m := range mounts {
		old, _ := m.(map[string]any)
		if old["type"] != kind {
			kept = append(kept, m)
			continue
		}
		if with != nil {
			with["destination"] = old["destination"]
			kept = append(kept, with)
		}
	}
	config["mounts"] = kept
}

// lookup finds the real runc where the engine itself looks for it: the engine
// starts its runtime without a PATH.
func lookup() (string, error) {
	for _, dir := range []string{"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/sbin", "/bin"} {
		if path, err := exec.LookPath(filepath.Join(dir, "runc")); err == nil {
			return path, nil
		}
	}
	return exec.LookPath("runc")
}
