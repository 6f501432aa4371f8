package enginetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/cgroup"
)

// Bare is an engine without walls: it starts the core in a chroot, under the
// spec's user, cgroup and file size limit, and isolates nothing else. It is for
// tests of what stands around an engine, and fails on command.
type Bare struct {
	tree *cgroup.Tree

	mu    sync.Mutex
	boxes map[string]*box
	gone  chan struct{} // closed by Leave
	away  bool

	// FailPrepare and FailRemove, if set, are returned by these methods.
	FailPrepare, FailRemove error
}

type box struct {
	label  string
	cmd    *exec.Cmd
	gate   io.WriteCloser // closing it lets the core run
	mounts []string
	done   chan struct{}
	code   int
}

// NewBare returns an empty engine.
func NewBare(t testing.TB) *Bare {
	t.Helper()
	tree, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	return &Bare{tree: tree, boxes: map[string]*box{}, gone: make(chan struct{})}
}

// SetFailures sets FailPrepare and FailRemove while the engine is in use.
func (e *Bare) SetFailures(prepare, remove error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.FailPrepare, e.FailRemove = prepare, remove
}

// errAway is what an engine answers that is not there.
var errAway = errors.New("connection refused")

// Leave ends the engine's service; its containers live on.
func (e *Bare) Leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.away {
		e.away = true
		close(e.gone)
	}
}

// Return starts the service that left again.
func (e *Bare) Return() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.away {
		e.away, e.gone = false, make(chan struct{})
	}
}

// Follow implements container.Service.
func (e *Bare) Follow(ctx context.Context) (<-chan struct{}, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.away {
		return nil, errAway
	}
	gone, left := make(chan struct{}), e.gone
	go func() {
		defer close(gone)
		select {
		case <-left:
		case <-ctx.Done():
		}
	}()
	return gone, nil
}

// waitScript enters the cgroups, waits for the gate and becomes the core; the
// process stays the same throughout.
const waitScript = `ids=$1 root=$2 n=$3; shift 3
while [ "$n" -gt 0 ]; do echo $$ > "$1/cgroup.procs" || exit 125; shift; n=$((n-1)); done
read -r go
exec chroot --groups= --userspec="$ids" "$root" "$@"`

// Prepare implements container.Engine.
func (e *Bare) Prepare(_ context.Context, spec container.Spec) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.away {
		return 0, errAway
	}
	if e.FailPrepare != nil {
		return 0, e.FailPrepare
	}
	b := &box{label: spec.Label, done: make(chan struct{})}
	e.boxes[spec.Name] = b
	for _, m := range spec.Mounts {
		if m.Type != "bind" {
			continue
		}
		if err := unix.Mount(m.Source, spec.Rootfs+m.Destination, "", unix.MS_BIND, ""); err != nil {
			return 0, fmt.Errorf("bind %s: %w", m.Destination, err)
		}
		b.mounts = append(b.mounts, spec.Rootfs+m.Destination)
	}
	dirs, err := e.tree.Enter(spec.CgroupParent + "/bare-" + spec.Name)
	if err != nil {
		return 0, err
	}
	ids := fmt.Sprintf("%d:%d", spec.IDMap.Host+spec.UID, spec.IDMap.Host+spec.GID)
	args := []string{"-c", waitScript, "bare", ids, spec.Rootfs, strconv.Itoa(len(dirs))}
	b.cmd = exec.Command("sh", append(append(args, dirs...), spec.Command...)...)
	b.cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	if b.gate, err = b.cmd.StdinPipe(); err != nil {
		return 0, err
	}
	if err := b.cmd.Start(); err != nil {
		return 0, err
	}
	go b.wait()
	pid := b.cmd.Process.Pid
	for _, r := range spec.Rlimits {
		if which, ok := bareLimits[r.Name]; ok {
			if err := unix.Prlimit(pid, which, &unix.Rlimit{Cur: r.Value, Max: r.Value}, nil); err != nil {
				return 0, err
			}
		}
	}
	return pid, awaitInside(e.tree.Group("/", spec.CgroupParent), pid, b.done)
}

// bareLimits are the limits that Bare sets: those a core meets by itself.
var bareLimits = map[string]int{"fsize": unix.RLIMIT_FSIZE, "as": unix.RLIMIT_AS}

// awaitInside returns once the script has entered its cgroups.
func awaitInside(g *cgroup.Group, pid int, done <-chan struct{}) error {
	for {
		if held, err := g.Holds(pid); err != nil || held {
			return err
		}
		select {
		case <-done:
			return errors.New("the core's process ended before its start")
		default:
		}
	}
}

func (b *box) wait() {
	defer close(b.done)
	err := b.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status := exit.Sys().(syscall.WaitStatus)
		if b.code = status.ExitStatus(); status.Signaled() {
			b.code = 128 + int(status.Signal())
		}
	}
}

func (e *Bare) find(name string) (*box, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.boxes[name]
	if b == nil || b.cmd == nil {
		return nil, fmt.Errorf("%s: %w", strconv.Quote(name), container.ErrUnknownContainer)
	}
	return b, nil
}

// Start implements container.Engine.
func (e *Bare) Start(_ context.Context, name string) error {
	b, err := e.find(name)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(b.gate, "go\n"); err != nil {
		return err
	}
	// Where the core ends at once, its waiter has closed the gate already.
	if err := b.gate.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// ExitCode implements container.Engine.
func (e *Bare) ExitCode(ctx context.Context, name string) (int, error) {
	b, err := e.find(name)
	if err != nil {
		return 0, err
	}
	select {
	case <-b.done:
		return b.code, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Remove implements container.Engine.
func (e *Bare) Remove(ctx context.Context, name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.away {
		return errAway
	}
	if e.FailRemove != nil {
		return e.FailRemove
	}
	b := e.boxes[name]
	if b == nil {
		return nil
	}
	if b.cmd != nil && b.cmd.Process != nil {
		_ = b.cmd.Process.Kill()
		<-b.done
	}
	for _, m := range b.mounts {
		if err := unix.Unmount(m, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	delete(e.boxes, name)
	return nil
}

// Labelled implements container.Inventory.
func (e *Bare) Labelled(_ context.Context, label string) ([]string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.away {
		return nil, errAway
	}
	var names []string
	for name, b := range e.boxes {
		if b.label == label {
			names = append(names, name)
		}
	}
	return names, nil
}
