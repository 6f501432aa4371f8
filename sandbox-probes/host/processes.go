package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// processes lists those that run as a slot's user, in a slot's control group, or
// with the run's folder in their command line or as their working folder: the
// engine's monitors and helpers. The holders themselves are not left over.
func processes(all Inventory, s Scope) error {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	holders := map[string]bool{}
	for _, pid := range s.Holders {
		holders[fmt.Sprintf("/proc/%d", pid)] = true
	}
	for _, dir := range dirs {
		if why := ofSandbox(dir, s); why != "" && !holders[dir] {
			name, _ := os.ReadFile(dir + "/comm")
			all["process "+filepath.Base(dir)] = fmt.Sprintf("%q %s", strings.TrimSpace(string(name)), why)
		}
	}
	return nil
}

// ProcessesOf lists those that run as one of the users from first on.
func ProcessesOf(first, users uint32) ([]int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, dir := range dirs {
		if ofSandbox(dir, Scope{Dir: "/nowhere", Label: "nobody", FirstUID: first, UIDs: users}) == "" {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		found = append(found, pid)
	}
	return found, nil
}

func ofSandbox(dir string, s Scope) string {
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return "" // it has ended
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "State:\tZ") {
			return "" // dead, and not yet asked for by its parent
		}
		var ids [4]uint32
		for _, form := range []string{"Uid:\t%d\t%d\t%d\t%d", "Gid:\t%d\t%d\t%d\t%d"} {
			if n, _ := fmt.Sscanf(line, form, &ids[0], &ids[1], &ids[2], &ids[3]); n == 4 {
				for _, id := range ids {
					if s.owns(id) {
						return "runs as a slot's user"
					}
				}
			}
		}
	}
	if text, err := os.ReadFile(dir + "/cgroup"); err == nil && bytes.Contains(text, []byte("/"+s.Label+"/")) {
		return "is in a slot's group"
	}
	if text, err := os.ReadFile(dir + "/cmdline"); err == nil && bytes.Contains(text, []byte(s.Dir+"/")) {
		return "was started for the run"
	}
	if cwd, err := os.Readlink(dir + "/cwd"); err == nil && strings.HasPrefix(cwd, s.Dir) {
		return "works in the run's folder"
	}
	return ""
}

// descriptors counts what the holders have open of attempts: files of slots,
// monitors' sockets, and processes.
func descriptors(all Inventory, s Scope) error {
	for _, pid := range s.Holders {
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		files, handles := 0, 0
		for _, e := range entries {
			target, err := os.Readlink(filepath.Join(dir, e.Name()))
			switch {
			case err != nil: // closed while we looked
			case strings.HasPrefix(target, s.Dir+"/slots/"):
				files++
			case target == "anon_inode:[pidfd]" || strings.HasPrefix(target, "pidfd:"):
				handles++
			}
		}
		all[fmt.Sprintf("descriptors of process %d", pid)] = fmt.Sprintf("%d of slots, %d of processes", files, handles)
	}
	return nil
}

// sockets lists those of slots' users, of the probes, and below the slots' folder.
func sockets(all Inventory, s Scope) error {
	local, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(local)) {
		fields := strings.Fields(line)
		if name := fields[len(fields)-1]; strings.HasPrefix(name, "@glovebox-") || strings.HasPrefix(name, s.Dir+"/slots/") {
			all["socket "+name] = "there"
		}
	}
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6", "raw", "raw6"} {
		text, err := os.ReadFile("/proc/net/" + table)
		if err != nil {
			continue // this kernel lacks the protocol
		}
		for line := range strings.Lines(string(text)) {
			var uid uint32
			if fields := strings.Fields(line); len(fields) > 9 {
				if n, _ := fmt.Sscan(fields[7], &uid); n == 1 && s.owns(uid) {
					all["socket "+table+" "+fields[1]] = fmt.Sprintf("of user %d", uid)
				}
			}
		}
	}
	return nil
}
