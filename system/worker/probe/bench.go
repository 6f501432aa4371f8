// Package probe runs single attempts in the real sandbox for the suites that try
// to break out of it. It makes them of the same parts as the launcher (spec,
// slot, seccomp policy, engine adapter) and can take one wall away at a time, to
// show who notices.
//
// It is for tests: the launcher does not import it, and nothing of it is in the
// product's programs. It exists because Go closes the sandbox's packages to
// everything outside system/worker.
package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"glovebox/ci/engine"
	"glovebox/ci/image/recipe"
	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/cgroup"
	"glovebox/system/worker/internal/container/image"
	"glovebox/system/worker/internal/container/podman"
	"glovebox/system/worker/internal/container/slot"
	"glovebox/system/worker/internal/container/slotfs"
)

// Limits are the launcher's own.
type Limits = container.Limits

// Defaults returns the launcher's default limits.
func Defaults() Limits { return container.Defaults() }

// Slots is how many slots a bench has; each has its own range of user ids.
const Slots = 4

// UIDBase is the first host id of slot 0, clear of the installed launcher's and
// of the container tests'.
const UIDBase = 800_000_000

// plainUIDs is the same of a plain bench, so that what one kind looks for on the
// host is never the other's.
const plainUIDs = UIDBase + 4*Slots*IDRange

// IDRange is the size of a slot's range, CoreUID the core's id inside it.
const (
	IDRange = container.IDRange
	CoreUID = container.CoreUID
)

// closeTimeout bounds the clean-up of one attempt.
const closeTimeout = 30 * time.Second

// Bench is a private engine with the sandbox around it.
type Bench struct {
	dir     string
	label   string
	runtime string // name or path, as the engine was started with
	service *engine.Service
	engine  *podman.Engine
	tree    *cgroup.Tree

	firstUID uint32 // of slot 0, or 0: UIDBase

	mu     sync.Mutex
	images map[string]*image.Image // by program path

	// cutting is held for writing while the engine's runtime cuts something out
	// of every container it makes, for reading by everybody else.
	cutting sync.RWMutex
}

// Open starts a bench whose state lies in a new folder below the system's
// temporary one. It needs root, podman, runc and a Go toolchain.
func Open(ctx context.Context) (*Bench, error) { return open(ctx, true) }

// OpenPlain starts a bench whose engine runs runc itself: no wall can be cut from
// its containers, and nothing stands in the way of a measurement.
func OpenPlain(ctx context.Context) (*Bench, error) { return open(ctx, false) }

func open(ctx context.Context, cutting bool) (*Bench, error) {
	dir, err := os.MkdirTemp("", "gbp")
	if err != nil {
		return nil, fmt.Errorf("make the bench's folder: %w", err)
	}
	b := &Bench{dir: dir, label: fmt.Sprintf("gbprobe%d", os.Getpid()), runtime: "runc", firstUID: plainUIDs, images: map[string]*image.Image{}}
	if err := b.open(ctx, cutting); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *Bench) open(ctx context.Context, cutting bool) error {
	// The engine's runtime resolves paths of the slot as the slot's own user.
	if err := errors.Join(os.Chmod(b.dir, 0o711), os.Mkdir(b.path("slots"), 0o711), os.Mkdir(b.path("rt"), 0o700)); err != nil {
		return fmt.Errorf("make the bench's folder: %w", err)
	}
	if cutting {
		b.runtime, b.firstUID = b.path("rt/runc"), UIDBase
		build := exec.CommandContext(ctx, "go", "build", "-o", b.runtime, "glovebox/system/worker/probe/cutruntime")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build the cutting runtime: %w\n%s", err, said)
		}
	}
	var err error
	if b.tree, err = cgroup.Detect(); err != nil {
		return err
	}
	if b.service, err = engine.Start(ctx, engine.Options{Dir: b.path("e"), Runtime: b.runtime}); err != nil {
		return err
	}
	b.engine, err = podman.Open(ctx, b.service.Socket, b.runtime)
	return err
}

func (b *Bench) path(name string) string { return filepath.Join(b.dir, name) }

// Label is the parent cgroup of every attempt and the label of every container.
func (b *Bench) Label() string { return b.label }

// EnginePID is the engine's service process.
func (b *Bench) EnginePID() int { return b.service.PID }

// Dir is the bench's folder; attempts live below Dir/slots.
func (b *Bench) Dir() string { return b.dir }

// Close stops the engine and removes everything. What it cannot remove is an
// error: nothing may outlive its attempt.
func (b *Bench) Close() error {
	var errs []error
	if b.engine != nil {
		if names, err := b.engine.Labelled(context.Background(), b.label); err != nil || len(names) > 0 {
			errs = append(errs, fmt.Errorf("containers are left: %v (%w)", names, errOr(err)))
		}
	}
	if b.service != nil {
		errs = append(errs, b.service.Stop())
	}
	if b.tree != nil {
		if names, err := b.tree.Leftovers(b.label); err != nil || len(names) > 0 {
			errs = append(errs, fmt.Errorf("cgroups are left: %v (%w)", names, errOr(err)))
		}
		errs = append(errs, b.tree.RemoveBase(b.label))
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}

var errLeft = errors.New("an attempt did not clean up")

func errOr(err error) error {
	if err != nil {
		return err
	}
	return errLeft
}

// imageOf builds, pins and verifies the image of a static program, once.
func (b *Bench) imageOf(program string) (*image.Image, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if img := b.images[program]; img != nil {
		return img, nil
	}
	built, err := recipe.Build(program, b.path(fmt.Sprintf("image-%d", len(b.images))))
	if err != nil {
		return nil, err
	}
	ref, err := image.ParseRef(built.Ref)
	if err != nil {
		return nil, err
	}
	img, err := image.Open(ref)
	if err != nil {
		return nil, err
	}
	b.images[program] = img
	return img, nil
}

// ImageRef returns the pinned reference of the program's image, as in evidence.
func (b *Bench) ImageRef(program string) (string, error) {
	img, err := b.imageOf(program)
	if err != nil {
		return "", err
	}
	return string(img.Ref.Digest), nil
}

// setCuts tells the runtime what to take out of the containers it makes from now
// on. The caller holds cutting.
func (b *Bench) setCuts(cuts []string) error {
	if len(cuts) == 0 {
		err := os.Remove(b.path("rt/cuts.json"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("restore the runtime: %w", err)
		}
		return nil
	}
	text, err := json.Marshal(cuts)
	if err != nil {
		return err
	}
	if err := os.WriteFile(b.path("rt/cuts.json"), text, 0o600); err != nil {
		return fmt.Errorf("tell the runtime what to cut: %w", err)
	}
	return nil
}

func (b *Bench) maker(a Attempt, profile string, img *image.Image) *slot.Maker {
	return &slot.Maker{
		Engine: b.engine, Tree: b.tree, Image: img, Label: b.label, UIDBase: b.uidBase(), Limits: a.Limits, Profile: profile,
		FS: slotfs.Config{
			Root: b.path("slots"), Backing: slotfs.Auto, MaxInputBytes: a.Limits.MaxInputBytes, MaxResultBytes: a.Limits.MaxResultBytes,
			ImageBytes: img.Bytes, ImageFiles: img.Files,
		},
	}
}
