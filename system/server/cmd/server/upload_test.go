package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	platform "glovebox/system/platform/config"
	"glovebox/system/server/internal/config"
	"glovebox/threat-model/evidence"
)

const boundary = "XyZ"

// part is one part of a hand-made form.
func part(disposition, content string) string {
	return "--" + boundary + "\r\nContent-Disposition: " + disposition + "\r\n\r\n" + content + "\r\n"
}

const fileDisposition = `form-data; name="file"; filename="a.lua"`

// TestFormsThatAreNotWholeMakeNoJob sends forms byte by byte as no library would.
func TestFormsThatAreNotWholeMakeNoJob(t *testing.T) {
	evidence.Proves(t, "API-04", "API-07", "UPL-08", "AUT-06")
	s := startOne(t, nil)
	alice := s.user("alice")
	end := "--" + boundary + "--\r\n"
	file := part(fileDisposition, "content")
	long := strings.Repeat("x", 40<<10)
	for _, c := range []struct{ name, body string }{
		{"empty body", ""},
		{"no part", end},
		{"no closing delimiter", strings.TrimSuffix(file, "\r\n")},
		{"no closing delimiter after the line break", file},
		{"only half of the closing delimiter", file + "--" + boundary + "-"},
		{"another boundary", strings.ReplaceAll(file+end, boundary, "Other")},
		{"a second file", file + file + end},
		{"a field after the file", file + part(`form-data; name="note"`, "x") + end},
		{"a field before the file", part(`form-data; name="note"`, "x") + file + end},
		{"user_id before the file", part(`form-data; name="user_id"`, "1") + file + end},
		{"user_id after the file", file + part(`form-data; name="user_id"`, "1") + end},
		{"a part of another name", part(`form-data; name="File"; filename="a"`, "x") + end},
		{"an empty name", part(`form-data; name=""; filename="a"`, "x") + end},
		{"no name", part(`form-data; filename="a"`, "x") + end},
		{"two names", part(`form-data; name="file"; name="file"`, "x") + end},
		{"an extended name", part(`form-data; name*=UTF-8''file; filename="a"`, "x") + end},
		{"not form-data", part(`attachment; name="file"; filename="a"`, "x") + end},
		{"no disposition", "--" + boundary + "\r\nContent-Type: text/plain\r\n\r\nx\r\n" + end},
		{"two dispositions", "--" + boundary + "\r\nContent-Disposition: " + fileDisposition + "\r\nContent-Disposition: " + fileDisposition + "\r\n\r\nx\r\n" + end},
		{"a malformed header", "--" + boundary + "\r\nno colon here\r\n\r\nx\r\n" + end},
		{"a bare line feed in a header", "--" + boundary + "\r\nContent-Disposition: " + fileDisposition + "\n\r\n\r\nx\r\n" + end},
		{"a folded header", "--" + boundary + "\r\nContent-Disposition: form-data;\r\n name=\"file\"\r\n\r\nx\r\n" + end},
		{"headers without end", "--" + boundary + "\r\nContent-Disposition: " + fileDisposition},
		{"too many headers", "--" + boundary + "\r\n" + strings.Repeat("X-A: b\r\n", 20) + "Content-Disposition: " + fileDisposition + "\r\n\r\nx\r\n" + end},
		{"a header too long", "--" + boundary + "\r\nX-A: " + long + "\r\nContent-Disposition: " + fileDisposition + "\r\n\r\nx\r\n" + end},
		{"a preamble too long", strings.Repeat("preamble\r\n", 4<<10) + file + end},
		{"a preamble of one long line", long + "\r\n" + file + end},
		{"an epilogue too long", file + end + long},
		{"base64", "--" + boundary + "\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: " + fileDisposition + "\r\n\r\neA==\r\n" + end},
		{"a nested multipart, and no file", "--" + boundary + "\r\nContent-Type: multipart/mixed; boundary=in\r\nContent-Disposition: form-data; name=\"files\"\r\n\r\n--in--\r\n" + end},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, body := range []io.Reader{strings.NewReader(c.body), onlyReader{strings.NewReader(c.body)}} {
				alice.do("POST", "/api/v1/jobs", body, header("Content-Type", "multipart/form-data; boundary="+boundary)).refused(http.StatusBadRequest, "invalid_request")
			}
			s.nothingStored(0)
		})
	}
	if n := s.count(`SELECT count(*) FROM app.jobs`) + s.count(`SELECT count(*) FROM app.uploads_in_flight`); n != 0 {
		t.Fatalf("%d jobs or uploads were recorded", n)
	}
	// Controls: the same maker's whole forms are taken.
	for _, body := range []string{
		file + end, "short preamble\r\n" + file + end + "short epilogue", file + strings.TrimSuffix(end, "\r\n"),
		part(`form-data; name=file; filename=a.lua`, "content") + end, part(`form-data; name="file"`, "content") + end,
		part(fileDisposition, "") + end,
		part(fileDisposition, "--"+boundary+"x\r\n--Xy\r\n--") + end,
	} {
		alice.do("POST", "/api/v1/jobs", strings.NewReader(body), header("Content-Type", `multipart/form-data; boundary="`+boundary+`"`)).want(http.StatusCreated)
	}
}

func TestOnlyMultipartIsTaken(t *testing.T) {
	evidence.Proves(t, "API-07")
	s := startOne(t, nil)
	alice := s.user("alice")
	body := part(fileDisposition, "x") + "--" + boundary + "--\r\n"
	for _, kind := range []string{"", "application/json", "multipart/mixed; boundary=" + boundary, "text/plain", "multipart/form-data/x; boundary=" + boundary} {
		alice.do("POST", "/api/v1/jobs", strings.NewReader(body), header("Content-Type", kind)).refused(http.StatusUnsupportedMediaType, "unsupported_media_type")
	}
	for _, kind := range []string{"multipart/form-data", "multipart/form-data; boundary=", `multipart/form-data; boundary="a\"b"`, "multipart/form-data; boundary=" + strings.Repeat("x", 71)} {
		alice.do("POST", "/api/v1/jobs", strings.NewReader(body), header("Content-Type", kind)).refused(http.StatusBadRequest, "invalid_request")
	}
	for _, encoding := range []string{"gzip", "deflate, gzip", "br", "chunked"} {
		alice.upload("a", []byte("x"), header("Content-Encoding", encoding)).refused(http.StatusUnsupportedMediaType, "unsupported_media_type")
	}
	alice.upload("a", []byte("x"), header("Content-Encoding", "identity")).want(http.StatusCreated)
}

// TestHostileFileNamesStayLabels: nothing of a name is on disk, in a header that it
// could break, or in a log line of its own.
func TestHostileFileNamesStayLabels(t *testing.T) {
	evidence.Proves(t, "UPL-05", "UPL-06", "UPL-07")
	s := startOne(t, nil)
	alice, w := s.user("alice"), s.worker("w-1")
	for _, c := range []struct{ disposition, want string }{
		{`filename="../../../etc/passwd"`, `attachment; filename="passwd"`},
		{`filename="/etc/cron.d/evil"`, `attachment; filename="evil"`},
		{`filename="..\\..\\windows\\system.ini"`, `attachment; filename="system.ini"`},
		{`filename="C:\Users\me\a.lua"`, `attachment; filename="a.lua"`},
		{`filename=".."`, `attachment; filename="file"`},
		{`filename="."`, `attachment; filename="file"`},
		{`filename="/"`, `attachment; filename="file"`},
		{`filename=""`, `attachment; filename="file"`},
		{`filename="   "`, `attachment; filename="file"`},
		{`filename=".bashrc"`, `attachment; filename="bashrc"`},
		{"filename=\"a\x01\x1b[2J\x7fb\"", `attachment; filename="a[2Jb"`},
		{"filename=\"a\u202ecod.exe\u2066\"", `attachment; filename="acod.exe"`},
		{"filename=\"a\u200bb\ufeffc\"", `attachment; filename="abc"`},
		{"filename=\"a\xff\xfeb\"", `attachment; filename="ab"`},
		{`filename="a\"; filename=\"b"`, `attachment; filename="a__ filename=_b"; filename*=UTF-8''a%22%3B%20filename%3D%22b`},
		{`filename="100%41.lua"`, `attachment; filename="100_41.lua"; filename*=UTF-8''100%2541.lua`},
		{`filename="naïve-đ.lua"`, `attachment; filename="na_ve-_.lua"; filename*=UTF-8''na%C3%AFve-%C4%91.lua`},
		{`filename="x"; filename*=UTF-8''%2e%2e%2f%2e%2e%2fpasswd`, `attachment; filename="passwd"`},
		{`filename="x"; filename*=UTF-8''a%00b%0d%0aSet-Cookie:%20c`, `attachment; filename="abSet-Cookie: c"`},
		{`filename*=utf-8'en'a.lua`, `attachment; filename="a.lua"`},
		{`filename="plain.lua"; filename*=ISO-8859-1''%e4.lua`, `attachment; filename="plain.lua"`},
		{`filename="plain.lua"; filename*=UTF-8''%zz`, `attachment; filename="plain.lua"`},
		{`filename="one"; filename="two"`, `attachment; filename="one"`},
		{`filename="unterminated`, `attachment; filename="unterminated"`},
		{`filename=a b c`, `attachment; filename="a b c"`},
		{`filename`, `attachment; filename="file"`},
		{`;;=;filename="x"`, `attachment; filename="x"`},
		{`filename="` + strings.Repeat("a", 4000) + `.lua"`, `attachment; filename="` + strings.Repeat("a", 251) + `.lua"`},
		{`filename="` + strings.Repeat("đ", 1000) + `"`, `attachment; filename="` + strings.Repeat("_", 127) + `"; filename*=UTF-8''` + strings.Repeat("%C4%91", 127)},
	} {
		body := part(`form-data; name="file"; `+c.disposition, "content") + "--" + boundary + "--\r\n"
		j := alice.do("POST", "/api/v1/jobs", strings.NewReader(body), header("Content-Type", "multipart/form-data; boundary="+boundary)).want(http.StatusCreated).job()
		w.finish(w.claim(), []byte("result")).want(http.StatusOK)
		got := alice.get("/api/v1/jobs/" + j.ID + "/result").want(http.StatusOK)
		if h := got.Header.Values("Content-Disposition"); len(h) != 1 || h[0] != c.want {
			t.Errorf("%q: Content-Disposition is %q, want %q", c.disposition, h, c.want)
		}
		if len(got.Header.Values("Set-Cookie")) != 0 {
			t.Errorf("%q made a header", c.disposition)
		}
	}
	names, _ := filepath.Glob(filepath.Join(s.storage, "objects", "*", "*"))
	for _, name := range names {
		base := filepath.Base(name)
		if !strings.HasPrefix(base, "input~") && !strings.HasPrefix(base, "result~") {
			t.Errorf("storage holds %s", base)
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(s.logs.String()), "\n") {
		if !strings.HasPrefix(line, "{") || strings.ContainsAny(line, "\x1b\u202e") {
			t.Errorf("log line %q", line)
		}
	}
}

// TestAFileOverTheLimitIsRefused whatever length is declared, and leaves nothing.
func TestAFileOverTheLimitIsRefused(t *testing.T) {
	evidence.Proves(t, "UPL-01", "UPL-08")
	const limit = 2 << 20
	s := startOne(t, func(c *config.Config) { c.Limits.MaxInputBytes = limit })
	alice := s.user("alice")
	for _, n := range []int{limit + 1, limit + 30<<10, limit + 1<<20, 20 << 20} {
		content := make([]byte, n)
		alice.upload("a", content).refused(http.StatusRequestEntityTooLarge, "too_large")
		body, kind := form("a", content)
		alice.do("POST", "/api/v1/jobs", onlyReader{body}, kind).refused(http.StatusRequestEntityTooLarge, "too_large")
		s.nothingStored(0)
	}
	// An endless body in chunks.
	head := strings.NewReader("--" + boundary + "\r\nContent-Disposition: " + fileDisposition + "\r\n\r\n")
	alice.do("POST", "/api/v1/jobs", io.MultiReader(head, endless{}), header("Content-Type", "multipart/form-data; boundary="+boundary)).refused(http.StatusRequestEntityTooLarge, "too_large")
	s.nothingStored(0)
	if n := s.count(`SELECT count(*) FROM app.jobs`) + s.count(`SELECT count(*) FROM app.uploads_in_flight`); n != 0 {
		t.Fatalf("%d jobs or uploads were recorded", n)
	}
	alice.upload("a", make([]byte, limit)).want(http.StatusCreated)
	s.nothingStored(1)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// raw is a TLS connection for requests that no library would send.
func (s *server) raw(t *testing.T) net.Conn {
	t.Helper()
	conn, err := tls.Dial("tcp", s.main.PublicAddr().String(), s.tlsPublic("http/1.1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(60 * time.Second))
	return conn
}

func readAnswer(t *testing.T, conn net.Conn, method string) *answer {
	t.Helper()
	req, _ := http.NewRequest(method, "https://raw/", nil)
	res, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		t.Fatalf("read the answer: %v", err)
	}
	defer res.Body.Close()
	a := &answer{Response: res, t: t}
	a.body, a.err = io.ReadAll(res.Body)
	return a
}

// TestFramingThatLies: a body shorter than declared, a longer one, two lengths, a
// length beside chunks, chunks that are none. No job is made, and nothing of a
// body is ever taken for the next request.
func TestFramingThatLies(t *testing.T) {
	evidence.Proves(t, "UPL-01", "API-04", "UPL-08")
	s := startOne(t, nil)
	alice := s.user("alice")
	whole := part(fileDisposition, "content") + "--" + boundary + "--\r\n"
	head := "POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + alice.token + "\r\nContent-Type: multipart/form-data; boundary=" + boundary + "\r\n"
	chunk := func(b string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(b), b) }
	smuggled := "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, c := range []struct {
		name, request string
		hangUp        bool // close the sending side: the body ends early
	}{
		{"shorter than declared", head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(whole)+10) + whole, true},
		{"cut in the file", head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(whole)) + whole[:len(whole)-20], true},
		{"longer than declared", head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(whole)-20) + whole, false},
		{"two lengths", head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + whole, false},
		{"a negative length", head + "Content-Length: -1\r\n\r\n" + whole, false},
		{"a length that is none", head + "Content-Length: 0x10\r\n\r\n" + whole, false},
		{"chunks without end", head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(whole), true},
		{"chunks cut short", head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(whole)[:30], true},
		{"a chunk size that is none", head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + whole, false},
		{"another transfer encoding", head + "Transfer-Encoding: gzip, chunked\r\n\r\n" + chunk(whole) + "0\r\n\r\n", false},
		{"no length at all", head + "\r\n" + smuggled, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := s.raw(t)
			if _, err := io.WriteString(conn, c.request); err != nil {
				t.Fatal(err)
			}
			if c.hangUp {
				_ = conn.(*tls.Conn).CloseWrite()
			}
			a := readAnswer(t, conn, "POST")
			if a.StatusCode < 400 || a.StatusCode > 501 {
				t.Errorf("status %d", a.StatusCode)
			}
			if c.name != "no length at all" {
				if rest, _ := io.ReadAll(conn); bytes.Contains(rest, []byte("HTTP/1.1 200")) {
					t.Errorf("the body was taken for another request: %q", rest)
				}
			}
		})
	}
	// A client that leaves in mid-upload.
	conn := s.raw(t)
	_, _ = io.WriteString(conn, head+"Content-Length: 9000000\r\n\r\n"+whole[:strings.Index(whole, "content")]+strings.Repeat("x", 3<<20))
	eventually(t, 20*time.Second, "the upload is in progress", func() bool {
		files, _ := filepath.Glob(filepath.Join(s.storage, "tmp", "*"))
		return len(files) == 1
	})
	_ = conn.Close()
	eventually(t, 20*time.Second, "nothing is left of an upload whose client has gone", func() bool {
		files, _ := filepath.Glob(filepath.Join(s.storage, "tmp", "*"))
		return len(files) == 0 && s.count(`SELECT count(*) FROM app.uploads_in_flight`) == 0
	})
	s.nothingStored(0)
	if n := s.count(`SELECT count(*) FROM app.jobs`); n != 0 {
		t.Fatalf("%d jobs were made", n)
	}
}

func TestExpectContinueIsAnsweredBeforeTheBodyIsSent(t *testing.T) {
	evidence.Proves(t, "API-06")
	s := startOne(t, nil)
	alice := s.user("alice")
	head := "POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1000000000\r\nContent-Type: multipart/form-data; boundary=" + boundary + "\r\n"
	// Refusals come instead of "100 Continue": nobody uploads for nothing.
	conn := s.raw(t)
	_, _ = io.WriteString(conn, head+"\r\n")
	readAnswer(t, conn, "POST").refused(http.StatusUnauthorized, "unauthenticated")
	conn = s.raw(t)
	_, _ = io.WriteString(conn, head+"Authorization: Bearer "+alice.token+"\r\n\r\n")
	readAnswer(t, conn, "POST").refused(http.StatusRequestEntityTooLarge, "too_large")
	// The control: a good request is told to go on.
	body := part(fileDisposition, "x") + "--" + boundary + "--\r\n"
	conn = s.raw(t)
	_, _ = io.WriteString(conn, strings.Replace(head, "1000000000", fmt.Sprint(len(body)), 1)+"Authorization: Bearer "+alice.token+"\r\n\r\n")
	line := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	if _, err := io.ReadFull(conn, line); err != nil || !strings.HasPrefix(string(line), "HTTP/1.1 100") {
		t.Fatalf("got %q, %v", line, err)
	}
	_, _ = io.WriteString(conn, body)
	readAnswer(t, conn, "POST").want(http.StatusCreated)
}

func TestTheSameKeyMakesOneJob(t *testing.T) {
	evidence.Proves(t, "API-04")
	s := startOne(t, nil)
	alice, bob := s.user("alice"), s.user("bob")
	key := func(k string) option { return header("Idempotency-Key", k) }
	first := alice.upload("a.lua", []byte("one"), key("k")).want(http.StatusCreated).job()
	again := alice.upload("a.lua", []byte("one"), key("k")).want(http.StatusOK)
	if again.job().ID != first.ID || again.Header.Get("Idempotency-Replayed") != "true" || again.Header.Get("Location") != "/api/v1/jobs/"+first.ID {
		t.Fatalf("replay: %s %v", again.body, again.Header)
	}
	alice.upload("a.lua", []byte("two"), key("k")).refused(http.StatusUnprocessableEntity, "idempotency_mismatch")
	alice.upload("a.lua", []byte("two"), key("k"), header("Glovebox-File-Digest", digestOf([]byte("two")))).refused(http.StatusUnprocessableEntity, "idempotency_mismatch")
	if other := bob.upload("a.lua", []byte("one"), key("k")).want(http.StatusCreated).job(); other.ID == first.ID {
		t.Fatal("two users share a key")
	}
	// A digest that is wrong leaves the key free.
	for _, bad := range []string{"", "x", "sha-256=:AAAA:", "sha-512=:AAAA:", strings.Trim(digestOf([]byte("x")), ":"), digestOf([]byte("not these bytes"))} {
		alice.upload("a.lua", []byte("three"), key("free"), header("Glovebox-File-Digest", bad)).refused(http.StatusBadRequest, "invalid_request")
	}
	alice.upload("a.lua", []byte("three"), key("free"), header("Glovebox-File-Digest", digestOf([]byte("three")))).want(http.StatusCreated)
	for _, bad := range []string{"", "a b", "ké", strings.Repeat("k", 256), "\x7f"} {
		body, kind := form("a", []byte("x"))
		if a, err := alice.try("POST", "/api/v1/jobs", body, kind, key(bad)); err == nil {
			a.refused(http.StatusBadRequest, "invalid_request")
		}
	}
	alice.upload("a", []byte("x"), key("one"), key("two")).refused(http.StatusBadRequest, "invalid_request")
	alice.upload("a", []byte("x"), header("Glovebox-File-Digest", digestOf([]byte("x"))), header("Glovebox-File-Digest", digestOf([]byte("x")))).refused(http.StatusBadRequest, "invalid_request")
}

// TestManyEqualUploadsAtOnceMakeOneJob over two servers: one 201, the rest replays
// or 409, nothing else, and one job.
func TestManyEqualUploadsAtOnceMakeOneJob(t *testing.T) {
	evidence.Proves(t, "API-04", "ARC-05")
	in := install(t)
	roomy := func(c *config.Config) { c.Limits.UploadsPerUser = 1000 }
	servers := []*server{in.start(roomy), in.start(roomy)}
	alice := servers[0].user("alice")
	const n = 200
	var (
		all      sync.WaitGroup
		mu       sync.Mutex
		statuses = map[int]int{}
		ids      = map[string]bool{}
	)
	for i := range n {
		c := &caller{t: t, base: servers[i%2].publicURL, http: alice.http, token: alice.token}
		all.Go(func() {
			a := c.upload("a.lua", []byte("the same"), header("Idempotency-Key", "one"))
			mu.Lock()
			defer mu.Unlock()
			statuses[a.StatusCode]++
			switch a.StatusCode {
			case http.StatusCreated, http.StatusOK:
				ids[a.job().ID] = true
			default:
				a.refused(http.StatusConflict, "idempotency_in_flight")
				if a.Header.Get("Retry-After") == "" {
					t.Error("409 without Retry-After")
				}
			}
		})
	}
	all.Wait()
	t.Logf("statuses: %v", statuses)
	if statuses[http.StatusCreated] != 1 || len(ids) != 1 || in.count(`SELECT count(*) FROM app.jobs`) != 1 {
		t.Fatalf("statuses %v, %d ids", statuses, len(ids))
	}
	in.nothingStored(1)
}

// TestLimitsOfOneUserHoldOverAllServers for uploads at once, live jobs and bytes.
func TestLimitsOfOneUserHoldOverAllServers(t *testing.T) {
	evidence.Proves(t, "UPL-03", "UPL-10")
	in := install(t)
	limits := func(c *config.Config) {
		c.Limits.ActiveJobsPerUser, c.Limits.UploadsPerUser = 5, 100
		c.Limits.MaxInputBytes = platform.Bytes(1 << 20)
		c.Limits.StoredBytesPerUser = platform.Bytes(2 << 20)
	}
	servers := []*server{in.start(limits), in.start(limits)}
	alice, bob := servers[0].user("alice"), servers[1].user("bob")
	var all sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for i := range 20 {
		c := &caller{t: t, base: servers[i%2].publicURL, http: alice.http, token: alice.token}
		all.Go(func() {
			a := c.upload("a", []byte("x"))
			mu.Lock()
			defer mu.Unlock()
			if a.StatusCode == http.StatusCreated {
				made++
				return
			}
			a.refused(http.StatusTooManyRequests, "limit_exceeded")
			if a.Header.Get("Retry-After") == "" {
				t.Error("429 without Retry-After")
			}
		})
	}
	all.Wait()
	if made != 5 {
		t.Errorf("%d jobs were made, want 5", made)
	}
	bob.upload("a", make([]byte, 1<<20)).want(http.StatusCreated)
	bob.upload("a", make([]byte, 900<<10)).want(http.StatusCreated)
	bob.upload("a", make([]byte, 900<<10)).refused(http.StatusTooManyRequests, "limit_exceeded")
}

func TestUploadsAtOnceAreLimited(t *testing.T) {
	evidence.Proves(t, "UPL-03")
	s := startOne(t, func(c *config.Config) { c.Limits.UploadsPerUser = 2 })
	alice, bob := s.user("alice"), s.user("bob")
	finish := make(chan struct{})
	var held sync.WaitGroup
	for range 2 {
		head := strings.NewReader("--" + boundary + "\r\nContent-Disposition: " + fileDisposition + "\r\n\r\ncontent")
		tail := strings.NewReader("\r\n--" + boundary + "--\r\n")
		held.Go(func() {
			alice.do("POST", "/api/v1/jobs", io.MultiReader(head, waitReader{finish}, tail), header("Content-Type", "multipart/form-data; boundary="+boundary)).want(http.StatusCreated)
		})
	}
	eventually(t, 10*time.Second, "two uploads are in flight", func() bool { return s.count(`SELECT count(*) FROM app.uploads_in_flight`) == 2 })
	alice.upload("a", []byte("x")).refused(http.StatusTooManyRequests, "limit_exceeded")
	bob.upload("a", []byte("x")).want(http.StatusCreated)
	close(finish)
	held.Wait()
	alice.upload("a", []byte("x")).want(http.StatusCreated)
}

// waitReader gives nothing until it is told to end.
type waitReader struct{ until chan struct{} }

func (w waitReader) Read([]byte) (int, error) { <-w.until; return 0, io.EOF }
