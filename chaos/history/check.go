package history

import "time"

// Invariant is a named rule over a record.
type Invariant struct {
	Name        string
	Requirement string // the id it stands for
	Says        string // in words
	Check       func(Record) []Violation
}

// Invariants lists every rule but linearizability, in the order of seed 000 §5.
func Invariants() []Invariant { return invariants }

// Check applies every invariant, and then judges each job's history against the
// model, at most timeout long for each job. No violations is the good end.
func Check(record Record, timeout time.Duration) []Violation {
	var found []Violation
	for _, invariant := range invariants {
		found = append(found, invariant.Check(record)...)
	}
	return append(found, Linearizable(record, timeout)...)
}
