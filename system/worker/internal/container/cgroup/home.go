package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"glovebox/system/worker/internal/container/userns"
)

// On version 2 a service manager hands a part of the one tree to a service
// (Delegate=yes), and everything outside that part belongs to the manager. So the
// attempts' groups are made below the launcher's own group where that was handed
// over, and below the root where root works without a manager.
//
//	/…/glovebox-launcher.service          handed over; may hold no process itself
//	/…/glovebox-launcher.service/self     the launcher, once it has moved
//	/…/glovebox-launcher.service/LABEL    the attempts

// selfGroup is where the launcher moves out of its service's group.
const selfGroup = "self"

// delegated is the mark that systemd leaves on a group it has handed over.
const delegated = "user.delegate"

// home returns the group, below root, under which groups may be made. own is the
// text of /proc/self/cgroup.
func home(root, own string) (string, error) {
	for line := range strings.Lines(own) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		if path.Base(group) == selfGroup { // moved there before
			return path.Dir(group), nil
		}
		mark := make([]byte, 8)
		n, err := unix.Getxattr(filepath.Join(root, group), delegated, mark)
		if err == nil && bytes.Equal(mark[:n], []byte("1")) || userns.Inside() {
			return group, nil
		}
		return "/", nil
	}
	return "", errors.New("find the own cgroup: /proc/self/cgroup has no line of version 2")
}

// handDown lets groups below dir have the needed controllers. dir is home or
// below it.
func (t *Tree) handDown(dir string) error {
	offered, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("look for the cgroup controllers: %w", err)
	}
	var missing []string
	for _, name := range needed {
		if !slices.Contains(strings.Fields(string(offered)), name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("limit by cgroup: controllers %s are not handed down to %s, so no limit of theirs would hold; "+
			"set Delegate=cpu memory pids for this service, and for user@.service where it is a user's", strings.Join(missing, ", "), t.home)
	}
	const all = "+memory +pids +cpu"
	err = write(dir, "cgroup.subtree_control", all)
	if errors.Is(err, unix.EBUSY) && dir == filepath.Join(t.roots[""], t.home) {
		if err = t.moveOut(dir); err == nil {
			err = write(dir, "cgroup.subtree_control", all)
		}
	}
	if err != nil {
		return fmt.Errorf("hand down the cgroup controllers: %w; start the launcher as a service with Delegate=cpu memory pids", err)
	}
	return nil
}

// moveOut moves the processes of home into a group of their own: one that hands
// controllers down may hold none.
func (t *Tree) moveOut(dir string) error {
	self := filepath.Join(dir, selfGroup)
	if err := os.Mkdir(self, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("move out of the own cgroup: %w", err)
	}
	pids, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return fmt.Errorf("move out of the own cgroup: %w", err)
	}
	for pid := range strings.FieldsSeq(string(pids)) {
		// A process that has ended in between is no fault.
		if err := write(self, "cgroup.procs", pid); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("move process %s out of the own cgroup: %w", pid, err)
		}
	}
	return nil
}
