package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"glovebox/system/worker/internal/container/cgroup"
	"glovebox/system/worker/internal/container/image"
	"glovebox/system/worker/internal/container/podman"
)

// Host is an installed engine, as a host of another kind has one.
type Host struct {
	Dir     string // of the bench's state, made; the core's user may pass through
	Socket  string // the engine's
	Runtime string // the engine's, by name
	UIDBase uint32 // first id of slot 0, in this process's own numbers
}

// Attach makes a bench on a host's own engine, in whatever mode that is: rootful, or
// rootless inside the engine's user namespace. No wall can be cut from its containers
// by the runtime.
func Attach(ctx context.Context, h Host) (*Bench, error) {
	b := &Bench{dir: h.Dir, label: fmt.Sprintf("gbprobe%d", os.Getpid()), firstUID: h.UIDBase, images: map[string]*image.Image{}}
	err := errors.Join(os.MkdirAll(filepath.Join(h.Dir, "slots"), 0o711), os.Chmod(h.Dir, 0o711))
	if err != nil {
		return nil, fmt.Errorf("make the bench's folder: %w", err)
	}
	if b.tree, err = cgroup.Detect(); err != nil {
		return nil, err
	}
	if b.engine, err = podman.Open(ctx, h.Socket, h.Runtime); err != nil {
		return nil, err
	}
	return b, nil
}

// uidBase is the first id of slot 0.
func (b *Bench) uidBase() uint32 {
	if b.firstUID != 0 {
		return b.firstUID
	}
	return UIDBase
}
