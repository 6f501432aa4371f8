package executor_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"glovebox/system/protocol"
	"glovebox/system/protocol/failure"
	"glovebox/system/worker/internal/container/verdict"
	"glovebox/system/worker/internal/executor"
	"glovebox/system/worker/internal/executor/executortest"
	"glovebox/system/worker/internal/jobs"
	"glovebox/system/worker/internal/launcher"
	"glovebox/threat-model/evidence"
)

func TestReadyNamesTheWall(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "SBX-10")
	rows := map[string]struct {
		state launcher.State
		says  string
	}{
		"ready":         {launcher.State{Phase: launcher.Ready, SlotsTotal: 2}, ""},
		"a wall is out": {launcher.State{Phase: launcher.Refusing, SlotsTotal: 2, Missing: []string{"memory", "pids"}}, "memory, pids"},
		"testing":       {launcher.State{Phase: launcher.Testing, SlotsTotal: 2}, "testing"},
		"stopping":      {launcher.State{Phase: launcher.Stopping, SlotsTotal: 2}, "stopping"},
		"unknown phase": {launcher.State{Phase: "novel", SlotsTotal: 2}, "novel"},
		"no phase":      {launcher.State{SlotsTotal: 2}, "the launcher is"},
		"fewer slots":   {launcher.State{Phase: launcher.Ready, SlotsTotal: 1}, "lower worker.slots"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := executor.NewSandboxes(executortest.Open(t, &executortest.Door{State: row.state}).Path, 2).Ready(context.Background())
			if (err == nil) != (row.says == "") || err != nil && !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, want %q", err, row.says)
			}
		})
	}
	if err := executor.NewSandboxes(filepath.Join(t.TempDir(), "none"), 1).Ready(context.Background()); err == nil {
		t.Error("a launcher that is not there is ready")
	}
}

// Through the socket and passed descriptors: an attempt, and one that first has
// to wait for a slot.
func TestAttemptThroughTheSocket(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "SBX-09")
	dir := t.TempDir()
	input, result := filepath.Join(dir, "input"), filepath.Join(dir, "result")
	var asked, released atomic.Int64
	d := &executortest.Door{State: launcher.State{Phase: launcher.Ready, SlotsTotal: 1}}
	d.Answer = func(verb launcher.Verb) (launcher.Response, []*os.File) {
		r := launcher.Response{Verb: verb}
		switch verb {
		case launcher.Acquire:
			if asked.Add(1) <= 2 {
				r.Error = &launcher.Error{Code: launcher.NoSlot, Message: "in use"}
				return r, nil
			}
			in, err := os.Create(input)
			if err != nil {
				t.Error(err)
			}
			out, err := os.OpenFile(result, os.O_RDONLY|os.O_CREATE, 0o600)
			if err != nil {
				t.Error(err)
			}
			return r, []*os.File{in, out}
		case launcher.Run:
			text, err := os.ReadFile(input)
			if err != nil {
				t.Error(err)
			}
			if err := os.WriteFile(result, []byte(strings.ToUpper(string(text))), 0o600); err != nil {
				t.Error(err)
			}
			r.Verdict = &verdict.Verdict{Kind: verdict.Exited, Result: verdict.Result{OK: true, Size: int64(len(text))}}
		case launcher.Release:
			released.Add(1)
		}
		return r, nil
	}
	executortest.Open(t, d)
	w := &wire{input: "print 1"}
	e := executor.New(executor.NewSandboxes(d.Path, 1), discard())
	got := e.Execute(context.Background(), protocol.Assignment{InputSize: 7, TimeoutSeconds: 10, MaxResultBytes: 100}, w)
	if !got.Delivered || string(w.delivered) != "PRINT 1" {
		t.Fatalf("got %+v, %q", got, w.delivered)
	}
	if asked.Load() != 3 || released.Load() != 1 {
		t.Errorf("asked for a slot %d times, released %d", asked.Load(), released.Load())
	}
}

// A launcher that refuses, or is gone in the middle, fails the attempt as the
// sandbox's fault.
func TestLauncherThatFails(t *testing.T) {
	t.Parallel()
	refuse := func(at launcher.Verb, code launcher.Code) func(launcher.Verb) (launcher.Response, []*os.File) {
		return func(verb launcher.Verb) (launcher.Response, []*os.File) {
			r := launcher.Response{Verb: verb}
			if verb == at {
				r.Error = &launcher.Error{Code: code, Message: "no"}
				return r, nil
			}
			if verb == launcher.Acquire {
				f, err := os.CreateTemp(t.TempDir(), "")
				if err != nil {
					t.Error(err)
				}
				g, err := os.Open(f.Name())
				if err != nil {
					t.Error(err)
				}
				return r, []*os.File{f, g}
			}
			return r, nil
		}
	}
	for name, answer := range map[string]func(launcher.Verb) (launcher.Response, []*os.File){
		"not ready":         refuse(launcher.Acquire, launcher.NotReady),
		"cannot be made":    refuse(launcher.Acquire, launcher.Unavailable),
		"input too large":   refuse(launcher.Run, launcher.InputTooLarge),
		"run without words": refuse("none", ""), // Run is answered without a verdict
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := executortest.Open(t, &executortest.Door{Answer: answer})
			w := &wire{input: "x"}
			got := executor.New(executor.NewSandboxes(d.Path, 1), discard()).Execute(context.Background(), protocol.Assignment{InputSize: 1, TimeoutSeconds: 10}, w)
			if got.Delivered || got.Failure.Code != failure.SandboxFailure || got.Cause == nil || w.calls != 0 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

var _ jobs.Runner = (*executor.Executor)(nil)
