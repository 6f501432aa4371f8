package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"glovebox/ci/engine"
)

func TestStartAnswersAndStopLeavesNothing(t *testing.T) {
	dir, err := os.MkdirTemp("", "gbe")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s, err := engine.Start(ctx, engine.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(s.PID))); err != nil {
		t.Errorf("the service's process is not there: %v", err)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("second stop: %v", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), dir) {
		t.Errorf("a mount below %s is left", dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Errorf("the folder cannot be removed: %v", err)
	}
}

func TestStartRefusesALongFolder(t *testing.T) {
	_, err := engine.Start(t.Context(), engine.Options{Dir: "/tmp/" + strings.Repeat("x", 60)})
	if err == nil || !strings.Contains(err.Error(), "unix socket paths are short") {
		t.Fatalf("error is %v", err)
	}
}
