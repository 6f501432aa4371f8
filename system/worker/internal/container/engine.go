package container

import (
	"context"
	"errors"
)

// Engine makes containers of specs, each used once. All methods are safe for
// concurrent use. enginetest.Exercise is its conformance suite.
type Engine interface {
	// Prepare creates the container and initialises it: namespaces, mounts and
	// limits are in place, and the returned process waits for Start. After an error
	// nothing of the container is left, or Remove of its name clears it.
	Prepare(ctx context.Context, spec Spec) (pid int, err error)
	// Start lets the prepared process run the spec's command.
	Start(ctx context.Context, name string) error
	// ExitCode waits for the death of the container's process and returns the
	// engine's number for it, where 128+n may be signal n or a plain exit: use it
	// only where the kernel does not tell.
	ExitCode(ctx context.Context, name string) (int, error)
	// Remove kills what still runs and removes the container and its record. An
	// unknown name is no error.
	Remove(ctx context.Context, name string) error
}

// Inventory finds containers by the label of their spec, for the clean-up after
// a launcher's death.
type Inventory interface {
	// Labelled returns the names of all containers, running or not, with label.
	Labelled(ctx context.Context, label string) ([]string, error)
}

// Service is the process behind an engine. It may die and be started again, and what
// it was in the middle of is then left half done.
type Service interface {
	// Follow returns a channel that is closed when the service that answers now has
	// gone, or when ctx is done. What is asked of the engine while the channel is open
	// was answered by that service. An error says that none answers, or a wrong one.
	Follow(ctx context.Context) (gone <-chan struct{}, err error)
}

// ErrUnknownContainer is what Start and ExitCode wrap for a name that is not
// there.
var ErrUnknownContainer = errors.New("no such container")
