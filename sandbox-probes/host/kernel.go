package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// moving are the files below /proc/sys that are counters, not settings: they move
// with any work of the machine.
var moving = []string{"fs/aio-nr", "fs/dentry-state", "fs/file-nr", "fs/inode-nr", "fs/inode-state", "fs/quota", "kernel/ns_last_pid", "kernel/pty/nr",
	"kernel/random/entropy_avail", "kernel/random/uuid", "net/netfilter/nf_conntrack_count", "vm/stat_refresh"}

// maxSetting bounds what is read of one setting.
const maxSetting = 64 << 10

// settings are all of the kernel, as this process sees them.
func settings(all Inventory, _ Scope) error {
	const root = "/proc/sys"
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone while we looked: a network device's, for one
		}
		name, _ := filepath.Rel(root, path)
		if slices.Contains(moving, name) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() || strings.HasPrefix(name, "net/") && strings.Contains(name, "/veth") {
			return nil
		}
		if text, err := os.ReadFile(path); err == nil { // some can only be written
			all["sysctl "+name] = strings.TrimSpace(string(text[:min(len(text), maxSetting)]))
		}
		return nil
	})
}

// sysvKeys are the keys that probes use, as /proc writes them.
var sysvKeys = []string{"1633837924", "1735159670"}

// tables counts the System V objects of probes.
func tables(all Inventory, _ Scope) error {
	for _, table := range []string{"shm", "sem", "msg"} {
		text, err := os.ReadFile("/proc/sysvipc/" + table)
		if errors.Is(err, os.ErrNotExist) {
			continue // this kernel has none
		}
		if err != nil {
			return err
		}
		found := 0
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 0 && slices.Contains(sysvKeys, fields[0]) {
				found++
			}
		}
		all["sysv "+table] = strconv.Itoa(found)
	}
	return nil
}

// groups lists control groups below those of the run's label.
func groups(all Inventory, s Scope) error {
	return filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // it went away while we looked
		}
		if strings.Contains(path, "/"+s.Label+"/") {
			all["group "+path] = "there"
		}
		return nil
	})
}
