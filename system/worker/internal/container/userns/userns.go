// Package userns says which ids this process has to give.
//
// A rootless launcher works in a user namespace whose root it is: id 0 is the user
// who started it, and ids from 1 on are that user's range in /etc/subuid and
// /etc/subgid. A slot's range is counted in the namespace's own numbers, so the one
// setting slots.uid_base serves both modes.
package userns

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
)

// Extent maps Size ids from Inside to Outside.
type Extent struct{ Inside, Outside, Size uint64 }

// Map is an id map of the kernel's.
type Map []Extent

// whole is the map of the first user namespace.
var whole = Map{{0, 0, 1<<32 - 1}}

// Parse reads the text of uid_map or gid_map.
func Parse(text string) (Map, error) {
	var m Map
	for line := range strings.Lines(text) {
		var e Extent
		if _, err := fmt.Sscan(line, &e.Inside, &e.Outside, &e.Size); err != nil {
			return nil, fmt.Errorf("read id map: line %q has not the form INSIDE OUTSIDE SIZE", line)
		}
		m = append(m, e)
	}
	return m, nil
}

// own reads the maps of this process once: they never change.
var own = sync.OnceValues(func() ([2]Map, error) {
	var maps [2]Map
	for i, name := range []string{"uid_map", "gid_map"} {
		text, err := os.ReadFile("/proc/self/" + name)
		if err != nil {
			return maps, fmt.Errorf("read own id map: %w", err)
		}
		if maps[i], err = Parse(string(text)); err != nil {
			return maps, err
		}
	}
	return maps, nil
})

// Inside reports whether this process lives in a user namespace of its own and not
// in the host's.
func Inside() bool {
	maps, err := own()
	return err == nil && (len(maps[0]) != 1 || maps[0][0] != whole[0])
}

// Require checks that ids from base on, size of them, are there to give: in one
// extent each for users and groups, and none of them the namespace's root.
func Require(base, size uint64) error {
	maps, err := own()
	if err != nil {
		return err
	}
	if !maps[0].covers(base, size) || !maps[1].covers(base, size) {
		return fmt.Errorf("ids %d to %d are not there in this user namespace; give the launcher's user a line with at least %d ids in /etc/subuid and in /etc/subgid, then run podman system migrate", base, base+size-1, base+size-1)
	}
	return nil
}

func (m Map) covers(base, size uint64) bool {
	for _, e := range m {
		if base > 0 && size > 0 && base >= e.Inside && base+size <= e.Inside+e.Size {
			return true
		}
	}
	return false
}

// Outside returns what the namespace's parent calls user id. That parent is the
// host, unless the launcher runs in a container itself.
func Outside(id uint64) (uint64, error) {
	maps, err := own()
	if err != nil {
		return 0, err
	}
	return maps[0].outside(id)
}

// ErrUnmapped says that an id has no meaning here.
var ErrUnmapped = errors.New("id is not mapped in this user namespace")

func (m Map) outside(id uint64) (uint64, error) {
	for _, e := range m {
		if id >= e.Inside && id-e.Inside < e.Size {
			return e.Outside + id - e.Inside, nil
		}
	}
	return 0, fmt.Errorf("%w: %d", ErrUnmapped, id)
}

// Named reports whether the outer id has a number in this namespace, and which. An
// id without one is shown as the overflow id.
func Named(outer uint64) (uint64, bool) {
	maps, err := own()
	if err != nil {
		return 0, false
	}
	for _, e := range maps[0] {
		if outer >= e.Outside && outer-e.Outside < e.Size {
			return e.Inside + outer - e.Outside, true
		}
	}
	return 0, false
}
