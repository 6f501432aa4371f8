package host

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// planted are parts of names that probes would make where they can.
var planted = []string{"glovebox-probe", "glovebox-pair", "glovebox-node"}

// Places are the folders where somebody without rights could write on some host,
// and those that an escape would reach for.
func Places() []string {
	return []string{"/dev", "/etc", "/home", "/opt", "/root", "/run", "/srv", "/tmp", "/var"}
}

// tops are listed whole: nothing comes or goes there by ordinary work.
var tops = []string{"/", "/dev", "/etc"}

// files lists what belongs to a slot's user or bears a probe's name, outside of the
// run's own folder, and what stands at the top of the host.
func files(all Inventory, s Scope) error {
	for _, dir := range tops {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			// Loop devices are other people's; editors and package tools come and go in /etc.
			if !strings.HasPrefix(e.Name(), "loop") && !strings.HasSuffix(e.Name(), ".lock") {
				all["top "+filepath.Join(dir, e.Name())] = e.Type().String()
			}
		}
	}
	for _, place := range s.Places {
		err := filepath.WalkDir(place, func(path string, d fs.DirEntry, err error) error {
			if path == s.Dir {
				return fs.SkipDir
			}
			if err != nil {
				return nil // it went away while we looked
			}
			info, err := d.Info()
			if err != nil {
				return nil // as above
			}
			if owner := info.Sys().(*syscall.Stat_t).Uid; s.owns(owner) || bears(d.Name()) {
				all["file "+path] = fmt.Sprintf("%s of user %d", info.Mode(), owner)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func bears(name string) bool {
	for _, word := range planted {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// mounts lists those of the slots in every mount namespace that a process shows.
func mounts(all Inventory, s Scope) error {
	tables, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, table := range append(tables, "/proc/self/mountinfo") {
		namespace, err := os.Readlink(filepath.Join(filepath.Dir(table), "ns/mnt"))
		if err != nil || seen[namespace] {
			continue // the process has ended, or its namespace was looked at
		}
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		seen[namespace] = true
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], s.Dir+"/slots/") {
				all["mount "+fields[4]+" in "+namespace] = "there"
			}
		}
	}
	if len(seen) == 0 {
		return fmt.Errorf("no mount table can be read")
	}
	return nil
}
