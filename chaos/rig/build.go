package rig

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed skewed_clock.txt
var skewedClock []byte

// The environment that the programs built here obey.
const (
	CrashAtEnv = "GLOVEBOX_CRASH_AT"
	CrashSkip  = "GLOVEBOX_CRASH_SKIP"
	CrashHow   = "GLOVEBOX_CRASH_HOW"
	SkewEnv    = "GLOVEBOX_CLOCK_SKEW"
)

// clockFile is the one file that the overlay replaces.
const clockFile = "system/platform/clock/clock.go"

// buildPrograms builds server and worker with crash points and a clock that can be
// set wrong, below dir, and returns them as local.Options wants them. They are the
// released programs in all else, and act like them until the environment says
// otherwise.
func buildPrograms(ctx context.Context, root, dir string) (map[string]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the programs: %w", err)
	}
	overlayFile, err := writeOverlay(root, dir)
	if err != nil {
		return nil, err
	}
	programs := make(map[string]string)
	for name, pkg := range map[string]string{"glovebox-server": "./system/server/cmd/server", "glovebox-worker": "./system/worker/cmd/worker"} {
		path := filepath.Join(dir, name)
		_, err := output(ctx, root, []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-overlay", overlayFile, "-tags", "crashpoints", "-o", path, pkg)
		if err != nil {
			return nil, err
		}
		programs[name] = path
	}
	return programs, nil
}

// writeOverlay writes the clock that can be wrong and the file that puts it in the
// place of the right one, into dir, and returns the latter's path.
func writeOverlay(root, dir string) (string, error) {
	replacement := filepath.Join(dir, "clock.go")
	if err := os.WriteFile(replacement, skewedClock, 0o600); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(root, clockFile)); err != nil {
		return "", fmt.Errorf("the clock that the overlay replaces: %w", err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, clockFile): replacement}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, overlay, 0o600)
}

// buildImage makes an image of the core that copies its input, waits first when
// the input says so, and returns the reference.
func buildImage(ctx context.Context, root, dir string) (string, error) {
	core := filepath.Join(dir, "acts")
	if _, err := output(ctx, root, nil, "gcc", "-static", "-O1", "-Wall", "-Werror", "-pthread", "-o", core, "system/e2e/cores/acts.c"); err != nil {
		return "", err
	}
	said, err := output(ctx, root, nil, "go", "run", "./ci/image", "--binary", core, "--out", filepath.Join(dir, "image"))
	if err != nil {
		return "", err
	}
	var built struct {
		Ref string `json:"ref"`
	}
	if err := json.Unmarshal(said, &built); err != nil || built.Ref == "" {
		return "", fmt.Errorf("the image builder said %q (%w)", said, err)
	}
	return built.Ref, nil
}

func output(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}
