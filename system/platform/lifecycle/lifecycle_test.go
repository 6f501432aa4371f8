package lifecycle_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"glovebox/system/platform/lifecycle"
	"glovebox/threat-model/evidence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func untilDone(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func TestOnePartsEndStopsAll(t *testing.T) {
	boom := errors.New("boom")
	err := lifecycle.Run(context.Background(), quiet, time.Minute,
		lifecycle.Part{Name: "listener", Run: untilDone},
		lifecycle.Part{Name: "loop", Run: func(context.Context) error { return boom }})
	if !errors.Is(err, boom) || !strings.Contains(err.Error(), "loop: ") || strings.Contains(err.Error(), "listener") {
		t.Fatalf("got %v", err)
	}
}

func TestSignalStopsInOrder(t *testing.T) {
	evidence.Proves(t, "REL-05")
	ctx, cancel := lifecycle.SignalContext(context.Background())
	defer cancel()
	started := make(chan struct{})
	finished := false
	done := make(chan error, 1)
	go func() {
		done <- lifecycle.Run(ctx, quiet, time.Minute, lifecycle.Part{Name: "work", Run: func(ctx context.Context) error {
			close(started)
			<-ctx.Done()
			finished = true // in-flight work ends before the process does
			return nil
		}})
	}()
	<-started
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || !finished {
		t.Fatalf("got %v, finished %v", err, finished)
	}
}

func TestAPartThatDoesNotStopIsNamed(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := lifecycle.Run(ctx, quiet, time.Millisecond, lifecycle.Part{Name: "stuck", Run: func(context.Context) error { <-release; return nil }})
	if err == nil || !strings.Contains(err.Error(), "stuck did not stop") {
		t.Fatalf("got %v", err)
	}
}
