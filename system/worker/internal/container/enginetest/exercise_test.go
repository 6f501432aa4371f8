package enginetest_test

import (
	"context"
	"testing"
	"time"

	"glovebox/ci/engine"
	"glovebox/system/worker/internal/container/enginetest"
	"glovebox/system/worker/internal/container/podman"
	"glovebox/system/worker/internal/container/seccomp"
	"glovebox/threat-model/evidence"
)

func TestPodmanConforms(t *testing.T) {
	enginetest.Exercise(t, enginetest.Podman(t), enginetest.Profile(t, seccomp.Core))
}

func TestBareConforms(t *testing.T) {
	enginetest.Exercise(t, enginetest.NewBare(t), "")
}

// The death of the service is seen at once, and so is the one that takes its place.
func TestFollowSeesTheServiceDie(t *testing.T) {
	evidence.Proves(t, "SBX-10")
	first := enginetest.Service(t)
	e, err := podman.Open(t.Context(), first.Socket, "runc")
	if err != nil {
		t.Fatal(err)
	}
	gone, err := e.Follow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	given, err := e.Follow(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	<-given
	select {
	case <-gone:
		t.Fatal("a service that lives is taken for gone")
	case <-time.After(500 * time.Millisecond): // long enough for a server that ends idle connections at once
	}
	killed := time.Now()
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	<-gone
	t.Logf("seen %s after the kill", time.Since(killed).Round(time.Microsecond))
	if _, err := e.Follow(t.Context()); err == nil {
		t.Error("a dead service is followed")
	}
	second, err := engine.Start(t.Context(), engine.Options{Dir: first.Dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := second.Stop(); err != nil {
			t.Error(err)
		}
	})
	if _, err := e.Follow(t.Context()); err != nil {
		t.Errorf("the next service: %v", err)
	}
}
