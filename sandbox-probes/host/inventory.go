// Package host takes inventory of the machine before and after hostile work: what
// a sandboxed job, or one that got out, might have changed or left.
//
// Kernel settings are looked at for the whole host. All else is looked at for the
// whole host too but kept only if it is provably of the sandbox: by a user id of a
// slot, by the folder of the run, by its control groups, or by a name that a probe
// would plant. What other work on the machine does is not listed.
package host

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Inventory is what was found, each thing by its name.
type Inventory map[string]string

// Scope says what is of the sandbox.
type Scope struct {
	Dir      string   // the run's folder; slots lie in Dir/slots
	Label    string   // the run's control groups are below groups of this name
	FirstUID uint32   // of all slots' ranges
	UIDs     uint32   // how many ids from there
	Holders  []int    // processes that may hold descriptors of attempts: ours, the engine
	Places   []string // where files are looked for; Places() unless it is a test
}

func (s Scope) owns(uid uint32) bool { return uid >= s.FirstUID && uid-s.FirstUID < s.UIDs }

// Take looks at the host. An error means that a part could not be looked at, so
// that the inventory proves nothing.
func Take(s Scope) (Inventory, error) {
	all := Inventory{}
	var errs []error
	for _, part := range []func(Inventory, Scope) error{settings, files, processes, descriptors, mounts, groups, sockets, tables} {
		errs = append(errs, part(all, s))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("take the host's inventory: %w", err)
	}
	return all, nil
}

// Changes compares two inventories, in order of names.
func Changes(before, after Inventory) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if now, ok := after[key]; !ok {
			out = append(out, key+" is gone")
		} else if now != before[key] {
			out = append(out, fmt.Sprintf("%s was %q, is %q", key, before[key], now))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[key]; !ok {
			out = append(out, fmt.Sprintf("%s is new: %q", key, after[key]))
		}
	}
	return out
}
