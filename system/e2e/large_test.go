package e2e_test

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/ci/local"
	"glovebox/threat-model/evidence"
)

// largeDefault is the size of each large file where GLOVEBOX_E2E_LARGE does not say
// another; the full size is 1GiB.
const (
	largeEnv     = "GLOVEBOX_E2E_LARGE"
	largeDefault = 96 << 20
	largeAtOnce  = 4
	// grownMost is what no process may grow by, however large the files are (UPL-02).
	grownMost = 64 << 20
)

func largeSize(t *testing.T) int64 {
	t.Helper()
	text := os.Getenv(largeEnv)
	if text == "" {
		return largeDefault
	}
	number, unit := strings.TrimRight(text, "GMiB"), int64(1)
	switch {
	case strings.HasSuffix(text, "GiB"):
		unit = 1 << 30
	case strings.HasSuffix(text, "MiB"):
		unit = 1 << 20
	}
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil || n < 1 || n*unit < 8<<20 {
		t.Fatalf("%s=%q is no size; wanted one such as 96MiB or 1GiB", largeEnv, text)
	}
	return n * unit
}

// TestAnotherCoreDropsIn: another image that keeps the contract, and files that are
// larger than what any process may hold.
func TestAnotherCoreDropsIn(t *testing.T) {
	size := largeSize(t)
	s := start(t, "copy", 21200, local.Options{
		Workers: 2, Image: image(t, "out/core/copy"),
		Set: []string{fmt.Sprintf("limits.max_input_bytes=%d limits.max_result_bytes=%d sandbox.timeout=10m jobs.timeout=600s", size, size)},
	})
	t.Run("any bytes", func(t *testing.T) {
		evidence.Record(t, evidence.Claim{
			Requirements: []string{"COR-02", "ARC-07"},
			Tried:        "a core that copies its input, named in configuration alone",
			Oracle:       "bytes of the downloaded file",
		})
		p := login(t, s, 0)
		dir := t.TempDir()
		path := filepath.Join(dir, "any.bin")
		content := strings.Repeat("\x00\xff not Lua at all ", 100000)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		p.must("process", path, "-o", filepath.Join(dir, "out.bin"))
		got, err := os.ReadFile(filepath.Join(dir, "out.bin"))
		if err != nil || string(got) != content {
			t.Fatalf("%d bytes came back of %d (%v)", len(got), len(content), err)
		}
		clean(t, s)
	})
	t.Run("large files", func(t *testing.T) { largeFilesTest(t, s, size) })
	t.Run("upload speed", func(t *testing.T) { uploadSpeed(t, s, size) })
}

// largeFilesTest sends four at once through everything and looks at the peaks.
func largeFilesTest(t *testing.T, s *local.System, size int64) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"UPL-02", "REL-01", "STO-04"},
		Tried:        fmt.Sprintf("%d files of %d MiB at once through upload, worker, result and download", largeAtOnce, size>>20),
		Oracle:       "the kernel's peak of resident memory of each process, reset before; SHA-256 of what came back",
	})
	dir := t.TempDir()
	people := []person{login(t, s, 0), login(t, s, 1)}
	small := filepath.Join(dir, "small")
	if err := os.WriteFile(small, []byte("small"), 0o600); err != nil {
		t.Fatal(err)
	}
	idleClient := people[0].peak(t, "process", small, "-o", small+".out")
	processes := []string{"server-0", "worker-0", "worker-1", "launcher-0", "launcher-1"}
	before := map[string]int64{}
	for _, name := range processes {
		before[name] = resetPeak(t, s, name)
	}
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		clients int64
		began   = time.Now()
	)
	for i := range largeAtOnce {
		in, out := filepath.Join(dir, fmt.Sprint("in", i)), filepath.Join(dir, fmt.Sprint("out", i))
		want := writeRandom(t, in, size)
		wg.Go(func() {
			peak := people[i%2].peak(t, "process", in, "-o", out)
			mu.Lock()
			clients = max(clients, peak)
			mu.Unlock()
			if got, err := sumOf(out); err != nil || got != want {
				t.Errorf("file %d came back as another (%v)", i, err)
			}
		})
	}
	wg.Wait()
	t.Logf("%d files of %d MiB took %s", largeAtOnce, size>>20, time.Since(began).Round(100*time.Millisecond))
	report := func(name string, idle, peak int64) {
		t.Logf("%-10s idle %5.1f MiB, peak %5.1f MiB", name, float64(idle)/(1<<20), float64(peak)/(1<<20))
		if peak-idle >= grownMost {
			t.Errorf("%s grew by %d MiB", name, (peak-idle)>>20)
		}
	}
	report("client", idleClient, clients)
	for _, name := range processes {
		report(name, before[name], memory(t, s, name, "VmHWM"))
	}
	clean(t, s)
}

// peak runs the client and returns the most memory it held. The kernel's word at
// the process's end will not do: it counts what this process held at the fork.
func (p person) peak(t *testing.T, args ...string) (most int64) {
	cmd := p.command(args...)
	var text strings.Builder
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return 0
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		if kib, ok := statusLine(cmd.Process.Pid, "VmHWM"); ok {
			most = max(most, kib)
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("glovebox %s: %v: %s", strings.Join(args, " "), err, text.String())
			}
			return most
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// resetPeak makes the kernel forget a process's peak and returns what it holds now.
func resetPeak(t *testing.T, s *local.System, name string) int64 {
	t.Helper()
	p, alive := s.Process(name)
	if !alive {
		t.Fatalf("%s does not run", name)
	}
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
	return memory(t, s, name, "VmRSS")
}

// memory reads a line of a process's status, in bytes.
func memory(t *testing.T, s *local.System, name, line string) int64 {
	t.Helper()
	p, _ := s.Process(name)
	bytes, ok := statusLine(p.PID, line)
	if !ok {
		t.Fatalf("%s has no line %s", name, line)
	}
	return bytes
}

// statusLine reads a size from a process's status; false when it has gone.
func statusLine(pid int, line string) (bytes int64, ok bool) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	for text := range strings.Lines(string(content)) {
		if n, _ := fmt.Sscanf(text, line+": %d kB", &bytes); n == 1 {
			return bytes << 10, true
		}
	}
	return 0, false
}

// writeRandom makes a file that nothing on the way can compress or share.
func writeRandom(t *testing.T, path string, size int64) (sum [32]byte) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(f, hash), rand.Reader, size); err != nil {
		t.Fatal(err)
	}
	return [32]byte(hash.Sum(nil))
}

func sumOf(path string) (sum [32]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, f)
	return [32]byte(hash.Sum(nil)), err
}

// uploadSpeed prints the upload's rate beside that of the least that any server
// must do with the same bytes, in the same run: TLS, SHA-256 and a synced file,
// overlapped. It asserts nothing of time, which a busy machine bends.
func uploadSpeed(t *testing.T, s *local.System, size int64) {
	path := filepath.Join(t.TempDir(), "file")
	writeRandom(t, path, size)
	p := login(t, s, 0)
	c := p.caller(0)
	base := baseline(t, s)
	rate := func(url, token string, status int) float64 {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		body := io.MultiReader(strings.NewReader(formHead("file")), f, strings.NewReader(formTail))
		req, err := http.NewRequest("POST", url, body)
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = int64(len(formHead("file"))+len(formTail)) + size
		req.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
		req.Header.Set("Authorization", "Bearer "+token)
		began := time.Now()
		resp, err := c.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != status {
			t.Fatalf("%s: status %d (%v)", url, resp.StatusCode, err)
		}
		return float64(size) / 1e6 / time.Since(began).Seconds()
	}
	const rounds = 3
	var ours, theirs []float64
	for range rounds { // interleaved
		ours = append(ours, rate(c.base+"/api/v1/jobs", c.token, http.StatusCreated))
		theirs = append(theirs, rate(base, "", http.StatusOK))
	}
	t.Logf("upload of %d MiB: %.0f MB/s of best %d, pipelined baseline %.0f MB/s, ratio %.2f", size>>20, best(ours), rounds, best(theirs), best(ours)/best(theirs))
}

func best(rates []float64) (most float64) {
	for _, r := range rates {
		most = max(most, r)
	}
	return most
}

// baseline is a server that takes a body over TLS, hashes it and writes it to a
// synced file on the storage's disk, with reading, hashing and writing overlapped.
func baseline(t *testing.T, s *local.System) string {
	t.Helper()
	dir := filepath.Join(filepath.Dir(s.BinDir), "tls", "server")
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "server-main-public.crt"), filepath.Join(dir, "server-main-public.key"))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target, err := os.MkdirTemp(filepath.Dir(s.BinDir), "baseline-") // goes with the system
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{pair}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := pipeline(r.Body, target); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}),
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	return "https://" + listener.Addr().String() + "/"
}

// pipeline stores body in a new file of dir: one goroutine reads, one hashes, one
// writes, over four buffers of 1 MiB, with write-back begun every 32 MiB.
func pipeline(body io.Reader, dir string) error {
	f, err := os.CreateTemp(dir, "")
	if err != nil {
		return err
	}
	defer f.Close()
	type piece struct{ buffer, filled []byte }
	free, toHash, toWrite := make(chan []byte, 4), make(chan piece, 4), make(chan piece, 4)
	for range cap(free) {
		free <- make([]byte, 1<<20)
	}
	hash, written := sha256.New(), make(chan error, 1)
	go func() {
		defer close(toWrite)
		for p := range toHash {
			hash.Write(p.filled)
			toWrite <- p
		}
	}()
	go func() {
		var fault error
		var at, flushed int64
		for p := range toWrite {
			if _, err := f.Write(p.filled); err != nil {
				fault = err
			}
			if at += int64(len(p.filled)); at-flushed >= 32<<20 {
				_ = unix.SyncFileRange(int(f.Fd()), flushed, at-flushed, unix.SYNC_FILE_RANGE_WRITE)
				flushed = at
			}
			free <- p.buffer
		}
		written <- errors.Join(fault, f.Sync())
	}()
	for {
		buffer := <-free
		n, err := io.ReadFull(body, buffer)
		toHash <- piece{buffer, buffer[:n]}
		if err != nil {
			close(toHash)
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = nil
			}
			return errors.Join(err, <-written)
		}
	}
}
