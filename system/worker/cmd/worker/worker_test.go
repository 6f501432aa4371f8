package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"glovebox/system/platform/logging"
	"glovebox/system/platform/pki"
	"glovebox/system/platform/pki/pkitest"
	"glovebox/system/platform/tlsconf"
	"glovebox/system/protocol"
	"glovebox/system/worker/internal/executor/executortest"
	"glovebox/system/worker/internal/launcher"
	"glovebox/threat-model/evidence"
)

// A server of the standard library lingers half a second over a connection that it
// refused, also when it was closed.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// setup writes a configuration for a server with handler and a launcher, and
// returns its path.
type bundle struct {
	in         *pkitest.Installation
	certFile   string
	configFile string
	metrics    string
}

func setup(t *testing.T, handler http.Handler, door *executortest.Door) *bundle {
	t.Helper()
	b := &bundle{in: pkitest.New(t)}
	serverCert, serverKey := b.in.InternalServer()
	source, err := tlsconf.Open(tlsconf.Files{Cert: serverCert, Key: serverKey, CA: b.in.Bundle(pki.Internal)}, logging.New(io.Discard, "test", slog.LevelDebug))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.TLS = source.MutualServer("http/1.1")
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	server.StartTLS()
	t.Cleanup(server.Close)
	certFile, keyFile := b.in.Worker("w-1")
	b.certFile = certFile
	b.metrics = freeAddress(t)
	b.configFile = filepath.Join(t.TempDir(), "worker.toml")
	text := fmt.Sprintf("[server]\nurl = %q\n[tls]\ncert_file = %q\nkey_file = %q\nca_file = %q\n[launcher]\nsocket = %q\n[worker]\nslots = 1\n[metrics]\nlisten = %q\n[log]\nlevel = \"debug\"\n",
		server.URL, certFile, keyFile, b.in.Bundle(pki.Internal), door.Path, b.metrics)
	if err := os.WriteFile(b.configFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// oneJob is a server with a single job.
type oneJob struct {
	input  string
	mu     sync.Mutex
	given  bool
	result chan string
}

func (s *oneJob) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	sum := sha256.Sum256([]byte(s.input))
	switch {
	case r.URL.Path == protocol.PathClaim:
		s.mu.Lock()
		given := s.given
		s.given = true
		s.mu.Unlock()
		if given {
			if r.URL.Query().Get("wait") != "0s" {
				<-r.Context().Done()
			}
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_ = json.NewEncoder(w).Encode(protocol.Assignment{
			ID: "0b0b081d-fa52-4c40-8375-123456789abc", Attempt: 1, FencingToken: 1, LeaseSeconds: 30, HeartbeatSeconds: 10,
			InputSize: int64(len(s.input)), InputSHA256: hex.EncodeToString(sum[:]), TimeoutSeconds: 10, MaxResultBytes: 1000,
		})
	case strings.HasSuffix(r.URL.Path, "/input"):
		_, _ = io.WriteString(w, s.input)
	case strings.HasSuffix(r.URL.Path, "/result"):
		sum := sha256.Sum256(body)
		_ = json.NewEncoder(w).Encode(protocol.ResultAnswer{Status: "completed", SHA256: hex.EncodeToString(sum[:]), Size: int64(len(body))})
		s.result <- string(body)
	default:
		http.NotFound(w, r)
	}
}

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestServeCarriesAJobOutAndStops(t *testing.T) {
	evidence.Proves(t, "ARC-01", "REL-05", "REL-02", "SBX-09")
	const secretInput = "print('the content of a file')"
	server := &oneJob{input: secretInput, result: make(chan string, 1)}
	b := setup(t, server, executortest.Transforming(t, bytes.ToUpper))
	log := &syncBuffer{}
	m := &Main{Environ: nil, ErrOut: log}
	if err := m.ParseFlags([]string{"--config", b.configFile}); err != nil {
		t.Fatal(err)
	}
	if err := m.Open(); err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	select {
	case got := <-server.result:
		if got != strings.ToUpper(secretInput) {
			t.Errorf("the server got %q", got)
		}
	case err := <-ended:
		t.Fatalf("the worker ended: %v\n%s", err, log)
	case <-time.After(30 * time.Second):
		t.Fatalf("no result came\n%s", log)
	}
	awaitMetric(t, b.metrics, `glovebox_worker_attempts_total{end="completed"} 1`)
	awaitMetric(t, b.metrics, "glovebox_worker_slots_busy 0")
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the worker ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the worker does not stop")
	}
	for _, secret := range []string{secretInput, strings.ToUpper(secretInput), "BEGIN PRIVATE"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log shows %q", secret)
		}
	}
	if !strings.Contains(log.String(), `"worker_id":"w-1"`) || !strings.Contains(log.String(), `"job_id":"0b0b081d`) {
		t.Errorf("the log names no worker or job:\n%s", log)
	}
}

// awaitMetric asks until the line is there: it is written just after the result
// has left.
func awaitMetric(t *testing.T, address, line string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	var text []byte
	for begun := time.Now(); time.Since(begun) < 20*time.Second; {
		resp, err := client.Get("http://" + address + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), line+"\n") {
			return
		}
	}
	t.Fatalf("the metrics do not show %s:\n%s", line, text)
}

func TestCheck(t *testing.T) {
	evidence.Proves(t, "SBX-10", "MTL-01")
	status := func(code int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	ready := launcher.State{Phase: launcher.Ready, SlotsTotal: 1}
	rows := []struct {
		name    string
		handler http.Handler
		state   launcher.State
		spoil   func(t *testing.T, b *bundle) []string // further environment
		says    string
	}{
		{"all well", status(404), ready, nil, ""},
		{"not allowed", status(403), ready, nil, "worker add w-1"},
		{"server unwell", status(503), ready, nil, "answered 503"},
		{"a wall is missing", status(404), launcher.State{Phase: launcher.Refusing, SlotsTotal: 1, Missing: []string{"pids"}}, nil, "pids"},
		{"too many slots", status(404), ready, func(*testing.T, *bundle) []string { return []string{"GLOVEBOX_WORKER_SLOTS=9"} }, "worker.slots"},
		{"another installation's bundle", status(404), ready, func(t *testing.T, _ *bundle) []string {
			return []string{"GLOVEBOX_TLS_CA_FILE=" + pkitest.New(t).Bundle(pki.Internal)}
		}, "unknown authority"},
		{"an ingest's certificate", status(404), ready, func(t *testing.T, b *bundle) []string {
			cert, key := b.in.Ingest("i-1")
			return []string{"GLOVEBOX_TLS_CERT_FILE=" + cert, "GLOVEBOX_TLS_KEY_FILE=" + key}
		}, "no worker's certificate"},
		{"an old certificate", status(404), ready, func(t *testing.T, b *bundle) []string {
			cert, key := b.in.At(time.Now().Add(-60 * 24 * time.Hour)).Worker("w-1")
			return []string{"GLOVEBOX_TLS_CERT_FILE=" + cert, "GLOVEBOX_TLS_KEY_FILE=" + key}
		}, "pki renew"},
		{"a certificate near its end", status(404), ready, func(t *testing.T, b *bundle) []string {
			cert, key := b.in.Leaf(pki.Request{Kind: pki.Worker, ID: "w-1", Life: time.Hour})
			return []string{"GLOVEBOX_TLS_CERT_FILE=" + cert, "GLOVEBOX_TLS_KEY_FILE=" + key}
		}, "ends in"},
		{"a foreign certificate", status(404), ready, func(t *testing.T, _ *bundle) []string {
			cert, key := pkitest.New(t).Worker("w-1")
			return []string{"GLOVEBOX_TLS_CERT_FILE=" + cert, "GLOVEBOX_TLS_KEY_FILE=" + key}
		}, "unknown certificate authority"},
		{"no such file", status(404), ready, func(*testing.T, *bundle) []string { return []string{"GLOVEBOX_TLS_CERT_FILE=/nowhere"} }, "no such file"},
		{"no launcher", status(404), ready, func(*testing.T, *bundle) []string { return []string{"GLOVEBOX_LAUNCHER_SOCKET=/nowhere"} }, "glovebox-launcher"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			b := setup(t, row.handler, executortest.Open(t, &executortest.Door{State: row.state}))
			var environ []string
			if row.spoil != nil {
				environ = row.spoil(t, b)
			}
			var out, errOut bytes.Buffer
			code := execute(context.Background(), []string{"check", "--config", b.configFile}, environ, &out, &errOut)
			if (code == exitOK) != (row.says == "") || !strings.Contains(out.String(), row.says) {
				t.Errorf("exit %d, want %q in:\n%s%s", code, row.says, &out, &errOut)
			}
		})
	}
}

func TestCommandLine(t *testing.T) {
	rows := map[string]struct {
		args []string
		code int
		says string
	}{
		"help":             {[]string{"--help"}, exitOK, "glovebox-worker serve --config"},
		"version":          {[]string{"version"}, exitOK, "glovebox-worker "},
		"unknown flag":     {[]string{"serve", "--loud"}, exitUsage, "unknown flag"},
		"unknown command":  {[]string{"dance"}, exitUsage, "unknown command"},
		"no configuration": {[]string{"serve"}, exitFailed, "server.url"},
		"no such file":     {[]string{"serve", "--config", "/nowhere"}, exitFailed, "/nowhere"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if code := execute(context.Background(), row.args, nil, &out, &out); code != row.code || !strings.Contains(out.String(), row.says) {
				t.Errorf("exit %d, want %d with %q:\n%s", code, row.code, row.says, &out)
			}
		})
	}
}

func TestTakenMetricsPortNamesItsKey(t *testing.T) {
	b := setup(t, http.NotFoundHandler(), executortest.Open(t, &executortest.Door{}))
	l, err := net.Listen("tcp", b.metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var out bytes.Buffer
	if code := execute(context.Background(), []string{"serve", "--config", b.configFile}, nil, &out, &out); code != exitFailed || !strings.Contains(out.String(), "metrics.listen") {
		t.Errorf("exit %d:\n%s", code, &out)
	}
}
