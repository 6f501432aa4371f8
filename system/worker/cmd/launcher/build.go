package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"glovebox/system/worker/internal/container/cgroup"
	"glovebox/system/worker/internal/container/image"
	"glovebox/system/worker/internal/container/podman"
	"glovebox/system/worker/internal/container/seccomp"
	"glovebox/system/worker/internal/container/selftest"
	"glovebox/system/worker/internal/container/slot"
	"glovebox/system/worker/internal/container/slotfs"
	"glovebox/system/worker/internal/launcher/service"
)

// engineWait is how long a start waits for an engine that starts beside it.
const engineWait = 30 * time.Second

// build makes a launcher of its settings: everything is opened and verified, and
// nothing has been started.
func build(ctx context.Context, s *settings, log *slog.Logger, registry prometheus.Registerer) (*service.Service, error) {
	limits, err := s.limits()
	if err != nil {
		return nil, err
	}
	name, err := s.name()
	if err != nil {
		return nil, err
	}
	core, err := openImage(s.Sandbox.Image)
	if err != nil {
		return nil, fmt.Errorf("sandbox.image: %w", err)
	}
	probe, err := openImage(s.SelfTest.Image)
	if err != nil {
		return nil, fmt.Errorf("selftest.image: %w", err)
	}
	tree, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	profiles, err := writeProfiles(s.Slots.Root)
	if err != nil {
		return nil, err
	}
	engine, err := openEngine(ctx, s, log)
	if err != nil {
		return nil, err
	}
	slots := int(s.Sandbox.Slots)
	maker := &slot.Maker{
		Engine: engine, Tree: tree, Image: core, Label: name, UIDBase: uint32(s.Slots.UIDBase), Limits: limits, Profile: profiles.Core,
		FS: slotfs.Config{
			Root: s.Slots.Root, Backing: slotfs.Backing(s.Slots.Backing), MaxInputBytes: limits.MaxInputBytes,
			MaxResultBytes: limits.MaxResultBytes, ImageBytes: core.Bytes, ImageFiles: core.Files,
		},
	}
	tester := &selftest.Tester{Maker: *maker, Probe: probe, Profiles: profiles, Slot: slots} // one beyond the pool's
	return service.New(
		service.Config{Socket: s.Listen.Socket, PeerUID: uint32(s.Listen.PeerUID), Slots: slots, Warm: s.warm()},
		maker, engine, tester, log, service.NewMetrics(registry)), nil
}

func openImage(text string) (*image.Image, error) {
	ref, err := image.ParseRef(text)
	if err != nil {
		return nil, err
	}
	return image.Open(ref)
}

// openEngine waits a while for an engine that is not there yet, or whose service has
// died and left its socket. An engine that answers and is the wrong one is an error
// at once.
func openEngine(ctx context.Context, s *settings, log *slog.Logger) (*podman.Engine, error) {
	waiting, cancel := context.WithTimeout(ctx, engineWait)
	defer cancel()
	said := false
	for {
		engine, err := podman.Open(waiting, s.Engine.Socket, s.Sandbox.Runtime)
		if err == nil || errors.Is(err, podman.ErrRuntime) {
			return engine, err
		}
		if !said {
			log.Warn("waiting for the engine", "engine_socket", s.Engine.Socket, "at_most", engineWait.String(), "error", err)
			said = true
		}
		timer := time.NewTimer(100 * time.Millisecond)
		select {
		case <-timer.C:
		case <-waiting.Done():
			timer.Stop()
			return nil, fmt.Errorf("engine.socket: no engine answers at %s; start podman system service there: %w", s.Engine.Socket, err)
		}
	}
}

// writeProfiles renders the seccomp profiles into files for the engine to read.
func writeProfiles(root string) (selftest.Profiles, error) {
	policy, err := seccomp.Load()
	if err != nil {
		return selftest.Profiles{}, err
	}
	dir := filepath.Join(root, ".profiles")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return selftest.Profiles{}, fmt.Errorf("write seccomp profiles: %w", err)
	}
	var p selftest.Profiles
	for _, f := range []struct {
		path   *string
		name   string
		policy seccomp.Policy
		mode   seccomp.Mode
	}{{&p.Core, "core", policy, seccomp.Core}, {&p.Probe, "probe", policy, seccomp.Probe}, {&p.Tasks, "tasks", policy.With("clone"), seccomp.Probe}} {
		text, err := f.policy.Render(f.mode)
		if err != nil {
			return selftest.Profiles{}, err
		}
		// The name follows from the content: another version of this program, asked
		// to check or to test, changes nothing under one that serves.
		sum := sha256.Sum256(text)
		*f.path = filepath.Join(dir, f.name+"-"+hex.EncodeToString(sum[:8])+".json")
		if err := replaceFile(*f.path, text); err != nil {
			return selftest.Profiles{}, fmt.Errorf("write seccomp profiles: %w", err)
		}
	}
	return p, nil
}

// replaceFile puts a whole file in place: a reader sees the old one or the new.
func replaceFile(path string, content []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
