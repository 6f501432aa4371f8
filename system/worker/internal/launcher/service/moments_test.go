package service_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"glovebox/ci/engine"
	"glovebox/system/worker/internal/container/enginetest"
	"glovebox/system/worker/internal/container/podman"
	"glovebox/system/worker/internal/launcher"
	"glovebox/system/worker/internal/launcher/service"
	"glovebox/threat-model/evidence"
)

// moment is a point in the life of an attempt: before the engine is asked for
// something, or when it has done it and nobody knows yet.
type moment struct {
	step string // of an attempt, as the engine is asked for it
	done bool
}

func (m moment) String() string {
	if m.done {
		return "after " + m.step
	}
	return "before " + m.step
}

// moments are all of them: before create, between create and init, while it waits,
// at its start, when it has been judged, at its removal.
var moments = []moment{
	{"create", false}, {"create", true}, {"init", true}, {"inspect", true}, {"start", false}, {"start", true}, {"remove", false}, {"remove", true},
}

// toll is a way to the engine that passes everything on, and at one moment strikes.
type toll struct {
	socket string

	mu     sync.Mutex
	at     moment
	strike func() // nil once it has struck
	struck chan struct{}
	conns  map[net.Conn]bool
}

// errStruck ends a request in whose midst it struck.
var errStruck = errors.New("struck")

func newToll(t *testing.T, behind string) *toll {
	t.Helper()
	dir, err := os.MkdirTemp("", "gbt")
	if err != nil {
		t.Fatal(err)
	}
	x := &toll{socket: dir + "/s", struck: make(chan struct{}), conns: map[net.Conn]bool{}}
	listener, err := net.Listen("unix", x.socket)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "engine"})
	proxy.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", behind)
	}}
	proxy.ModifyResponse = func(r *http.Response) error {
		if x.hit(moment{step(r.Request), true}) {
			return errStruck
		}
		return nil
	}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	server := &http.Server{
		ReadHeaderTimeout: time.Hour,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if x.hit(moment{step(r), false}) {
				panic(http.ErrAbortHandler)
			}
			proxy.ServeHTTP(w, r)
		}),
		ConnState: func(c net.Conn, s http.ConnState) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.conns[c] = s != http.StateClosed && s != http.StateHijacked
		},
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		os.RemoveAll(dir)
	})
	return x
}

// step names what a request asks of the engine for an attempt.
func step(r *http.Request) string {
	name := filepath.Base(r.URL.Path)
	switch {
	case r.Method == http.MethodDelete:
		return "remove"
	case name == "json" && strings.Contains(r.URL.Path, "/containers/a-"):
		return "inspect"
	}
	return name
}

func (x *toll) arm(at moment, strike func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.at, x.strike = at, strike
}

func (x *toll) hit(m moment) bool {
	x.mu.Lock()
	strike := x.strike
	if strike == nil || m != x.at {
		x.mu.Unlock()
		return false
	}
	x.strike = nil
	x.mu.Unlock()
	strike()
	close(x.struck)
	return true
}

// cut ends every connection, as the death of the engine does.
func (x *toll) cut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for c, open := range x.conns {
		if open {
			c.Close()
		}
	}
}

// A launcher is killed at each moment in which it is asking the engine; the next one
// finds and removes whatever there is, within the stated time.
func TestLauncherKilledAtEachMoment(t *testing.T) {
	evidence.Proves(t, "SBX-12")
	real := enginetest.Service(t)
	e, err := podman.Open(t.Context(), real.Socket, "runc")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range moments {
		t.Run(at.String(), func(t *testing.T) {
			m := enginetest.Maker(t, e, enginetest.Scripted(t), nil)
			x := newToll(t, real.Socket)
			dead := exec.Command(os.Args[0], "-test.run=^TestAsBusyLauncher$")
			dead.Env = append(os.Environ(), "GLOVEBOX_TEST_BUSY_ENGINE="+x.socket, "GLOVEBOX_TEST_ROOT="+m.FS.Root,
				"GLOVEBOX_TEST_IMAGE="+m.Image.Ref.String(), "GLOVEBOX_TEST_LABEL="+m.Label)
			dead.Stderr = os.Stderr
			x.arm(at, func() { _ = dead.Process.Kill() })
			if err := dead.Start(); err != nil {
				t.Fatal(err)
			}
			await(t, x.struck, "the moment comes")
			_ = dead.Wait()
			started := time.Now()
			b := startWith(t, e, m, 1, uint32(os.Getuid()))
			b.gone(t)
			// The engine may have been creating one more when the launcher died.
			for names := []string{"?"}; len(names) > 0; time.Sleep(20 * time.Millisecond) {
				if names, err = e.Labelled(t.Context(), m.Label); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(started); took > service.Bound {
					t.Fatalf("%s after the next launcher's start containers are left: %v", took, names)
				}
			}
		})
	}
}

func await(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		t.Fatalf("%s: not within a minute", what)
	}
}

// TestAsBusyLauncher is the process that is killed in TestLauncherKilledAtEachMoment
// and proves nothing by itself: a launcher and its worker in one.
func TestAsBusyLauncher(t *testing.T) {
	socket := os.Getenv("GLOVEBOX_TEST_BUSY_ENGINE")
	if socket == "" {
		return
	}
	e, err := podman.Open(t.Context(), socket, "runc")
	if err != nil {
		t.Fatal(err)
	}
	m := enginetest.MakerAt(t, e, os.Getenv("GLOVEBOX_TEST_IMAGE"), os.Getenv("GLOVEBOX_TEST_ROOT"), os.Getenv("GLOVEBOX_TEST_LABEL"))
	b := serve(t, e, m, service.Config{PeerUID: uint32(os.Getuid()), Slots: 2, Warm: 1})
	for {
		b.work(t)
	}
}

// work carries out one attempt and reports whether all went well.
func (b *bench) work(t *testing.T) bool {
	t.Helper()
	s, err := b.client.Acquire(t.Context())
	if err != nil {
		return false
	}
	defer s.Release(context.Background())
	if _, err := s.Input.WriteString("copy\nx"); err != nil {
		return false
	}
	v, err := s.Run(t.Context())
	return err == nil && v.Succeeded()
}

// The engine's service is killed at each moment in which it is being asked; once it
// runs again work goes on, and nothing is left of what it was in the middle of.
func TestEngineKilledAtEachMoment(t *testing.T) {
	evidence.Proves(t, "SBX-12", "SBX-10")
	for _, at := range moments {
		t.Run(at.String(), func(t *testing.T) {
			first := enginetest.Service(t)
			x := newToll(t, first.Socket)
			e, err := podman.Open(t.Context(), x.socket, "runc")
			if err != nil {
				t.Fatal(err)
			}
			m := enginetest.Maker(t, e, enginetest.Scripted(t), nil)
			b := serve(t, e, m, service.Config{PeerUID: uint32(os.Getuid()), Slots: 2, Warm: 1})
			x.arm(at, func() {
				if err := first.Kill(); err != nil {
					t.Error(err)
				}
				x.cut()
			})
			for struck := false; !struck; {
				b.work(t)
				select {
				case <-x.struck:
					struck = true
				default:
				}
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
			started := time.Now()
			b.await(t, launcher.Ready)
			for !b.work(t) {
				if time.Since(started) > service.Bound {
					t.Fatalf("no work is done %s after the engine's return", time.Since(started))
				}
			}
			b.until(t, "pool_ready", 1)
			for {
				names, err := e.Labelled(t.Context(), m.Label)
				groups, groupsErr := m.Tree.Leftovers(m.Label)
				if err == nil && groupsErr == nil && len(names) == 1 && len(groups) == 1 {
					break
				}
				if time.Since(started) > service.Bound {
					t.Fatalf("%s after the engine's return: containers %v (%v), cgroups %v (%v)", time.Since(started), names, err, groups, groupsErr)
				}
				time.Sleep(20 * time.Millisecond)
			}
			if err := b.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
