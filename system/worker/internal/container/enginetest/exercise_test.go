package enginetest_test

import (
	"testing"

	"glovebox/system/worker/internal/container/enginetest"
	"glovebox/system/worker/internal/container/seccomp"
)

func TestPodmanConforms(t *testing.T) {
	enginetest.Exercise(t, enginetest.Podman(t), enginetest.Profile(t, seccomp.Core))
}

func TestBareConforms(t *testing.T) {
	enginetest.Exercise(t, enginetest.NewBare(t), "")
}
