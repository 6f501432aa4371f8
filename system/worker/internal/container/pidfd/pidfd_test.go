package pidfd_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/system/worker/internal/container/pidfd"
)

func open(t *testing.T, args ...string) (*exec.Cmd, *pidfd.Process) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := pidfd.Open(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill(); _ = cmd.Wait(); p.Close() })
	return cmd, p
}

func TestWaitSeesDeathAndStatusIsTheKernels(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		check  func(unix.WaitStatus) bool
	}{
		"exit 7":     {"exit 7", func(s unix.WaitStatus) bool { return s.Exited() && s.ExitStatus() == 7 }},
		"forged 137": {"exit 137", func(s unix.WaitStatus) bool { return s.Exited() && s.ExitStatus() == 137 }},
		"signal 9":   {"kill -9 $$", func(s unix.WaitStatus) bool { return s.Signaled() && s.Signal() == unix.SIGKILL }},
		"signal 11":  {"ulimit -c 0; kill -11 $$", func(s unix.WaitStatus) bool { return s.Signaled() && s.Signal() == unix.SIGSEGV }},
		"success":    {"exit 0", func(s unix.WaitStatus) bool { return s.Exited() && s.ExitStatus() == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, p := open(t, "sh", "-c", c.script)
			if err := p.Wait(t.Context()); err != nil {
				t.Fatalf("wait: %v", err)
			}
			if !p.Dead() {
				t.Error("dead process is not seen as dead")
			}
			if _, err := p.StatusWithin(t.Context(), 20*time.Millisecond); !errors.Is(err, pidfd.ErrNoStatus) {
				t.Errorf("before the reaping: error %v, wanted ErrNoStatus", err)
			}
			_ = cmd.Wait() // the parent reaps
			status, err := p.StatusWithin(t.Context(), 5*time.Second)
			if err != nil {
				t.Fatalf("status: %v", err)
			}
			if !c.check(status) {
				t.Errorf("status %#x", uint32(status))
			}
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	_, p := open(t, "sleep", "60")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("wait: %v", err)
	}
	if p.Dead() {
		t.Fatal("living process is seen as dead")
	}
}

func TestKillEndsAWaiter(t *testing.T) {
	_, p := open(t, "sleep", "60")
	done := make(chan error, 1)
	go func() { done <- p.Wait(context.Background()) }()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Errorf("killing the dead: %v", err)
	}
}

func TestWaitEitherSeesTheFirstDeath(t *testing.T) {
	_, living := open(t, "sleep", "300")
	for name, first := range map[string]bool{"the first": true, "the other": false} {
		t.Run(name, func(t *testing.T) {
			_, dying := open(t, "sleep", "300")
			p, other := dying, living
			if !first {
				p, other = living, dying
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if err := p.WaitEither(ctx, other); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("while both live: %v", err)
			}
			if err := dying.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := p.WaitEither(t.Context(), other); err != nil || !dying.Dead() || living.Dead() {
				t.Errorf("after a death: %v", err)
			}
		})
	}
}

func TestOpenParent(t *testing.T) {
	_, p := open(t, "sleep", "300")
	parent, err := p.OpenParent()
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	if parent.PID() != os.Getpid() || parent.Dead() {
		t.Errorf("the parent is %d, dead %v", parent.PID(), parent.Dead())
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if gone, err := p.OpenParent(); err == nil {
		gone.Close()
		t.Error("a dead process has a parent")
	}
}
