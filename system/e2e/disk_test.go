package e2e_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"glovebox/ci/local"
	"glovebox/threat-model/evidence"
)

// The storage of the disk tests, and how long results are kept in them.
const (
	diskBytes     = 64 << 20
	diskFloor     = 1 << 20 // limits.min_free_bytes
	diskRetention = 9 * time.Second
)

// TestDisk fills the storage's file system, makes it read-only, and lets results
// grow old, under one system.
func TestDisk(t *testing.T) {
	t.Parallel() // with the other tests of edges: all wait more than they work
	s := start(t, "disk", 22400, local.Options{
		Servers: 1, Workers: 1, Image: image(t, compile(t, "cores/acts.c")), StorageBytes: diskBytes,
		Set: []string{
			fmt.Sprintf("limits.min_free_bytes=%d limits.max_input_bytes=20971520 limits.max_result_bytes=20971520 retention.duration=%s", diskFloor, diskRetention),
			"sweeper.interval=500ms sandbox.timeout=50s",
		},
	})
	w := &edgeWorld{System: s, db: observer(t, s), people: []person{login(t, s, 0), login(t, s, 1)}}
	for _, part := range []struct {
		name string
		run  func(*testing.T, *edgeWorld)
	}{
		{"uploads to a full disk", fullUploadTest},
		{"a result for a full disk", fullResultTest},
		{"a disk that became read-only", readOnlyTest},
		{"after retention", retentionTest},
	} {
		t.Run(part.name, func(t *testing.T) {
			for i := range w.people {
				w.people[i].t = t
			}
			part.run(t, w)
		})
	}
}

// fill leaves room bytes on the storage's file system and returns what undoes it.
func fill(t *testing.T, w *edgeWorld, room int64) (empty func()) {
	t.Helper()
	path := filepath.Join(w.StorageRoot, "filler")
	empty = func() {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
	t.Cleanup(empty)
	var stat syscall.Statfs_t
	if err := syscall.Statfs(w.StorageRoot, &stat); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Fallocate(int(f.Fd()), 0, 0, int64(stat.Bavail)*stat.Bsize-room); err != nil {
		t.Fatal(err)
	}
	return empty
}

// stored lists the files of the storage, the filler aside.
func stored(t *testing.T, w *edgeWorld) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(w.StorageRoot, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && e.Name() != "filler" {
			files = append(files, path)
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil // swept while we looked
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// answers shows that the service goes on for what needs no space.
func answers(t *testing.T, w *edgeWorld) {
	t.Helper()
	c := w.people[0].caller(0)
	for _, path := range []string{"/health", "/api/v1/auth/me"} {
		if a := c.do("GET", path, nil); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

func fullUploadTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"UPL-04", "UPL-08", "REL-01"},
		Tried:        "uploads larger than the free space, with the floor reached before and while writing, and by the real client",
		Oracle:       "the answers, the files in the storage, observer's count of jobs, the file system's free space",
	})
	c := w.people[0].caller(0)
	files, jobs := len(stored(t, w)), jobCount(t, w)
	refused := func(what string, size int) {
		t.Helper()
		a, err := c.upload("large", make([]byte, size))
		if err != nil || a.status != http.StatusInsufficientStorage || a.code() != "insufficient_storage" {
			t.Errorf("%s: %d %s (%v)", what, a.status, a.body, err)
		}
	}
	empty := fill(t, w, diskFloor+2<<20)
	refused("the floor reached while writing", 12<<20)
	path := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(path, make([]byte, 12<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, exit := w.people[1].run("--timeout", "3s", "submit", path); exit != 8 || !strings.Contains(errs, "disk is full") {
		t.Errorf("the client: exit %d, %s", exit, errs)
	}
	small := c.created("small", []byte("there is room for this")) // control: no blind refusal
	empty()
	empty = fill(t, w, diskFloor/2)
	refused("below the floor from the start", 10)
	answers(t, w)
	w.people[0].must("status", small)
	if n := jobCount(t, w) - jobs; n != 1 {
		t.Errorf("%d jobs were made, want the small one", n)
	}
	empty()
	eventually(t, 10*time.Second, "nothing of the refused files is left", func() string {
		if now := stored(t, w); len(now) > files+2 { // the small one's input and result
			return fmt.Sprint(now)
		}
		return ""
	})
	again := c.created("large", make([]byte, 12<<20))
	if sum, size, err := c.await(again); err != nil || size != 12<<20 || sum != sha256.Sum256(make([]byte, 12<<20)) {
		t.Errorf("after the space came back: %d bytes (%v)", size, err)
	}
	clean(t, w.System)
}

// await waits for a job's end and downloads its result.
func (c caller) await(id string) (sum [32]byte, size int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c.waitFor(ctx, id)
	return c.download(id)
}

// The result of a run comes while the disk is full: nothing is completed or left
// half, and when there is space again the job completes with the whole result.
func fullResultTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"UPL-04", "STO-02", "JOB-05", "REL-01"},
		Tried:        "the disk fills up while the core runs; the result is larger than what is left",
		Oracle:       "observer's view and events, files in the storage, server's count of 507, the downloaded bytes",
	})
	content := append([]byte("#!act sleep 1000\n"), make([]byte, 8<<20)...)
	c := w.people[0].caller(0)
	id := c.created("late", content)
	empty := fill(t, w, diskFloor+1<<20)
	eventually(t, 30*time.Second, "the result was refused", func() string {
		return missing507(t, w)
	})
	if j := look(t, w.db, id); j.status == "completed" || j.status == "failed" {
		t.Errorf("the row says %+v", j)
	}
	if files := resultFiles(w.StorageRoot, id); len(files) > 0 {
		t.Errorf("files of a result that could not be stored: %v", files)
	}
	answers(t, w)
	empty()
	sum, size, err := c.await(id)
	if err != nil || size != 8<<20 || sum != sha256.Sum256(make([]byte, 8<<20)) {
		t.Errorf("after the space came back: %d bytes (%v), %+v, %v", size, err, look(t, w.db, id), history(t, w.db, id))
	}
	if n := count(history(t, w.db, id), ">completed"); n != 1 {
		t.Errorf("%d completions", n)
	}
	clean(t, w.System)
}

// missing507 reads in the server's own figures whether a result met a full disk.
func missing507(t *testing.T, w *edgeWorld) string {
	t.Helper()
	resp, err := http.Get(w.Metrics["server"].(string))
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(page)) {
		if strings.Contains(line, "507") && strings.Contains(line, "/result") && strings.Contains(line, "_count") {
			return ""
		}
	}
	return "no answer 507 to a result"
}

func remount(t *testing.T, w *edgeWorld, flags uintptr) error {
	t.Helper()
	return syscall.Mount("", w.StorageRoot, "", syscall.MS_REMOUNT|syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC|flags, fmt.Sprintf("size=%d", diskBytes))
}

func readOnlyTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"UPL-04", "STO-02", "REL-01"},
		Tried:        "the storage remounted read-only under the running servers, with a run in progress",
		Oracle:       "the answers, observer's view, the downloaded bytes of an older result, readiness",
	})
	c := w.people[0].caller(0)
	old := c.created("old", []byte("stored before"))
	if _, _, err := c.await(old); err != nil {
		t.Fatal(err)
	}
	id := c.created("running", []byte("#!act sleep 1500\nfor later"))
	jobs := jobCount(t, w)
	eventually(t, 20*time.Second, "the storage is read-only", func() string {
		if j := look(t, w.db, id); j.status != "processing" {
			return j.status
		}
		if err := remount(t, w, syscall.MS_RDONLY); err != nil {
			return err.Error() // a file is open for writing
		}
		return ""
	})
	t.Cleanup(func() { _ = remount(t, w, 0) })
	a, err := c.upload("x", []byte("refused"))
	if err != nil || a.status != http.StatusInsufficientStorage && a.status != http.StatusServiceUnavailable {
		t.Errorf("an upload got %d %s (%v)", a.status, a.body, err)
	}
	if n := jobCount(t, w); n != jobs {
		t.Errorf("%d jobs were made", n-jobs)
	}
	answers(t, w)
	if _, size, err := c.download(old); err != nil || size != int64(len("stored before")) {
		t.Errorf("an older result: %d bytes (%v)", size, err)
	}
	if a := c.do("GET", "/ready", nil); a.status != http.StatusServiceUnavailable {
		t.Errorf("ready says %d %s", a.status, a.body)
	}
	if err := remount(t, w, 0); err != nil {
		t.Fatal(err)
	}
	if sum, _, err := c.await(id); err != nil || sum != sha256.Sum256([]byte("for later")) {
		t.Errorf("the run in progress: %v, %+v", err, look(t, w.db, id))
	}
	eventually(t, 10*time.Second, "ready again", func() string {
		if a := c.do("GET", "/ready", nil); a.status != http.StatusOK {
			return string(a.body)
		}
		return ""
	})
	clean(t, w.System)
}

// retentionTest lets one result grow old while it is downloaded slowly and while
// another job, longer than the retention, runs.
func retentionTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"STO-05", "JOB-05"},
		Tried:        "a short retention: a result that is old, one being read by a slow reader meanwhile, and a job that runs for longer",
		Oracle:       "the answers, the files in the storage, the SHA-256 of the slow download, the result of the long job",
	})
	c := w.people[0].caller(0)
	content := make([]byte, 16<<20)
	for i := range content {
		content[i] = byte(i * i >> 8)
	}
	id := c.created("old", content)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c.waitFor(ctx, id)
	live := c.created("live", []byte(fmt.Sprintf("#!act sleep %d\nstill here", (diskRetention+5*time.Second).Milliseconds())))
	slow := slowDownload(t, w, c.token, id)
	if len(resultFiles(w.StorageRoot, id)) != 1 {
		t.Fatal("the result is not stored")
	}
	eventually(t, diskRetention+20*time.Second, "the old result is gone", func() string {
		slow.sip(t)
		if files := resultFiles(w.StorageRoot, id); len(files) > 0 {
			return "stored: " + files[0]
		}
		return ""
	})
	a := c.do("GET", "/api/v1/jobs/"+id+"/result", nil)
	if a.status != http.StatusGone || a.code() != "result_expired" {
		t.Errorf("the old result got %d %s", a.status, a.body)
	}
	// Every file but the live job's input is gone.
	eventually(t, 10*time.Second, "only the live job's input is stored", func() string {
		if files := stored(t, w); len(files) != 1 || !strings.Contains(files[0], "input") {
			return fmt.Sprint(files)
		}
		if j := look(t, w.db, live); j.status != "processing" {
			t.Fatalf("the live job is %+v: too early to say", j)
		}
		return ""
	})
	if slow.read >= int64(len(content)) {
		t.Fatal("the slow reader was done too early to prove anything")
	}
	if sum := slow.rest(t); sum != sha256.Sum256(content) || slow.read != int64(len(content)) {
		t.Errorf("the slow download has %d bytes of %d, or others", slow.read, len(content))
	}
	if sum, _, err := c.await(live); err != nil || sum != sha256.Sum256([]byte("still here")) {
		t.Errorf("the live job: %v %+v", err, look(t, w.db, live))
	}
	clean(t, w.System)
}

// sipper downloads a little at a time over a connection with a small window.
type sipper struct {
	body io.ReadCloser
	hash interface {
		io.Writer
		Sum([]byte) []byte
	}
	read int64
}

func slowDownload(t *testing.T, w *edgeWorld, token, id string) *sipper {
	t.Helper()
	dialer := &net.Dialer{Control: func(_, _ string, conn syscall.RawConn) error {
		var fault error
		if err := conn.Control(func(fd uintptr) {
			fault = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 32<<10)
		}); err != nil {
			return err
		}
		return fault
	}}
	// Over HTTP/1.1: no window beside the socket's.
	transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: trust(t, w.CAFile)}}
	t.Cleanup(transport.CloseIdleConnections)
	req, err := http.NewRequest("GET", w.PublicURL+"/api/v1/jobs/"+id+"/result", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := transport.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the slow download does not begin: %v %v", resp, err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return &sipper{body: resp.Body, hash: sha256.New()}
}

// sip reads enough for the server not to take the reader for a dead one.
func (s *sipper) sip(t *testing.T) {
	t.Helper()
	n, err := io.CopyN(s.hash, s.body, 16<<10)
	s.read += n
	if err != nil {
		t.Fatalf("the slow download was cut after %d bytes: %v", s.read, err)
	}
}

func (s *sipper) rest(t *testing.T) [32]byte {
	t.Helper()
	n, err := io.Copy(s.hash, s.body)
	s.read += n
	if err != nil {
		t.Errorf("the slow download was cut after %d bytes: %v", s.read, err)
	}
	return [32]byte(s.hash.Sum(nil))
}
