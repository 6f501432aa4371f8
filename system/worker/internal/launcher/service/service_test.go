package service_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/enginetest"
	"glovebox/system/worker/internal/container/selftest"
	"glovebox/system/worker/internal/container/slot"
	"glovebox/system/worker/internal/container/verdict"
	"glovebox/system/worker/internal/launcher"
	"glovebox/system/worker/internal/launcher/service"
	"glovebox/threat-model/evidence"
)

// walls is a self-test with a given outcome.
type walls struct {
	missing atomic.Bool
	tries   atomic.Int32
	takes   atomic.Int64 // nanoseconds, unless the context ends before
}

func (w *walls) Run(ctx context.Context) selftest.Report {
	w.tries.Add(1)
	select {
	case <-time.After(time.Duration(w.takes.Load())):
	case <-ctx.Done():
	}
	return selftest.Report{Walls: []selftest.Wall{{Name: "gravity", Stands: !w.missing.Load(), Detail: "tried"}}}
}

type bench struct {
	maker   *slot.Maker
	walls   *walls
	client  *launcher.Client
	socket  string
	figures *prometheus.Registry
	stop    func() error // idempotent
}

// start serves with engine until the test ends, and then demands that nothing is
// left.
func start(t *testing.T, engine enginetest.Engine, slots int, adjust func(*container.Limits)) *bench {
	t.Helper()
	return startWith(t, engine, enginetest.Maker(t, engine, enginetest.Scripted(t), adjust), slots, uint32(os.Getuid()))
}

func startWith(t *testing.T, engine enginetest.Engine, m *slot.Maker, slots int, uid uint32) *bench {
	t.Helper()
	return serve(t, engine, m, service.Config{PeerUID: uid, Slots: slots})
}

func serve(t *testing.T, engine enginetest.Engine, m *slot.Maker, c service.Config) *bench {
	t.Helper()
	b := &bench{maker: m, walls: &walls{}, socket: filepath.Join(m.FS.Root, ".s"), figures: prometheus.NewRegistry()}
	c.Socket = b.socket
	b.client = launcher.NewClient(b.socket)
	var log strings.Builder
	s := service.New(c, m, engine, b.walls, slog.New(slog.NewTextHandler(&locked{w: &log}, nil)), service.NewMetrics(b.figures))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	b.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		if err := b.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		_ = os.Remove(filepath.Join(m.FS.Root, ".lock"))
		if t.Failed() {
			t.Log(log.String())
		}
	})
	b.await(t, launcher.Ready)
	return b
}

// locked makes a writer safe for the test's reading after the end.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// await asks until the launcher is in phase.
func (b *bench) await(t *testing.T, phase launcher.Phase) launcher.State {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		state, err := b.client.Status(ctx)
		if err == nil && state.Phase == phase {
			return state
		}
		if ctx.Err() != nil {
			t.Fatalf("launcher is not %s: %+v, %v", phase, state, err)
		}
	}
}

func (b *bench) acquire(t *testing.T, script string) *launcher.Slot {
	t.Helper()
	s, err := b.client.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Input.WriteString(script); err != nil {
		t.Fatal(err)
	}
	return s
}

// gone waits until no attempt is left, by the kernel's word, and until the launcher
// has the slots back, which is a moment later.
func (b *bench) gone(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		names, err := b.maker.Tree.Leftovers(enginetest.Label)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := filepath.Glob(b.maker.FS.Root + "/a-*")
		if err != nil {
			t.Fatal(err)
		}
		state, err := b.client.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(names) == 0 && len(entries) == 0 && state.SlotsFree == state.SlotsTotal {
			return
		}
	}
	t.Fatal("an attempt is left after 20 s")
}

func TestAttemptThroughTheSocket(t *testing.T) {
	evidence.Proves(t, "SBX-09", "JOB-10")
	b := start(t, enginetest.Podman(t), 2, nil)
	s := b.acquire(t, "copy\nhello")
	v, err := s.Run(t.Context())
	if err != nil || !v.Succeeded() {
		t.Fatalf("%+v, %v", v, err)
	}
	if content, err := io.ReadAll(s.Result); err != nil || string(content) != "hello" {
		t.Errorf("result is %q, %v", content, err)
	}
	if err := s.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.gone(t)
	if state := b.await(t, launcher.Ready); state.SlotsFree != 2 || state.SlotsTotal != 2 || state.ImageDigest != v.ImageDigest {
		t.Errorf("state is %+v", state)
	}
}

func TestKillDuringTheRun(t *testing.T) {
	evidence.Proves(t, "JOB-08")
	b := start(t, enginetest.Podman(t), 1, nil)
	s := b.acquire(t, "loop")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		enginetest.AwaitAnyCore(b.maker.Tree)
		cancel()
	}()
	v, err := s.Run(ctx)
	if err != nil || v.Kind != verdict.Killed {
		t.Errorf("%+v, %v", v, err)
	}
	if err := s.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSlotsAreCounted(t *testing.T) {
	b := start(t, enginetest.NewBare(t), 1, nil)
	s := b.acquire(t, "copy\n")
	if _, err := b.client.Acquire(t.Context()); launcher.CodeOf(err) != launcher.NoSlot {
		t.Errorf("a second slot of one: %v", err)
	}
	if err := s.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = b.acquire(t, "copy\n")
	if err := s.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestMissingWallStopsTheWork(t *testing.T) {
	evidence.Proves(t, "SBX-10")
	b := start(t, enginetest.NewBare(t), 1, nil)
	b.walls.missing.Store(true)
	if _, err := b.client.SelfTest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if state := b.await(t, launcher.Refusing); len(state.Missing) != 1 || state.Missing[0] != "gravity" {
		t.Errorf("state is %+v", state)
	}
	_, err := b.client.Acquire(t.Context())
	var refusal *launcher.Error
	if !errors.As(err, &refusal) || refusal.Code != launcher.NotReady || len(refusal.Missing) != 1 || refusal.Missing[0] != "gravity" {
		t.Errorf("acquire: %v", err)
	}
	b.walls.missing.Store(false)
	if _, err := b.client.SelfTest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.acquire(t, "x").Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// A launcher that refuses tries the walls again by itself: a probe may have failed for
// the death of its monitor alone.
func TestRefusalIsTriedAgain(t *testing.T) {
	evidence.Proves(t, "SBX-10")
	bare := enginetest.NewBare(t)
	b := start(t, bare, 1, nil)
	for _, fail := range []func(){
		func() { bare.Leave(); b.await(t, launcher.NoEngine); bare.Return() },
		func() { _, _ = b.client.SelfTest(t.Context()) },
	} {
		b.walls.missing.Store(true)
		fail()
		b.await(t, launcher.Refusing)
		b.walls.missing.Store(false)
		b.await(t, launcher.Ready)
	}
	if err := b.acquire(t, "x").Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// The worker dies by SIGKILL in mid-run. A process of its own holds the
// connection; the socket is also inherited by a child that lives on.
func TestWorkerKilledInMidRun(t *testing.T) {
	evidence.Proves(t, "SBX-12", "JOB-06")
	b := start(t, enginetest.Podman(t), 1, nil)
	worker := exec.Command(os.Args[0], "-test.run=^TestAsWorker$")
	worker.Env = append(os.Environ(), "GLOVEBOX_TEST_WORKER_SOCKET="+b.socket)
	child, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	pid := make([]byte, 16)
	n, err := child.Read(pid)
	if err != nil {
		t.Fatal(err)
	}
	enginetest.AwaitAnyCore(b.maker.Tree)
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	_ = worker.Wait()
	b.gone(t)
	t.Logf("everything was gone %s after the kill", time.Since(killed).Round(time.Millisecond))
	inheritor := strings.TrimSpace(string(pid[:n]))
	if err := exec.Command("kill", "-9", inheritor).Run(); err != nil {
		t.Errorf("the inheritor of the socket did not live on: %v", err)
	}
	if err := b.acquire(t, "x").Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAsWorker is the other process of TestWorkerKilledInMidRun and proves
// nothing by itself.
func TestAsWorker(t *testing.T) {
	socket := os.Getenv("GLOVEBOX_TEST_WORKER_SOCKET")
	if socket == "" {
		return
	}
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	conn := launcher.NewConn(c)
	if err := conn.Send(launcher.Request{Verb: launcher.Acquire}); err != nil {
		t.Fatal(err)
	}
	_, files, err := conn.ReceiveResponse(2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := files[0].WriteString("loop"); err != nil {
		t.Fatal(err)
	}
	copied, err := c.File()
	if err != nil {
		t.Fatal(err)
	}
	heir := exec.Command("sleep", "300")
	heir.ExtraFiles = []*os.File{copied, files[0], files[1]}
	if err := heir.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stdout.WriteString(itoa(heir.Process.Pid) + "\n"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Send(launcher.Request{Verb: launcher.Run}); err != nil {
		t.Fatal(err)
	}
	_, _, _ = conn.ReceiveResponse(0)
}

func TestStopKillsWhatRuns(t *testing.T) {
	evidence.Proves(t, "SBX-12", "REL-05")
	b := start(t, enginetest.Podman(t), 2, nil)
	results := make(chan error, 2)
	for range 2 {
		s := b.acquire(t, "loop")
		go func() {
			_, err := s.Run(context.Background())
			results <- err
		}()
	}
	enginetest.AwaitAnyCore(b.maker.Tree)
	if err := b.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	for range 2 {
		<-results
	}
	if _, err := os.Stat(b.socket); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestAnotherLauncherOnTheSameRoot(t *testing.T) {
	bare := enginetest.NewBare(t)
	b := start(t, bare, 1, nil)
	s := service.New(service.Config{Socket: b.socket + "2", Slots: 1}, b.maker, bare, b.walls, slog.New(slog.DiscardHandler), service.NewMetrics(prometheus.NewRegistry()))
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another launcher works below") {
		t.Errorf("error is %v", err)
	}
}

func TestUncleanSlotIsNotGivenOut(t *testing.T) {
	evidence.Proves(t, "SBX-12")
	bare := enginetest.NewBare(t)
	b := start(t, bare, 1, nil)
	s := b.acquire(t, "copy\n")
	if _, err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	bare.SetFailures(nil, errors.New("device or resource busy"))
	if err := s.Release(t.Context()); launcher.CodeOf(err) != launcher.Unclean {
		t.Errorf("release: %v", err)
	}
	if _, err := b.client.Acquire(t.Context()); launcher.CodeOf(err) != launcher.NoSlot {
		t.Errorf("acquire of an unclean slot: %v", err)
	}
	bare.SetFailures(nil, nil)
	for {
		s, err := b.client.Acquire(t.Context())
		if err == nil {
			if err := s.Release(t.Context()); err != nil {
				t.Error(err)
			}
			return
		}
		if launcher.CodeOf(err) != launcher.NoSlot {
			t.Fatal(err)
		}
	}
}
