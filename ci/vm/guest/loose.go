package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// loose plays a host that takes limits and enforces none, the fault that nothing but
// a probe can find: it lets the container be made, reports it as made, and lifts the
// limits of the container and of the slot's group above it. Called by another name
// that ends in -nogroup it leaves the container in the engine's own group, as a
// rootless engine does that manages no groups.
func loose() error {
	args := os.Args[1:]
	if strings.HasSuffix(filepath.Base(os.Args[0]), "-nogroup") {
		args = append([]string{"--cgroup-manager=disabled"}, args...)
	} else if i := slices.Index(args, "--bundle"); i >= 0 && slices.Contains(args, "create") {
		if err := lift(filepath.Join(args[i+1], "config.json")); err != nil {
			return fmt.Errorf("lift the limits: %w", err)
		}
	}
	const real = "/usr/bin/crun"
	return syscall.Exec(real, append([]string{real}, args...), os.Environ())
}

func lift(config string) error {
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	var spec map[string]any
	if err := json.Unmarshal(text, &spec); err != nil {
		return err
	}
	linux, ok := spec["linux"].(map[string]any)
	if !ok {
		return fmt.Errorf("%s has no part linux", config)
	}
	group, ok := linux["cgroupsPath"].(string)
	if !ok {
		return fmt.Errorf("%s names no cgroup", config)
	}
	delete(linux, "resources")
	for file, value := range map[string]string{"memory.max": "max", "pids.max": "max", "cpu.max": "max"} {
		if err := os.WriteFile(filepath.Join("/sys/fs/cgroup", path.Dir(group), file), []byte(value), 0); err != nil {
			return err
		}
	}
	if text, err = json.Marshal(spec); err != nil {
		return err
	}
	return os.WriteFile(config, text, 0o600)
}
