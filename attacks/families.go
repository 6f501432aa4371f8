// Package attacks holds the cases: one file a threat family, each a hostile client
// of the running system. harness/ says what a case is; README.md how to add one.
package attacks

import (
	"slices"

	"glovebox/attacks/harness"
)

// Families lists every family, in the order in which they are told.
var Families = slices.Concat(front, inside)

// join makes one list of the cases of a family that lie in several files.
func join(parts ...[]harness.Case) []harness.Case {
	var all []harness.Case
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}
