package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	platform "glovebox/system/platform/config"
	"glovebox/system/protocol"
	"glovebox/system/server/internal/config"
	"glovebox/threat-model/evidence"
)

// TestAForeignJobAndAMissingOneAreTheSameBytes for status, result, HEAD, and for
// ids in another form, the owner's included.
func TestAForeignJobAndAMissingOneAreTheSameBytes(t *testing.T) {
	evidence.Proves(t, "AUT-06", "JOB-07", "API-03")
	s := startOne(t, nil)
	alice, bob, w := s.user("alice"), s.user("bob"), s.worker("w-1")
	j := completed(alice, w, []byte("input"), []byte("result"))
	running := alice.submit([]byte("other"))

	for _, suffix := range []string{"", "/result"} {
		missing := bob.get("/api/v1/jobs/"+uuid.NewString()+suffix).refused(http.StatusNotFound, "not_found")
		for _, got := range []*answer{
			bob.get("/api/v1/jobs/" + j.ID + suffix), bob.get("/api/v1/jobs/" + running.ID + suffix),
			alice.get("/api/v1/jobs/" + strings.ToUpper(j.ID) + suffix), alice.get("/api/v1/jobs/{" + j.ID + "}" + suffix),
			alice.get("/api/v1/jobs/" + strings.ReplaceAll(j.ID, "-", "") + suffix), alice.get("/api/v1/jobs/" + j.ID + "%00" + suffix),
			alice.get("/api/v1/jobs/..%2f" + j.ID + suffix), alice.get("/api/v1/jobs/%2e%2e" + suffix), alice.get("/api/v1/jobs/1" + suffix),
			bob.get("/api/v1/jobs/"+j.ID+suffix, header("Range", "bytes=0-1"), header("If-None-Match", "*")),
		} {
			got.refused(http.StatusNotFound, "not_found")
			if !bytes.Equal(got.body, missing.body) || !sameHeaders(got.Header, missing.Header) {
				t.Errorf("%s: %q %v, missing: %q %v", got.Request.URL, got.body, got.Header, missing.body, missing.Header)
			}
		}
	}
	bob.do("HEAD", "/api/v1/jobs/"+j.ID+"/result", nil).want(http.StatusNotFound)
	// An owner by query or header is no owner.
	bob.get("/api/v1/jobs/"+j.ID+"?user_id=alice", header("X-User-Id", "alice"), header("X-Forwarded-User", "alice")).refused(http.StatusNotFound, "not_found")
	alice.get("/api/v1/jobs/" + j.ID).want(http.StatusOK)
}

// sameHeaders ignores what differs between any two requests.
func sameHeaders(a, b http.Header) bool {
	a, b = a.Clone(), b.Clone()
	for _, h := range []http.Header{a, b} {
		h.Del("Date")
		h.Del("X-Request-Id")
	}
	return fmt.Sprint(a) == fmt.Sprint(b)
}

// TestAForeignJobTakesAsLongAsAMissingOne compares medians of interleaved requests.
func TestAForeignJobTakesAsLongAsAMissingOne(t *testing.T) {
	evidence.Proves(t, "AUT-06")
	s := startOne(t, nil)
	alice, bob, w := s.user("alice"), s.user("bob"), s.worker("w-1")
	j := completed(alice, w, []byte("input"), bytes.Repeat([]byte("x"), 4<<20))
	measure := func(id string) time.Duration {
		began := time.Now()
		bob.get("/api/v1/jobs/" + id + "/result").want(http.StatusNotFound)
		return time.Since(began)
	}
	var foreign, missing []time.Duration
	for range 300 {
		foreign = append(foreign, measure(j.ID))
		missing = append(missing, measure(uuid.NewString()))
	}
	f, m := median(foreign), median(missing)
	t.Logf("medians: foreign %s, missing %s", f, m)
	if difference := (f - m).Abs(); difference > max(m/4, 200*time.Microsecond) {
		t.Errorf("medians differ by %s: foreign %s, missing %s", difference, f, m)
	}
}

func TestAResultIsNotServedBeforeTheJobIsCompleted(t *testing.T) {
	evidence.Proves(t, "JOB-07")
	s := startOne(t, nil)
	alice, w := s.user("alice"), s.worker("w-1")
	j := alice.submit([]byte("x"))
	path := "/api/v1/jobs/" + j.ID + "/result"
	alice.get(path).refused(http.StatusConflict, "job_not_completed")
	a := w.claim()
	alice.get(path).refused(http.StatusConflict, "job_not_completed")
	alice.do("HEAD", path, nil).want(http.StatusConflict)
	w.finish(a, []byte("result")).want(http.StatusOK)
	alice.get(path).want(http.StatusOK)
}

func TestDownloads(t *testing.T) {
	evidence.Proves(t, "STO-04", "JOB-05")
	s := startOne(t, nil)
	alice, w := s.user("alice"), s.worker("w-1")
	content := make([]byte, 1<<20+12345)
	_, _ = rand.Read(content)
	j := completed(alice, w, []byte("input"), content)
	path := "/api/v1/jobs/" + j.ID + "/result"

	whole := alice.get(path).want(http.StatusOK)
	tag := whole.Header.Get("ETag")
	for name, want := range map[string]string{
		"Content-Type": "application/octet-stream", "Content-Length": fmt.Sprint(len(content)), "Repr-Digest": digestOf(content),
		"Accept-Ranges": "bytes", "Etag": `"` + j.SHA256 + `"`, "Cache-Control": "private, no-store", "X-Content-Type-Options": "nosniff",
		"Content-Disposition": `attachment; filename="a.lua"`,
	} {
		if got := whole.Header.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	head := alice.do("HEAD", path, nil, header("Range", "bytes=0-9")).want(http.StatusOK)
	if len(head.body) != 0 || !sameHeaders(head.Header, whole.Header) {
		t.Errorf("HEAD has %v, GET %v", head.Header, whole.Header)
	}

	n := len(content)
	for _, c := range []struct {
		options  []option
		status   int
		from, to int
	}{
		{[]option{header("Range", "bytes=0-9")}, 206, 0, 10},
		{[]option{header("Range", fmt.Sprintf("bytes=%d-", n-7))}, 206, n - 7, n},
		{[]option{header("Range", "bytes=-5")}, 206, n - 5, n},
		{[]option{header("Range", "bytes=1000000-"), header("If-Range", tag)}, 206, 1000000, n},
		{[]option{header("Range", "bytes=1000000-"), header("If-Range", `"other"`)}, 200, 0, n},
		{[]option{header("Range", "bytes=1000000-"), header("If-Range", "W/"+tag)}, 200, 0, n},
		{[]option{header("Range", "bytes=1000000-"), header("If-Range", "Mon, 30 Nov 2099 00:00:00 GMT")}, 200, 0, n},
		{[]option{header("Range", "bytes=0-1,5-6")}, 200, 0, n},
		{[]option{header("Range", "bytes=9-1")}, 200, 0, n},
		{[]option{header("If-Match", tag)}, 200, 0, n},
		{[]option{header("If-None-Match", `"other", "more"`)}, 200, 0, n},
	} {
		got := alice.get(path, c.options...).want(c.status)
		if !bytes.Equal(got.body, content[c.from:c.to]) || got.Header.Get("Repr-Digest") != digestOf(content) {
			t.Errorf("%d to %d: %d other bytes", c.from, c.to, len(got.body))
		}
		if want := fmt.Sprintf("bytes %d-%d/%d", c.from, c.to-1, n); c.status == 206 && got.Header.Get("Content-Range") != want {
			t.Errorf("Content-Range is %q, want %q", got.Header.Get("Content-Range"), want)
		}
	}
	for _, bad := range []string{fmt.Sprintf("bytes=%d-", n), "bytes=-0"} {
		got := alice.get(path, header("Range", bad)).refused(http.StatusRequestedRangeNotSatisfiable, "range_not_satisfiable")
		if want := fmt.Sprintf("bytes */%d", n); got.Header.Get("Content-Range") != want {
			t.Errorf("Content-Range is %q, want %q", got.Header.Get("Content-Range"), want)
		}
	}
	for _, match := range []string{tag, "W/" + tag, "*", `"a", ` + tag} {
		if got := alice.get(path, header("If-None-Match", match)).want(http.StatusNotModified); len(got.body) != 0 || got.Header.Get("ETag") != tag {
			t.Errorf("304 has %q and %v", got.body, got.Header)
		}
	}
	alice.get(path, header("If-Match", `"other"`)).refused(http.StatusPreconditionFailed, "precondition_failed")
	alice.get(path, header("Range", "bytes=0-1"), header("Range", "bytes=2-3")).refused(http.StatusBadRequest, "invalid_request")
}

func TestAnEmptyResultIsAResult(t *testing.T) {
	s := startOne(t, nil)
	alice, w := s.user("alice"), s.worker("w-1")
	j := completed(alice, w, nil, nil)
	if j.Size == nil || *j.Size != 0 {
		t.Fatalf("job: %+v", j)
	}
	got := alice.get("/api/v1/jobs/" + j.ID + "/result").want(http.StatusOK)
	if len(got.body) != 0 || got.Header.Get("Content-Length") != "0" {
		t.Fatalf("%d bytes, %v", len(got.body), got.Header)
	}
}

// TestBytesThatChangedAreNeverServedAsGood: a flipped bit, a cut file, a link in
// the file's place.
func TestBytesThatChangedAreNeverServedAsGood(t *testing.T) {
	evidence.Proves(t, "JOB-05", "UPL-06")
	s := startOne(t, nil)
	alice, w := s.user("alice"), s.worker("w-1")
	for name, damage := range map[string]func(path string) error{
		"flipped": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt([]byte{'X'}, 100)
			return err
		},
		"cut":  func(path string) error { return os.Truncate(path, 10) },
		"gone": os.Remove,
		"a link": func(path string) error {
			if err := os.Rename(path, filepath.Join(s.storage, "elsewhere")); err != nil {
				return err
			}
			return os.Symlink(filepath.Join(s.storage, "elsewhere"), path)
		},
	} {
		j := completed(alice, w, []byte("input"), bytes.Repeat([]byte("result"), 1000))
		path := "/api/v1/jobs/" + j.ID + "/result"
		alice.get(path).want(http.StatusOK) // verified once already
		found, _ := filepath.Glob(filepath.Join(s.storage, "objects", "*", "result~"+j.ID+"*"))
		if len(found) != 1 {
			t.Fatalf("found %v", found)
		}
		if err := damage(found[0]); err != nil {
			t.Fatal(err)
		}
		for _, options := range [][]option{nil, {header("Range", "bytes=0-9")}} {
			a := alice.get(path, options...)
			t.Log(name)
			a.refused(http.StatusInternalServerError, "internal")
			if strings.Contains(string(a.body), "storage") || strings.Contains(string(a.body), "/") {
				t.Errorf("%s: the error tells %s", name, a.body)
			}
		}
	}
}

func TestAfterRetentionTheResultIsGone(t *testing.T) {
	evidence.Proves(t, "JOB-05", "STO-05")
	s := startOne(t, func(c *config.Config) { c.Retention.Duration = platform.Duration(time.Hour) })
	alice, bob, w := s.user("alice"), s.user("bob"), s.worker("w-1")
	j := completed(alice, w, []byte("input"), []byte("result"))
	expires, err := time.Parse(time.RFC3339, j.ExpiresAt)
	if err != nil || time.Until(expires) > time.Hour || time.Until(expires) < 59*time.Minute {
		t.Errorf("expires at %s (%v)", j.ExpiresAt, err)
	}
	if _, err := s.admin.Exec(t.Context(), `UPDATE app.jobs SET terminal_at = terminal_at - interval '2 hours'`); err != nil {
		t.Fatal(err)
	}
	alice.get("/api/v1/jobs/"+j.ID+"/result").refused(http.StatusGone, "result_expired")
	bob.get("/api/v1/jobs/"+j.ID+"/result").refused(http.StatusNotFound, "not_found")
	if got := alice.status(j.ID); got.Status != "completed" {
		t.Errorf("job: %+v", got)
	}
}

// TestEveryErrorHasTheOneForm on paths and methods that nobody offers.
func TestEveryErrorHasTheOneForm(t *testing.T) {
	evidence.Proves(t, "API-03", "API-09", "API-07")
	s := startOne(t, nil)
	alice, w := s.user("alice"), s.worker("w-1")
	id := uuid.NewString()
	for _, path := range []string{"/", "/api", "/api/v1", "/api/v1/", "/api/v2/jobs", "/api/v1/jobs/", "/api/v1/jobs/" + id + "/", "/api/v1/jobs/" + id + "/input", "/API/V1/JOBS",
		"//api/v1/jobs", "/api//v1/jobs", "/api/v1/../v1/auth/me", "/api/v1/jobs/" + id + "/result/x", "/health/", "/metrics", "/debug/pprof/", "/internal/v1/jobs/claim", "/favicon.ico", "/%2e%2e/%2e%2e/etc/passwd", "/.git/config"} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			alice.do(method, path, nil).refused(http.StatusNotFound, "not_found")
		}
	}
	for _, c := range []struct{ method, path, allow string }{
		{"GET", "/api/v1/jobs", "POST"}, {"PUT", "/api/v1/jobs", "POST"}, {"HEAD", "/api/v1/jobs", "POST"}, {"OPTIONS", "/api/v1/jobs", "POST"},
		{"PATCH", "/api/v1/jobs/" + id, "GET"}, {"PUT", "/api/v1/jobs/" + id, "GET"}, {"DELETE", "/api/v1/jobs/" + id, "GET"}, {"POST", "/api/v1/jobs/" + id + "/result", "GET, HEAD"},
		{"PUT", "/api/v1/jobs/" + id + "/result", "GET, HEAD"}, {"GET", "/api/v1/auth/token", "POST, DELETE"}, {"POST", "/api/v1/auth/me", "GET"}, {"TRACE", "/api/v1/auth/me", "GET"},
		{"BREW", "/api/v1/auth/me", "GET"}, {"POST", "/health", "GET, HEAD"}, {"CONNECT", "/health", "GET, HEAD"},
	} {
		a := alice.do(c.method, c.path, nil).refused(http.StatusMethodNotAllowed, "method_not_allowed")
		if got := a.Header.Get("Allow"); got != c.allow {
			t.Errorf("%s %s: Allow is %q, want %q", c.method, c.path, got, c.allow)
		}
	}
	alice.do("BREW", "/nowhere", nil).refused(http.StatusNotFound, "not_found")
	// A method by header is not a method.
	alice.do("POST", "/api/v1/jobs/"+id, nil, header("X-HTTP-Method-Override", "DELETE")).refused(http.StatusMethodNotAllowed, "method_not_allowed")
	for _, path := range []string{"/", "/health", "/api/v1/jobs", protocol.PathClaim + "/", attemptPath(protocol.PathInput, id) + "/x"} {
		w.get(path).refused(http.StatusNotFound, "not_found")
	}
	w.get(protocol.PathClaim).refused(http.StatusMethodNotAllowed, "method_not_allowed")
	w.do("POST", attemptPath(protocol.PathResult, id), nil).refused(http.StatusMethodNotAllowed, "method_not_allowed")
	// OPTIONS * is answered by the handler too.
	conn := s.raw(t)
	_, _ = fmt.Fprintf(conn, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
	readAnswer(t, conn, "OPTIONS").refused(http.StatusNotFound, "not_found")
}

func TestEveryAnswerHasItsSafetyHeadersAndAnId(t *testing.T) {
	evidence.Proves(t, "REL-02")
	s := startOne(t, nil)
	alice := s.user("alice")
	for _, a := range []*answer{alice.get("/health"), alice.get("/nowhere"), alice.get("/api/v1/auth/me"), s.anonymous().get("/api/v1/auth/me"), alice.get("/ready")} {
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox", "Strict-Transport-Security": "max-age=31536000",
		} {
			if got := a.Header.Values(name); len(got) != 1 || got[0] != want {
				t.Errorf("%s: %s is %q", a.Request.URL.Path, name, got)
			}
		}
		if _, err := uuid.Parse(a.Header.Get("X-Request-Id")); err != nil || a.Header.Get("Server") != "" || a.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: headers %v", a.Request.URL.Path, a.Header)
		}
	}
	own := uuid.NewString()
	if got := alice.get("/health", header("X-Request-Id", own)).Header.Get("X-Request-Id"); got != own {
		t.Errorf("the client's own id came back as %q", got)
	}
	for _, bad := range []string{"x", strings.ToUpper(own), own + "x", `{"level":"ERROR"}`, strings.Repeat("a", 5000)} {
		if got := alice.get("/health", header("X-Request-Id", bad)).Header.Get("X-Request-Id"); got == bad {
			t.Errorf("the id %.40q was taken over", bad)
		}
	}
}
