package slot_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/enginetest"
	"glovebox/system/worker/internal/container/slot"
	"glovebox/threat-model/evidence"
)

// counted notes what an engine was asked.
type counted struct {
	enginetest.Engine
	prepared, started map[string]int
	backstop          time.Duration
}

func (e *counted) Prepare(ctx context.Context, spec container.Spec) (int, error) {
	e.prepared[spec.Name]++
	e.backstop = spec.Backstop
	return e.Engine.Prepare(ctx, spec)
}

func (e *counted) Start(ctx context.Context, name string) error {
	e.started[name]++
	return e.Engine.Start(ctx, name)
}

// A prepared attempt has nothing in it, waits, takes its input in place, and is used
// once.
func TestPreparedAhead(t *testing.T) {
	evidence.Proves(t, "JOB-10", "SBX-15")
	engine := &counted{Engine: enginetest.Podman(t), prepared: map[string]int{}, started: map[string]int{}}
	m := enginetest.Maker(t, engine, enginetest.Scripted(t), nil)
	a, err := m.Acquire(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAttempt(t, a) })
	if err := a.Fit(); err == nil {
		t.Error("an attempt is fit before it is prepared")
	}
	if err := a.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Fit(); err != nil {
		t.Errorf("prepared: %v", err)
	}
	if lives := m.Limits.Timeout + slot.MaxWait; engine.backstop <= lives {
		t.Errorf("the engine ends it after %s, which is within its wait and its run of %s", engine.backstop, lives)
	}
	for name, file := range map[string]*os.File{"input": a.Input(), "result": a.Result()} {
		if info, err := file.Stat(); err != nil || info.Size() != 0 {
			t.Errorf("%s of a prepared attempt: %d bytes, %v", name, info.Size(), err)
		}
	}
	if _, err := a.Input().WriteString("copy\nin place"); err != nil {
		t.Fatal(err)
	}
	v := run(t, a)
	if content, err := io.ReadAll(a.Result()); !v.Succeeded() || err != nil || string(content) != "in place" {
		t.Errorf("%+v, result %q, %v", v, content, err)
	}
	if a.DeathSeen().IsZero() {
		t.Error("the death was not seen")
	}
	if engine.prepared[a.Name] != 1 || engine.started[a.Name] != 1 {
		t.Errorf("prepared %d times, started %d times", engine.prepared[a.Name], engine.started[a.Name])
	}
	if _, err := a.Run(t.Context()); !errors.Is(err, slot.ErrUsed) {
		t.Errorf("a second run: %v", err)
	}
	if err := a.Prepare(t.Context()); !errors.Is(err, slot.ErrUsed) {
		t.Errorf("prepared for a second run: %v", err)
	}
}

// Whoever of a waiting container dies is noticed, and the attempt is carried out
// all the same, in a container made anew.
func TestDeathWhileWaiting(t *testing.T) {
	evidence.Proves(t, "SBX-12")
	podman := enginetest.Podman(t)
	for _, victim := range []string{"its process", "its monitor"} {
		t.Run(victim, func(t *testing.T) {
			engine := &counted{Engine: podman, prepared: map[string]int{}, started: map[string]int{}}
			m := enginetest.Maker(t, engine, enginetest.Scripted(t), nil)
			a, err := m.Acquire(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { closeAttempt(t, a) })
			if err := a.Prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := a.AwaitUnfit(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("while all is well: %v", err)
			}
			pid := waiting(t, m, a.Name)
			if victim == "its monitor" {
				pid = parentOf(t, pid)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := a.AwaitUnfit(t.Context()); !errors.Is(err, slot.ErrDied) {
				t.Errorf("after the death: %v", err)
			}
			if err := a.Fit(); !errors.Is(err, slot.ErrDied) {
				t.Errorf("fit: %v", err)
			}
			if _, err := a.Input().WriteString("copy\nafter all"); err != nil {
				t.Fatal(err)
			}
			if v := run(t, a); !v.Succeeded() {
				t.Errorf("verdict is %+v", v)
			}
			if engine.prepared[a.Name] != 2 || engine.started[a.Name] != 1 {
				t.Errorf("prepared %d times, started %d times", engine.prepared[a.Name], engine.started[a.Name])
			}
		})
	}
}

// waiting returns the process that waits in the attempt's cgroup.
func waiting(t *testing.T, m *slot.Maker, name string) int {
	t.Helper()
	pids, err := m.Tree.Group(enginetest.Label, name).Core()
	if err != nil || len(pids) != 1 {
		t.Fatalf("processes that wait: %v, %v", pids, err)
	}
	return pids[0]
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "PPid:")
	parent, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return parent
}
