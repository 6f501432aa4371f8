package service_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"glovebox/system/worker/internal/container/enginetest"
	"glovebox/system/worker/internal/container/podman"
	"glovebox/system/worker/internal/container/seccomp"
	"glovebox/system/worker/internal/container/slot"
	"glovebox/system/worker/internal/container/slotfs"
	"glovebox/system/worker/internal/launcher/service"
	"glovebox/threat-model/evidence"
)

func itoa(n int) string { return strconv.Itoa(n) }

// A launcher dies by SIGKILL with one attempt running and one merely acquired;
// the next one removes both before it serves.
func TestLauncherKilledInMidRun(t *testing.T) {
	evidence.Proves(t, "SBX-12")
	for _, backing := range []slotfs.Backing{slotfs.Tmpfs, slotfs.Loop} {
		t.Run(string(backing), func(t *testing.T) {
			service := enginetest.Service(t)
			engine, err := podman.Open(t.Context(), service.Socket, "runc")
			if err != nil {
				t.Fatal(err)
			}
			m := enginetest.Maker(t, engine, enginetest.Scripted(t), nil)
			m.FS.Backing = backing
			dead := exec.Command(os.Args[0], "-test.run=^TestAsLauncher$")
			dead.Env = append(os.Environ(), "GLOVEBOX_TEST_ENGINE="+service.Socket, "GLOVEBOX_TEST_ROOT="+m.FS.Root,
				"GLOVEBOX_TEST_IMAGE="+m.Image.Ref.String(), "GLOVEBOX_TEST_LABEL="+m.Label, "GLOVEBOX_TEST_BACKING="+string(backing))
			dead.Stderr = os.Stderr
			if err := dead.Start(); err != nil {
				t.Fatal(err)
			}
			pid := enginetest.AwaitAnyCore(m.Tree)
			if err := dead.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = dead.Wait()
			if _, err := os.Stat("/proc/" + itoa(pid)); err != nil {
				t.Fatalf("the core died with its launcher, so there is nothing to clean: %v", err)
			}
			if left, err := filepath.Glob(m.FS.Root + "/a-*"); err != nil || len(left) < 2 {
				t.Fatalf("left by the dead launcher: %v, %v", left, err)
			}
			b := startWith(t, engine, m, 1, uint32(os.Getuid()))
			if _, err := os.Stat("/proc/" + itoa(pid)); !os.IsNotExist(err) {
				t.Errorf("the core still lives: %v", err)
			}
			b.gone(t)
			if names, err := engine.Labelled(t.Context(), enginetest.Label); err != nil || len(names) > 0 {
				t.Errorf("containers are left: %v, %v", names, err)
			}
		})
	}
}

// TestAsLauncher is the process that is killed in TestLauncherKilledInMidRun and
// proves nothing by itself.
func TestAsLauncher(t *testing.T) {
	socket := os.Getenv("GLOVEBOX_TEST_ENGINE")
	if socket == "" {
		return
	}
	engine, err := podman.Open(t.Context(), socket, "runc")
	if err != nil {
		t.Fatal(err)
	}
	m := enginetest.MakerAt(t, engine, os.Getenv("GLOVEBOX_TEST_IMAGE"), os.Getenv("GLOVEBOX_TEST_ROOT"), os.Getenv("GLOVEBOX_TEST_LABEL"))
	m.FS.Backing = slotfs.Backing(os.Getenv("GLOVEBOX_TEST_BACKING"))
	m.Limits.Timeout = 5 * time.Minute
	m.Profile = enginetest.Profile(t, seccomp.Core)
	if _, err := m.Acquire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	a, err := m.Acquire(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Input().WriteString("loop"); err != nil {
		t.Fatal(err)
	}
	_, _ = a.Run(t.Context())
}

// What appears under the launcher's name although it made no such attempt is removed
// while it serves, within the stated time and whatever the worker asks meanwhile; an
// attempt of its own is not touched.
func TestSweepRemovesWhatNobodyAnswersFor(t *testing.T) {
	evidence.Proves(t, "SBX-12")
	bare := enginetest.NewBare(t)
	b := start(t, bare, 1, nil)
	own := b.acquire(t, "copy\nx")
	a, err := b.maker.Acquire(t.Context(), 3) // past the pool: nobody answers for it
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.walls.takes.Store(int64(time.Second / 2))
	asking, enough := context.WithCancel(t.Context())
	var askers sync.WaitGroup
	defer askers.Wait()
	defer enough()
	for range 3 { // one self-test after the other, with no pause between
		askers.Go(func() {
			for asking.Err() == nil {
				_, _ = b.client.SelfTest(asking)
			}
		})
	}
	planted := time.Now()
	for left := 2; left > 1; time.Sleep(20 * time.Millisecond) {
		folders, err := filepath.Glob(b.maker.FS.Root + "/a-*")
		if err != nil {
			t.Fatal(err)
		}
		groups, err := b.maker.Tree.Leftovers(enginetest.Label)
		if err != nil {
			t.Fatal(err)
		}
		containers, err := bare.Labelled(t.Context(), enginetest.Label)
		if err != nil {
			t.Fatal(err)
		}
		left = max(len(folders), len(groups), len(containers)+1)
		if time.Since(planted) > service.Bound {
			t.Fatalf("%s later: folders %v, cgroups %v, containers %v", time.Since(planted), folders, groups, containers)
		}
	}
	if tries := b.walls.tries.Load(); tries < 5 {
		t.Errorf("only %d self-tests were asked for meanwhile", tries)
	}
	if v, err := own.Run(t.Context()); err != nil || !v.Succeeded() {
		t.Errorf("an attempt that is answered for: %+v, %v", v, err)
	}
	if err := own.Release(t.Context()); err != nil {
		t.Error(err)
	}
	closeUp(t, a)
}

func closeUp(t *testing.T, a *slot.Attempt) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := a.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// fading is an engine that lists a container whose attempt ends at once.
type fading struct {
	*enginetest.Bare
	name    string
	lists   int // how often the name is still listed
	removed []string
}

func (f *fading) Labelled(ctx context.Context, label string) ([]string, error) {
	names, err := f.Bare.Labelled(ctx, label)
	if f.lists > 0 {
		names = append(names, f.name)
	}
	f.lists--
	return names, err
}

func (f *fading) Remove(ctx context.Context, name string) error {
	f.removed = append(f.removed, name)
	return f.Bare.Remove(ctx, name)
}

// An attempt that ends between the list and the look is nobody's leftover: it is
// neither removed again nor reported. One that stays is.
func TestWhatEndsMeanwhileIsNoLeftover(t *testing.T) {
	evidence.Proves(t, "SBX-12")
	for lists, leftover := range map[int]bool{1: false, 2: true} {
		f := &fading{Bare: enginetest.NewBare(t), name: slotfs.NewName(), lists: lists}
		m := enginetest.Maker(t, f, enginetest.Scripted(t), nil)
		var log strings.Builder
		s := service.New(service.Config{Slots: 1}, m, f, &walls{}, slog.New(slog.NewTextHandler(&log, nil)), service.NewMetrics(prometheus.NewRegistry()))
		if err := s.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		if removed := slices.Equal(f.removed, []string{f.name}); removed != leftover || strings.Contains(log.String(), "containers=1") != leftover {
			t.Errorf("listed %d times: removed %v, log %q", lists, f.removed, log.String())
		}
	}
}
