// Package crashpoint names the instants at which a server may die in the middle
// of something that has to survive it, so that tests can make it die there.
//
// In a normal build Reached is empty. Under the build tag `crashpoints` it kills
// (or stops) its own process when the environment names the point; nothing of
// that is in a released binary.
package crashpoint

// Point is an instant.
type Point string

// The points, in the order in which a request passes them.
const (
	// A submission, UPL-08 and API-04: slot and key are taken, no byte was read.
	SubmitBegun Point = "submit/begun"
	// The body lies in a temporary file.
	SubmitStaged Point = "submit/staged"
	// The body has its name, no row names it: an orphan.
	SubmitStored Point = "submit/stored"
	// All is said to the database but COMMIT.
	SubmitBeforeCommit Point = "submit/before-commit"
	// The job exists, the client does not know.
	SubmitCommitted Point = "submit/committed"

	// A result, STO-02: worker, status, lease and token were right.
	FinishChecked Point = "finish/checked"
	// The body lies in a temporary file.
	FinishStaged Point = "finish/staged"
	// Its digest is the one the worker declared.
	FinishVerified Point = "finish/verified"
	// The body has its name, no row names it: an orphan.
	FinishStored Point = "finish/stored"
	// All is said to the database but COMMIT.
	FinishBeforeCommit Point = "finish/before-commit"
	// The job is completed, the worker does not know.
	FinishCommitted Point = "finish/committed"

	// Inside storage, for both: the file is synced and has no name yet.
	StoreSynced Point = "store/synced"
	// It has its name, and the folder is not synced.
	StoreRenamed Point = "store/renamed"

	// The sweeper: the row says purged, the bytes are still there.
	SweepMarked Point = "sweep/marked"
	// An orphan is held and about to be removed.
	SweepHeld Point = "sweep/held"
)

// All lists every point; chaos draws from it.
func All() []Point {
	return []Point{
		SubmitBegun, SubmitStaged, SubmitStored, SubmitBeforeCommit, SubmitCommitted,
		FinishChecked, FinishStaged, FinishVerified, FinishStored, FinishBeforeCommit, FinishCommitted,
		StoreSynced, StoreRenamed, SweepMarked, SweepHeld,
	}
}
