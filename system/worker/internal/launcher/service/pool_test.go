package service_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/enginetest"
	"glovebox/system/worker/internal/container/slot"
	"glovebox/system/worker/internal/launcher"
	"glovebox/system/worker/internal/launcher/service"
	"glovebox/threat-model/evidence"
)

// figure returns the value of one of the pool's metrics.
func (b *bench) figure(t *testing.T, name string) int {
	t.Helper()
	families, err := b.figures.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "glovebox_launcher_"+name {
			m := f.GetMetric()[0]
			return int(m.GetGauge().GetValue() + m.GetCounter().GetValue())
		}
	}
	t.Fatalf("no figure is called %s", name)
	return 0
}

// until waits until a figure has a value, or for a counter has reached it; 60 seconds
// at most.
func (b *bench) until(t *testing.T, name string, value int) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		now := b.figure(t, name)
		if now == value || now > value && strings.HasSuffix(name, "_total") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is %d after 60 s, want %d", name, now, value)
		}
	}
}

// warm serves with two slots, both of which are kept warm.
func warm(t *testing.T, engine enginetest.Engine, adjust func(*slot.Maker)) *bench {
	t.Helper()
	m := enginetest.Maker(t, engine, enginetest.Scripted(t), nil)
	if adjust != nil {
		adjust(m)
	}
	b := serve(t, engine, m, service.Config{PeerUID: uint32(os.Getuid()), Slots: 2, Warm: 2})
	b.until(t, "pool_ready", 2)
	return b
}

// recorder notes which containers were made and which were started.
type recorder struct {
	enginetest.Engine

	mu                sync.Mutex
	prepared, started map[string]int
	pids              []int
}

func record(e enginetest.Engine) *recorder {
	return &recorder{Engine: e, prepared: map[string]int{}, started: map[string]int{}}
}

func (r *recorder) Prepare(ctx context.Context, spec container.Spec) (int, error) {
	pid, err := r.Engine.Prepare(ctx, spec)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prepared[spec.Name]++
	r.pids = append(r.pids, pid)
	return pid, err
}

func (r *recorder) Start(ctx context.Context, name string) error {
	r.mu.Lock()
	r.started[name]++
	r.mu.Unlock()
	return r.Engine.Start(ctx, name)
}

// last returns the container process made last.
func (r *recorder) last() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pids[len(r.pids)-1]
}

// Each container of the pool is used once, and each slot that is given out is as
// empty as one made on the spot, whatever its predecessors wrote.
func TestPoolIsUsedOnceAndClean(t *testing.T) {
	evidence.Proves(t, "SBX-15", "JOB-10")
	engine := record(enginetest.Podman(t))
	b := warm(t, engine, nil)
	const rounds = 3
	for round := range rounds {
		b.until(t, "pool_ready", 2)
		var held []*launcher.Slot
		for range 2 {
			s, err := b.client.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, s)
			for name, f := range map[string]*os.File{"input": s.Input, "result": s.Result} {
				var st unix.Stat_t
				if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Size != 0 || st.Blocks != 0 {
					t.Errorf("round %d: %s has %d bytes in %d blocks, %v", round, name, st.Size, st.Blocks, err)
				}
			}
		}
		for _, s := range held {
			text := "round " + strconv.Itoa(round)
			if _, err := s.Input.WriteString("copy\n" + text); err != nil {
				t.Fatal(err)
			}
			v, err := s.Run(t.Context())
			if err != nil || !v.Succeeded() {
				t.Fatalf("%+v, %v", v, err)
			}
			if got, err := io.ReadAll(s.Result); err != nil || string(got) != text {
				t.Errorf("result is %q, %v", got, err)
			}
			if err := s.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	if hits, misses := b.figure(t, "pool_hits_total"), b.figure(t, "pool_misses_total"); hits != 2*rounds || misses != 0 {
		t.Errorf("%d hits and %d misses, want %d and none", hits, misses, 2*rounds)
	}
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	if len(engine.started) != 2*rounds {
		t.Errorf("%d containers were started, want %d", len(engine.started), 2*rounds)
	}
	for name, n := range engine.started {
		if n != 1 || engine.prepared[name] != 1 {
			t.Errorf("%s was prepared %d times and started %d times", name, engine.prepared[name], n)
		}
	}
}

// A container that dies while it waits, or whose monitor does, is replaced before
// anybody asks for it.
func TestPoolReplacesTheDead(t *testing.T) {
	evidence.Proves(t, "SBX-12")
	for _, victim := range []string{"process", "monitor"} {
		t.Run(victim, func(t *testing.T) {
			engine := record(enginetest.Podman(t))
			b := warm(t, engine, nil)
			pid := engine.last()
			if victim == "monitor" {
				pid = parentOf(t, pid)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			b.until(t, "pool_rebuilt_total", 1)
			b.until(t, "pool_ready", 2)
			for range 2 {
				s := b.acquire(t, "copy\nx")
				if v, err := s.Run(t.Context()); err != nil || !v.Succeeded() {
					t.Errorf("%+v, %v", v, err)
				}
				defer s.Release(t.Context())
			}
			if misses := b.figure(t, "pool_misses_total"); misses != 0 {
				t.Errorf("%d misses", misses)
			}
		})
	}
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile("/proc/" + itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "PPid:")
	parent, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return parent
}

// A container is replaced before the engine's own timeout ends it.
func TestPoolRecyclesTheOld(t *testing.T) {
	bare := record(enginetest.NewBare(t))
	b := warm(t, bare, func(m *slot.Maker) { m.Wait = 300 * time.Millisecond })
	b.until(t, "pool_recycled_total", 2)
	b.until(t, "pool_ready", 2)
	if n := b.figure(t, "pool_rebuilt_total"); n != 0 {
		t.Errorf("%d were taken for dead", n)
	}
	s := b.acquire(t, "copy\nx")
	if v, err := s.Run(t.Context()); err != nil || !v.Succeeded() {
		t.Errorf("%+v, %v", v, err)
	}
	if err := s.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// While the pool cannot be filled, slots are made when they are asked for; once it
// can, it is.
func TestPoolThatCannotBeFilled(t *testing.T) {
	bare := enginetest.NewBare(t)
	bare.SetFailures(errors.New("the engine is ill"), nil)
	m := enginetest.Maker(t, bare, enginetest.Scripted(t), nil)
	b := serve(t, bare, m, service.Config{PeerUID: uint32(os.Getuid()), Slots: 2, Warm: 2})
	b.until(t, "pool_failures_total", 1)
	var s *launcher.Slot
	for s == nil {
		var err error
		if s, err = b.client.Acquire(t.Context()); err != nil && launcher.CodeOf(err) != launcher.NoSlot {
			t.Fatal(err)
		}
	}
	if _, err := s.Input.WriteString("copy\nx"); err != nil {
		t.Fatal(err)
	}
	bare.SetFailures(nil, nil)
	if v, err := s.Run(t.Context()); err != nil || !v.Succeeded() {
		t.Errorf("%+v, %v", v, err)
	}
	if misses := b.figure(t, "pool_misses_total"); misses != 1 {
		t.Errorf("%d misses, want 1", misses)
	}
	if err := s.Release(t.Context()); err != nil {
		t.Error(err)
	}
	b.until(t, "pool_ready", 2)
}

// A release does not wait for what is made after it: here nothing can be made.
func TestReleaseDoesNotWaitForTheRefill(t *testing.T) {
	slow := &gated{Bare: enginetest.NewBare(t), gate: make(chan struct{})}
	m := enginetest.Maker(t, slow, enginetest.Scripted(t), nil)
	close(slow.gate)
	b := serve(t, slow, m, service.Config{PeerUID: uint32(os.Getuid()), Slots: 1, Warm: 1})
	b.until(t, "pool_ready", 1)
	s := b.acquire(t, "copy\nx")
	if v, err := s.Run(t.Context()); err != nil || !v.Succeeded() {
		t.Errorf("%+v, %v", v, err)
	}
	slow.shut()
	defer slow.open()
	if err := s.Release(t.Context()); err != nil {
		t.Errorf("release while the refill hangs: %v", err)
	}
	if ready := b.figure(t, "pool_ready"); ready != 0 {
		t.Errorf("%d are ready although none can be made", ready)
	}
}

// gated is an engine whose Prepare waits for a gate.
type gated struct {
	*enginetest.Bare
	mu   sync.Mutex
	gate chan struct{}
}

func (g *gated) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gate = make(chan struct{})
}

func (g *gated) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.gate)
}

func (g *gated) Prepare(ctx context.Context, spec container.Spec) (int, error) {
	g.mu.Lock()
	gate := g.gate
	g.mu.Unlock()
	<-gate
	return g.Bare.Prepare(ctx, spec)
}

// The engine's service goes and comes back: no slot meanwhile, what waited is thrown
// away, the walls are tried again, and one that does not stand any more is noticed.
func TestEngineRestart(t *testing.T) {
	evidence.Proves(t, "SBX-10", "SBX-12")
	bare := record(enginetest.NewBare(t))
	engine := bare.Engine.(*enginetest.Bare)
	b := warm(t, bare, nil)
	engine.Leave()
	b.await(t, launcher.NoEngine)
	if _, err := b.client.Acquire(t.Context()); launcher.CodeOf(err) != launcher.NotReady {
		t.Errorf("acquire without an engine: %v", err)
	}
	if _, err := b.client.SelfTest(t.Context()); err != nil {
		t.Error(err)
	}
	if state, err := b.client.Status(t.Context()); err != nil || state.Phase != launcher.NoEngine {
		t.Errorf("a self-test without the engine leads to %+v, %v", state, err)
	}
	b.until(t, "pool_rebuilt_total", 2)
	engine.Return()
	b.await(t, launcher.Ready)
	b.until(t, "pool_ready", 2)
	if tries := b.walls.tries.Load(); tries != 3 {
		t.Errorf("the walls were tried %d times, want 3", tries)
	}
	s := b.acquire(t, "copy\nx")
	if v, err := s.Run(t.Context()); err != nil || !v.Succeeded() {
		t.Errorf("%+v, %v", v, err)
	}
	if err := s.Release(t.Context()); err != nil {
		t.Error(err)
	}
	b.walls.missing.Store(true)
	engine.Leave()
	b.await(t, launcher.NoEngine)
	engine.Return()
	if state := b.await(t, launcher.Refusing); len(state.Missing) != 1 {
		t.Errorf("state is %+v", state)
	}
	b.until(t, "pool_ready", 0)
}
