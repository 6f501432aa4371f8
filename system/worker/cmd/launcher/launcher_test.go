package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"glovebox/ci/engine"
	"glovebox/ci/image/recipe"
	"glovebox/system/worker/internal/container/enginetest"
	"glovebox/system/worker/internal/launcher"
	"glovebox/threat-model/evidence"
)

// installation is a configured launcher on a private engine.
type installation struct {
	engine               *engine.Service
	dir, config, metrics string
	client               *launcher.Client
}

func install(t *testing.T) *installation {
	t.Helper()
	dir, err := os.MkdirTemp("", "gbl")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	probe, err := os.ReadFile("../../internal/container/selftest/program/probe.c")
	if err != nil {
		t.Fatal(err)
	}
	image := func(name, binary string) string {
		built, err := recipe.Build(binary, filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return built.Ref
	}
	i := &installation{dir: dir, config: filepath.Join(dir, "launcher.toml"), metrics: freePort(t), engine: enginetest.Service(t)}
	text := fmt.Sprintf(`[listen]
socket = %q
peer_uid = %d
[engine]
socket = %q
[slots]
root = %q
[sandbox]
image = %q
memory_bytes = "96MiB"
[selftest]
image = %q
[limits]
max_result_bytes = 1048576
[metrics]
listen = %q
`, dir+"/s", os.Getuid(), i.engine.Socket, dir+"/slots", image("core", enginetest.Compile(t, enginetest.ScriptedSource())), image("probe", enginetest.Compile(t, probe)), i.metrics)
	if err := os.WriteFile(i.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	i.client = launcher.NewClient(dir + "/s")
	return i
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// run executes one command line and returns its status and what it said.
func (i *installation) run(t *testing.T, command ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	code := execute(t.Context(), append(command, "--config", i.config), &out, &out)
	return code, out.String()
}

// serve runs the launcher until the returned function is called.
func (i *installation) serve(t *testing.T) func() int {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	go func() { done <- execute(ctx, []string{"serve", "--config", i.config}, io.Discard, os.Stderr) }()
	stop := sync.OnceValue(func() int {
		cancel()
		return <-done
	})
	t.Cleanup(func() { stop() })
	deadline, over := context.WithTimeout(t.Context(), 60*time.Second)
	defer over()
	for {
		state, err := i.client.Status(deadline)
		if err == nil && state.Phase != launcher.Testing {
			return stop
		}
		if deadline.Err() != nil {
			t.Fatalf("the launcher is not ready: %+v, %v", state, err)
		}
	}
}

func TestCommands(t *testing.T) {
	evidence.Proves(t, "SBX-10", "SBX-09", "REL-05")
	i := install(t)
	if code, said := i.run(t, "check"); code != exitOK {
		t.Errorf("check: %d\n%s", code, said)
	}
	if code, said := i.run(t, "status"); code != exitFailed || !strings.Contains(said, "is glovebox-launcher serving") {
		t.Errorf("status of none: %d\n%s", code, said)
	}
	code, said := i.run(t, "selftest")
	if code != exitOK || !strings.Contains(said, "walls stand") || strings.Contains(said, "MISSING") {
		t.Fatalf("selftest alone: %d\n%s", code, said)
	}
	var report struct {
		Passed  bool            `json:"passed"`
		Missing []string        `json:"missing"`
		Walls   []launcher.Wall `json:"walls"`
	}
	code, said = i.run(t, "selftest", "--json")
	if err := json.Unmarshal([]byte(said), &report); err != nil || code != exitOK || !report.Passed || len(report.Missing) != 0 || len(report.Walls) < 30 {
		t.Errorf("selftest --json: %d, %v\n%s", code, err, said)
	}
	stop := i.serve(t)
	if code, said := i.run(t, "status"); code != exitOK || !strings.Contains(said, "phase   ready") {
		t.Errorf("status: %d\n%s", code, said)
	}
	s, err := i.client.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Input.WriteString("copy\nhello"); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Run(t.Context()); err != nil || !v.Succeeded() {
		t.Errorf("%+v, %v", v, err)
	}
	if err := s.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if code, said := i.run(t, "selftest"); code != exitOK || !strings.Contains(said, "walls stand") {
		t.Errorf("selftest of the one that serves: %d\n%s", code, said)
	}
	i.checkMetrics(t)
	if code := stop(); code != exitOK {
		t.Errorf("serve ended with %d", code)
	}
	if left, err := filepath.Glob(i.dir + "/slots/a-*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func (i *installation) checkMetrics(t *testing.T) {
	t.Helper()
	resp, err := http.Get("http://" + i.metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`glovebox_launcher_attempts_total{kind="exited"} 1`, "glovebox_launcher_slots_free 2", "glovebox_launcher_pool_size 2", "glovebox_launcher_pool_ready ", `glovebox_launcher_wall_stands{wall="memory"} 1`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

func TestSettingsAreRefusedByKey(t *testing.T) {
	evidence.Proves(t, "REL-03")
	i := install(t)
	good, err := os.ReadFile(i.config)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ find, put, want string }{
		"unpinned image":       {"@sha256:", "#", "sandbox.image: image"},
		"unknown key":          {"[slots]", "[slots]\nimages = 1", "slots.images: unknown key"},
		"metrics for everyone": {i.metrics, "0.0.0.0:9467", "metrics.listen: is not a loopback address"},
		"no memory":            {`"96MiB"`, `"1MiB"`, "sandbox.memory_bytes: is 1048576"},
		"more warm than slots": {"[sandbox]", "[sandbox]\nwarm = 3", "sandbox.warm: is 3"},
		"user ids of the host": {"[slots]", "[slots]\nuid_base = 1000", "slots.uid_base: leaves no room"},
		"relative root":        {`root = "` + i.dir + `/slots"`, `root = "slots"`, "slots.root: is not an absolute path"},
		"another runtime":      {"[sandbox]", "[sandbox]\nruntime = \"runsc\"", `the engine runs containers with runc, configured is sandbox.runtime = "runsc"`},
		"closed root":          {i.dir + "/slots", i.closed(t), "cannot pass through"},
		"image that is gone":   {i.dir + "/core@", i.dir + "/gone@", "sandbox.image: open image layout"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(string(good), c.find, c.put, 1)
			if text == string(good) {
				t.Fatal("nothing was changed")
			}
			if err := os.WriteFile(i.config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			command := "check"
			if name == "closed root" {
				command = "serve"
			}
			if code, said := i.run(t, command); code == exitOK || !strings.Contains(said, c.want) {
				t.Errorf("%d, %s\nwanted %q", code, said, c.want)
			}
		})
	}
}

// closed makes a folder that only root can pass through.
func (i *installation) closed(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(i.dir, "closed")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir + "/slots"
}

// The engine's service has died and left its socket: the launcher waits for the next.
func TestServeWaitsForTheEngine(t *testing.T) {
	i := install(t)
	if err := i.engine.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(i.engine.Socket); err != nil {
		t.Fatalf("the dead service left no socket: %v", err)
	}
	again := make(chan error, 1)
	go func() {
		for len(matches(i.dir+"/slots/.profiles/core-*")) == 0 { // written just before the engine is asked
			time.Sleep(time.Millisecond)
		}
		next, err := engine.Start(context.Background(), engine.Options{Dir: i.engine.Dir})
		if err == nil {
			t.Cleanup(func() {
				if err := next.Stop(); err != nil {
					t.Error(err)
				}
			})
		}
		again <- err
	}()
	stop := i.serve(t)
	if err := <-again; err != nil {
		t.Fatal(err)
	}
	if code, said := i.run(t, "status"); code != exitOK {
		t.Errorf("status: %d\n%s", code, said)
	}
	if code := stop(); code != exitOK {
		t.Errorf("serve ended with %d", code)
	}
}

func matches(pattern string) []string {
	found, _ := filepath.Glob(pattern) // the pattern is well formed
	return found
}
