package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"glovebox/system/platform/secret"
	"glovebox/system/protocol"
	"glovebox/system/server/internal/config"
	"glovebox/system/server/internal/httpapi/wire"
	"glovebox/system/testdb"
	"glovebox/threat-model/evidence"
)

// residentKiB is the memory of this process, which holds server and client.
func residentKiB(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmRSS:" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// TestMemoryStaysFlatForAGibibyte: upload, input, result and download of 1 GiB,
// with both sides of each transfer in this process.
func TestMemoryStaysFlatForAGibibyte(t *testing.T) {
	evidence.Proves(t, "UPL-02")
	const size = 1 << 30
	s := startOne(t, func(c *config.Config) { c.Limits.MaxInputBytes, c.Limits.MaxResultBytes = size, size })
	alice, w := s.user("alice"), s.worker("w-1")
	completed(alice, w, []byte("warm"), []byte("up"))
	debug.FreeOSMemory()
	before := residentKiB(t)
	var most atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				most.Store(max(most.Load(), residentKiB(t)))
			}
		}
	}()
	timed := func(what string, do func()) {
		began := time.Now()
		do()
		t.Logf("%-8s %4.0f MB/s", what, size/1e6/time.Since(began).Seconds())
	}

	var a protocol.Assignment
	timed("upload", func() {
		body := io.MultiReader(strings.NewReader("--"+boundary+"\r\nContent-Disposition: "+fileDisposition+"\r\n\r\n"),
			io.LimitReader(endless{}, size), strings.NewReader("\r\n--"+boundary+"--\r\n"))
		alice.do("POST", "/api/v1/jobs", body, header("Content-Type", "multipart/form-data; boundary="+boundary)).want(http.StatusCreated)
	})
	a = w.claim()
	sum := sha256.New()
	timed("input", func() { w.stream("GET", attemptPath(protocol.PathInput, a.ID), nil, sum, fenced(a.FencingToken)) })
	if fmt.Sprintf("%x", sum.Sum(nil)) != a.InputSHA256 {
		t.Fatal("the worker got another input")
	}
	timed("result", func() {
		w.do("PUT", attemptPath(protocol.PathResult, a.ID), io.LimitReader(endless{}, size), fenced(a.FencingToken), length(size),
			header(protocol.HeaderReprDigest, wire.FormatDigest([32]byte(sum.Sum(nil))))).want(http.StatusOK)
	})
	got := sha256.New()
	timed("download", func() { alice.stream("GET", "/api/v1/jobs/"+a.ID+"/result", nil, got) })
	if !bytes.Equal(got.Sum(nil), sum.Sum(nil)) {
		t.Fatal("the result differs")
	}
	close(stop)
	<-stopped
	grown := (most.Load() - before) >> 10
	t.Logf("resident: %d MiB before, grew by %d MiB", before>>10, grown)
	if grown > 64 {
		t.Errorf("memory grew by %d MiB", grown)
	}
}

// stream copies an answer's body to w.
func (c *caller) stream(method, path string, body io.Reader, w io.Writer, options ...option) {
	c.t.Helper()
	res, err := c.http.Do(c.request(method, path, body, options...))
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(w, res.Body); err != nil || res.StatusCode != http.StatusOK {
		c.t.Fatalf("%s %s: %d, %v", method, path, res.StatusCode, err)
	}
}

// TestShutdownFinishesWhatRunsAndLeavesNothingBehind: an upload in flight ends
// well, a new connection is refused, and no goroutine is left.
func TestShutdownFinishesWhatRunsAndLeavesNothingBehind(t *testing.T) {
	evidence.Proves(t, "REL-05")
	in := install(t)
	in.start(nil).stop() // what a first start leaves for good is not a leak
	leaks := goleak.IgnoreCurrent()
	s := in.start(nil)
	alice, w := s.user("alice"), s.worker("w-1")
	alice.submit([]byte("x"))
	w.claim()
	two, _ := s.http2Caller(alice)
	two.get("/api/v1/auth/me").want(http.StatusOK)

	done := make(chan *answer, 1)
	go func() {
		body := io.MultiReader(strings.NewReader("--"+boundary+"\r\nContent-Disposition: "+fileDisposition+"\r\n\r\n"),
			&paced{left: 50_000, piece: 1000, every: 30 * time.Millisecond}, strings.NewReader("\r\n--"+boundary+"--\r\n"))
		done <- alice.do("POST", "/api/v1/jobs", body, header("Content-Type", "multipart/form-data; boundary="+boundary))
	}()
	eventually(t, 10*time.Second, "the upload is in flight", func() bool { return in.count(`SELECT count(*) FROM app.uploads_in_flight`) == 1 })
	s.stop()
	(<-done).want(http.StatusCreated)
	if _, err := alice.try("GET", "/health", nil); err == nil {
		t.Error("a stopped server answers")
	}
	for _, c := range []*caller{alice, w, two} {
		c.http.CloseIdleConnections()
	}
	goleak.VerifyNone(t, leaks)
}

func TestReadyTellsWhetherTheServerCanWork(t *testing.T) {
	evidence.Proves(t, "API-08", "REL-01")
	s := startOne(t, nil)
	c := s.anonymous()
	c.get("/health").want(http.StatusOK)
	c.do("HEAD", "/health", nil).want(http.StatusOK)
	c.get("/ready").want(http.StatusOK)
	if err := os.Rename(s.storage+"/tmp", s.storage+"/away"); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(s.storage + "/away"); err != nil {
		t.Fatal(err)
	}
	var unready *answer
	eventually(t, 10*time.Second, "/ready notices that storage is gone", func() bool {
		unready = c.get("/ready")
		return unready.StatusCode == http.StatusServiceUnavailable
	})
	unready.refused(http.StatusServiceUnavailable, "unavailable")
	if unready.Header.Get("Retry-After") == "" || strings.Contains(string(unready.body), "storage") {
		t.Errorf("the answer is %s, %v", unready.body, unready.Header)
	}
	c.get("/health").want(http.StatusOK)
}

// TestADatabaseThatIsAwayIsATemporaryFault on every kind of request, and the
// server recovers.
func TestADatabaseThatIsAwayIsATemporaryFault(t *testing.T) {
	evidence.Proves(t, "API-03", "REL-01")
	in := install(t)
	s := in.start(nil)
	alice, w := s.user("alice"), s.worker("w-1")
	j := alice.submit([]byte("x"))
	lock(t, in, false)
	t.Cleanup(func() { lock(t, in, true) })
	for _, a := range []*answer{
		alice.get("/api/v1/auth/me"), alice.get("/api/v1/jobs/" + j.ID), alice.upload("a", []byte("x")), w.tryClaim("0s"),
		s.anonymous().json("POST", "/api/v1/auth/token", map[string]string{"login": "alice", "password": password}),
	} {
		a.refused(http.StatusServiceUnavailable, "unavailable")
		if strings.Contains(string(a.body), "database") || strings.Contains(string(a.body), "sql") {
			t.Errorf("the answer tells what is away: %s", a.body)
		}
	}
	lock(t, in, true)
	alice.get("/api/v1/auth/me").want(http.StatusOK)
	in.nothingStored(1)
}

// lock lets no connection of the server's role into the database, as when there
// are too many, or lets it in again.
func lock(t *testing.T, in *installation, open bool) {
	t.Helper()
	limit := map[bool]string{false: "0", true: "-1"}[open]
	for _, statement := range []string{
		"ALTER DATABASE " + in.db.Name + " CONNECTION LIMIT " + limit,
		`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND usename = '` + testdb.ServerRole + `'`,
	} {
		if _, err := in.admin.Exec(context.WithoutCancel(t.Context()), statement); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLogsHoldIdsAndNoSecrets drives everything at debug level and looks for the
// very secrets and bytes that were used.
func TestLogsHoldIdsAndNoSecrets(t *testing.T) {
	evidence.Proves(t, "REL-02")
	in := install(t)
	s := in.start(func(c *config.Config) {
		c.SecurityNotification.URL = secret.New("http://127.0.0.1:1/hook-secret-path")
		c.SecurityNotification.Threshold = 1
	})
	alice, w := s.user("alice"), s.worker("w-1")
	markers := []string{alice.token, strings.TrimPrefix(alice.token, "gbx_"), password, "a wrong password 4711", in.secret.Reveal(), "hook-secret-path",
		"file-content-marker", "result-content-marker", "query-marker", "idempotency-marker", "header-marker"}
	s.anonymous().json("POST", "/api/v1/auth/token", map[string]string{"login": "alice", "password": "a wrong password 4711"}).want(http.StatusUnauthorized)
	s.anonymous().do("POST", "/api/v1/auth/token", strings.NewReader(`{"login":"alice","password":"`+password+`"`), header("Content-Type", "application/json")).want(http.StatusBadRequest)
	s.anonymous().json("POST", "/api/v1/auth/token", map[string]string{"login": password, "password": "x"}).want(http.StatusUnauthorized)
	alice.get("/api/v1/auth/me?token=query-marker&x="+alice.token, header("X-Marker", "header-marker"), header("User-Agent", "header-marker")).want(http.StatusOK)
	j := alice.upload("a.lua", []byte("file-content-marker"), header("Idempotency-Key", "idempotency-marker")).want(http.StatusCreated).job()
	alice.upload("a.lua", []byte("file-content-marker 2"), header("Idempotency-Key", "idempotency-marker")).want(http.StatusUnprocessableEntity)
	a := w.claim()
	w.finish(a, []byte("result-content-marker")).want(http.StatusOK)
	alice.get("/api/v1/jobs/" + j.ID + "/result").want(http.StatusOK)
	alice.do("POST", "/api/v1/jobs", strings.NewReader("file-content-marker"), header("Content-Type", "multipart/form-data; boundary=x")).want(http.StatusBadRequest)
	answered := alice.get("/api/v1/jobs/" + j.ID)
	s.stop()
	logs := in.logs.String()
	for i, m := range markers {
		if strings.Contains(logs, m) {
			t.Errorf("marker %d (%.12s...) is in the log", i, m)
		}
	}
	for _, want := range []string{j.ID, answered.Header.Get("X-Request-Id"), `"level":"DEBUG"`, `"peer":"worker/w-1"`} {
		if !strings.Contains(logs, want) {
			t.Errorf("%s is not in the log", want)
		}
	}
}

func TestMetrics(t *testing.T) {
	s := startOne(t, nil)
	alice := s.user("alice")
	alice.submit([]byte("x"))
	alice.get("/api/v1/jobs/0197f0aa-0000-7000-8000-000000000001").want(http.StatusNotFound)
	alice.get("/no/such/route-4711").want(http.StatusNotFound)
	res, err := http.Get("http://" + s.main.MetricsAddr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`glovebox_jobs{status="pending"} 1`, `glovebox_jobs{status="processing"} 0`, "glovebox_queue_oldest_seconds", "glovebox_storage_free_bytes", "glovebox_jobs_dead_rows",
		`glovebox_http_request_duration_seconds_count{api="public",method="GET",route="/api/v1/jobs/{id}",status="404"} 1`,
		`glovebox_http_request_duration_seconds_count{api="public",method="GET",route="unmatched",status="404"} 1`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not among the metrics", want)
		}
	}
	if strings.Contains(string(text), "4711") {
		t.Error("a path that a stranger chose is a label")
	}
}
