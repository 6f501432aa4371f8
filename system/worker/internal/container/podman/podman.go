// Package podman is the container.Engine over podman's REST socket, by the
// official bindings. It is the only package that imports them.
//
// What the server cannot know of the bindings' fields it drops without a word
// (the bindings are v5, servers from 4.3 on work), so New checks the version and
// the runtime, and the self-test proves the rest from inside a container.
package podman

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/system"
	"github.com/containers/podman/v5/pkg/errorhandling"

	"glovebox/system/worker/internal/container"
)

// labelKey is the label that carries a spec's Label.
const labelKey = "glovebox.launcher"

// waitInterval is how often the server looks for a container's death. Its
// default is 250 ms; below 10 ms it fights the container's lock.
const waitInterval = 10 * time.Millisecond

// ErrRuntime refuses an engine that answers and is not the one that was configured.
var ErrRuntime = errors.New("wrong runtime")

// Engine talks to one service.
type Engine struct {
	conn    context.Context // carries the bindings' connection
	path    string
	runtime string
}

// Open connects to the service on the unix socket at path. runtime is the OCI
// runtime it must have been started with; a request cannot choose one.
func Open(ctx context.Context, path, runtime string) (*Engine, error) {
	// The connection outlives ctx, which ends it only while it is being made: a service
	// that has stopped still lets callers in, and answers nothing.
	lasting, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	conn, err := bindings.NewConnection(lasting, "unix://"+path)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		end(nil)
		return nil, fmt.Errorf("connect to the engine at %s: %w; start podman system service there", path, err)
	}
	e := &Engine{conn: conn, path: path, runtime: runtime}
	if err := e.check(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// check demands the runtime that was configured.
func (e *Engine) check(ctx context.Context) error {
	ctx, cancel := e.bind(ctx)
	defer cancel()
	info, err := system.Info(ctx, nil)
	if err != nil {
		return fmt.Errorf("ask the engine what it is: %w", err)
	}
	if got := info.Host.OCIRuntime; got == nil || got.Name != e.runtime {
		name := "none"
		if got != nil {
			name = got.Name
		}
		return fmt.Errorf("%w: the engine runs containers with %s, configured is sandbox.runtime = %q; set the runtime in the service's containers.conf", ErrRuntime, name, e.runtime)
	}
	return nil
}

// Follow implements container.Service. It holds a connection on which it never asks
// anything: the kernel closes it with the process at its other end. A service that
// ends by itself when it is idle must not be used (podman system service --time 0).
func (e *Engine) Follow(ctx context.Context) (<-chan struct{}, error) {
	var d net.Dialer
	line, err := d.DialContext(ctx, "unix", e.path)
	if err != nil {
		return nil, fmt.Errorf("connect to the engine: %w; start podman system service at its socket", err)
	}
	// After the connection: a service that takes over now is seen as another.
	if err := e.check(ctx); err != nil {
		line.Close()
		return nil, err
	}
	gone := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { line.Close() })
	go func() {
		defer close(gone)
		defer line.Close()
		defer stop()
		_, _ = line.Read(make([]byte, 1)) // ends with the service or with ctx: it says nothing
	}()
	return gone, nil
}

// bind joins the caller's cancellation to the bindings' connection.
func (e *Engine) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	joined, cancel := context.WithCancelCause(e.conn)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return joined, func() { stop(); cancel(nil) }
}

// Prepare implements container.Engine.
func (e *Engine) Prepare(ctx context.Context, spec container.Spec) (int, error) {
	ctx, cancel := e.bind(ctx)
	defer cancel()
	gen, err := translate(spec)
	if err != nil {
		return 0, err
	}
	created, err := containers.CreateWithSpec(ctx, gen, nil)
	if err != nil {
		return 0, fmt.Errorf("create container: %w", err)
	}
	if len(created.Warnings) > 0 {
		// A warning at creation is a limit the engine will not enforce.
		return 0, fmt.Errorf("the engine takes the container only in part: %q", created.Warnings)
	}
	if err := containers.ContainerInit(ctx, spec.Name, nil); err != nil {
		return 0, fmt.Errorf("initialise container: %w", err)
	}
	seen, err := containers.Inspect(ctx, spec.Name, nil)
	if err != nil {
		return 0, fmt.Errorf("look at container: %w", err)
	}
	if seen.State == nil || seen.State.Pid <= 0 {
		return 0, errors.New("look at container: it has no process after its initialisation")
	}
	return seen.State.Pid, nil
}

// Start implements container.Engine.
func (e *Engine) Start(ctx context.Context, name string) error {
	ctx, cancel := e.bind(ctx)
	defer cancel()
	if err := containers.Start(ctx, name, nil); err != nil {
		return fmt.Errorf("start container: %w", known(err))
	}
	return nil
}

// ExitCode implements container.Engine.
func (e *Engine) ExitCode(ctx context.Context, name string) (int, error) {
	ctx, cancel := e.bind(ctx)
	defer cancel()
	code, err := containers.Wait(ctx, name, new(containers.WaitOptions).WithInterval(waitInterval.String()))
	if err != nil {
		return 0, fmt.Errorf("wait for container: %w", known(err))
	}
	return int(code), nil
}

// The server refuses a removal now and then: the clean-up command of the
// container's monitor works on it at the same time ("state improper"), or a mount
// of it is still in use ("device or resource busy"). Both pass.
const (
	removeTries = 8
	removePause = 25 * time.Millisecond // grows by itself with each try
)

// Remove implements container.Engine.
func (e *Engine) Remove(ctx context.Context, name string) error {
	ctx, cancel := e.bind(ctx)
	defer cancel()
	var err error
	for try := range removeTries {
		if err = e.removeOnce(ctx, name); err == nil {
			return nil
		}
		var refused *errorhandling.ErrorModel
		if !errors.As(err, &refused) { // the server itself is not there
			break
		}
		timer := time.NewTimer(time.Duration(try+1) * removePause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("remove container: %w", errors.Join(err, context.Cause(ctx)))
		}
	}
	return fmt.Errorf("remove container: %w", err)
}

func (e *Engine) removeOnce(ctx context.Context, name string) error {
	opts := new(containers.RemoveOptions).WithForce(true).WithIgnore(true).WithVolumes(true).WithTimeout(0)
	reports, err := containers.Remove(ctx, name, opts)
	if err != nil && !isNotFound(err) {
		return err
	}
	for _, r := range reports {
		if r.Err != nil && !isNotFound(r.Err) {
			// The report carries text alone: it is the server's refusal.
			return &errorhandling.ErrorModel{Message: r.Err.Error(), ResponseCode: http.StatusInternalServerError}
		}
	}
	return nil
}

// Labelled implements container.Inventory.
func (e *Engine) Labelled(ctx context.Context, label string) ([]string, error) {
	ctx, cancel := e.bind(ctx)
	defer cancel()
	opts := new(containers.ListOptions).WithAll(true).WithFilters(map[string][]string{"label": {labelKey + "=" + label}})
	list, err := containers.List(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	names := make([]string, 0, len(list))
	for _, c := range list {
		if len(c.Names) > 0 {
			names = append(names, c.Names[0])
		} else {
			names = append(names, c.ID)
		}
	}
	return names, nil
}

func isNotFound(err error) bool {
	var model *errorhandling.ErrorModel
	return errors.As(err, &model) && model.ResponseCode == http.StatusNotFound
}

func known(err error) error {
	if isNotFound(err) {
		return fmt.Errorf("%w: %w", container.ErrUnknownContainer, err)
	}
	return err
}
