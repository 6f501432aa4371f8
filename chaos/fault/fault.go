// Package fault is what can break: one file a family, each fault with what it
// needs, how it is done and how it is undone. README.md says how to add one.
package fault

import (
	"context"
	"math/rand/v2"
	"time"

	"glovebox/chaos/rig"
	"glovebox/chaos/traffic"
)

// Fault is one thing that breaks once. Faults are not run side by side on one rig
// unless the runner says so, and a Heal is called after each Inject, also after one
// that failed.
type Fault interface {
	// String says in a few words what happens to whom.
	String() string
	// Available returns nil, or what this host lacks for it.
	Available(*rig.Rig) error
	// Inject breaks it and returns when it is broken.
	Inject(context.Context, *Scene) error
	// Hold is how long it stays broken.
	Hold() time.Duration
	// Heal mends it and returns when all that was stopped was started again. It does
	// not wait for the system to have recovered: that is measured by the runner.
	Heal(context.Context, *Scene) error
}

// Restarter is a fault whose repair starts processes, which may need what other
// faults have spoilt.
type Restarter interface{ startsProcesses() }

// Scene is where a fault happens.
type Scene struct {
	*rig.Rig
	// Bystander is a user of the fault's own, for faults that need a certain job.
	Bystander *traffic.Client
	Random    *rand.Rand
	// Report notes an answer of the system that is a violation by itself.
	Report func(rule, job, text string)
}

// Kind is a way in which things break, of which each fault is one instance.
type Kind struct {
	Name         string // as CASE= selects it
	Family       string // faults of one family may touch the same thing
	Alone        bool   // it needs the rest of the system whole
	GoesOn       bool   // every server must still take jobs and give their results while it lasts
	Title        string // as the report calls it
	Requirements []string
	Threats      []string
	// Make draws an instance: whom it hits, where, for how long.
	Make func(*rand.Rand, *rig.Rig) Fault
}

// Kinds lists every kind in the order in which a round of all goes through them.
func Kinds() []Kind {
	var all []Kind
	for _, family := range []struct {
		name  string
		alone bool
		kinds []Kind
	}{
		// All that ends processes is one family: two must not start the same one again.
		{"process", false, processKinds()}, {"process", true, crashKinds()}, {"process", false, databaseKinds()}, {"process", false, engineKinds()},
		{"process", true, clockKinds()}, {"process", true, operatorKinds()}, {"network", false, networkKinds()}, {"disk", false, diskKinds()}, {"damage", true, damageKinds()},
	} {
		for _, k := range family.kinds {
			k.Family, k.Alone, k.Threats = family.name, family.alone, threatsOf(k.Name)
			all = append(all, k)
		}
	}
	return all
}

// between draws a duration.
func between(random *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(random.Int64N(int64(high-low)+1))
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }
