package podman_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"glovebox/system/worker/internal/container/enginetest"
	"glovebox/system/worker/internal/container/podman"
	"glovebox/threat-model/evidence"
)

// A service that lets callers in and answers nothing, as one that was stopped, keeps
// nobody longer than the context says; that context does not end what it has opened.
func TestOpenWaitsNoLongerThanItMay(t *testing.T) {
	evidence.Proves(t, "SBX-10")
	mute := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", mute)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	opened := make(chan error, 1)
	go func() {
		_, err := podman.Open(ctx, mute, "runc")
		opened <- err
	}()
	select {
	case err := <-opened:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a mute engine is opened: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a mute engine is waited for without end")
	}

	opening, done := context.WithCancel(t.Context())
	e, err := podman.Open(opening, enginetest.Service(t).Socket, "runc")
	if err != nil {
		t.Fatal(err)
	}
	done()
	if _, err := e.Labelled(t.Context(), "nobody"); err != nil {
		t.Errorf("the engine went with the context of its opening: %v", err)
	}
}
