package enginetest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"glovebox/ci/engine"
	"glovebox/system/worker/internal/container/podman"
	"glovebox/system/worker/internal/container/seccomp"
)

// Service starts a private podman service for the test and stops it at its end.
func Service(t testing.TB) *engine.Service {
	t.Helper()
	return ServiceWith(t, engine.Options{})
}

// ServiceWith is Service with options other than the folder.
func ServiceWith(t testing.TB, o engine.Options) *engine.Service {
	t.Helper()
	dir, err := os.MkdirTemp("", "gbe")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	o.Dir = dir
	s, err := engine.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("the engine's folder cannot be removed: %v", err)
		}
	})
	return s
}

// Podman returns the real engine on a private service.
func Podman(t testing.TB) *podman.Engine {
	t.Helper()
	e, err := podman.Open(t.Context(), Service(t).Socket, "runc")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Profile writes the seccomp profile of mode to a file.
func Profile(t testing.TB, mode seccomp.Mode) string {
	t.Helper()
	policy, err := seccomp.Load()
	if err != nil {
		t.Fatal(err)
	}
	text, err := policy.Render(mode)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "profile.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
