package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	platform "glovebox/system/platform/config"
	"glovebox/system/server/internal/config"
	"glovebox/threat-model/evidence"
)

// impatient makes every timeout about a second, and the least rate 10 kB/s.
func impatient(c *config.Config) {
	second := platform.Duration(time.Second)
	c.HTTP.ReadHeaderTimeout, c.HTTP.IdleTimeout, c.HTTP.StallTimeout, c.HTTP.RateWindow = second, second, second, second
	c.HTTP.MinBytesPerSecond = 10_000
	c.Limits.MaxInputBytes, c.Limits.MaxResultBytes = 64<<20, 64<<20
}

// closedWithin requires that the server ends the connection, and returns what it
// sent before.
func closedWithin(t *testing.T, conn net.Conn, least, most time.Duration) string {
	t.Helper()
	began := time.Now()
	_ = conn.SetReadDeadline(began.Add(most))
	sent, err := io.ReadAll(conn)
	took := time.Since(began)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatalf("the connection is still open after %s; it sent %q", most, sent)
	}
	if took < least {
		t.Fatalf("the connection ended after %s already; it sent %q", took, sent)
	}
	return string(sent)
}

// drip sends text one byte at a time until it fails or ends.
func drip(conn net.Conn, text string, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := range len(text) {
		<-tick.C
		if _, err := conn.Write([]byte{text[i]}); err != nil {
			return
		}
	}
}

func TestSlowAndSilentConnectionsAreCutOff(t *testing.T) {
	evidence.Proves(t, "API-06")
	s := startOne(t, impatient)
	t.Run("no handshake", func(t *testing.T) {
		t.Parallel()
		conn, err := net.Dial("tcp", s.main.PublicAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		closedWithin(t, conn, 500*time.Millisecond, 5*time.Second)
	})
	t.Run("no request", func(t *testing.T) {
		t.Parallel()
		closedWithin(t, s.raw(t), 500*time.Millisecond, 5*time.Second)
	})
	t.Run("a header that never ends", func(t *testing.T) {
		t.Parallel()
		conn := s.raw(t)
		go drip(conn, "GET /health HTTP/1.1\r\nHost: x\r\n"+strings.Repeat("X-A: b\r\n", 1000), 50*time.Millisecond)
		closedWithin(t, conn, 500*time.Millisecond, 5*time.Second)
	})
	t.Run("idle after an answer", func(t *testing.T) {
		t.Parallel()
		conn := s.raw(t)
		_, _ = io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
		if sent := closedWithin(t, conn, 500*time.Millisecond, 5*time.Second); !strings.HasPrefix(sent, "HTTP/1.1 200") {
			t.Errorf("got %q", sent)
		}
	})
	t.Run("a body that nobody reads", func(t *testing.T) {
		t.Parallel()
		conn := s.raw(t)
		_, _ = io.WriteString(conn, "POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx")
		if sent := closedWithin(t, conn, 0, 8*time.Second); !strings.HasPrefix(sent, "HTTP/1.1 401") {
			t.Errorf("got %q", sent)
		}
	})
	t.Run("a header too large", func(t *testing.T) {
		t.Parallel()
		conn := s.raw(t)
		_, _ = io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: x\r\nX-A: "+strings.Repeat("a", 64<<10)+"\r\n\r\n")
		if sent := closedWithin(t, conn, 0, 8*time.Second); !strings.HasPrefix(sent, "HTTP/1.1 431") {
			t.Errorf("got %q", sent)
		}
	})
}

func TestSlowUploadsAreCutOffAndLeaveNothing(t *testing.T) {
	evidence.Proves(t, "API-06", "UPL-08")
	s := startOne(t, impatient)
	alice := s.user("alice")
	whole := part(fileDisposition, strings.Repeat("content ", 1000)) + "--" + boundary + "--\r\n"
	head := fmt.Sprintf("POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: multipart/form-data; boundary=%s\r\nContent-Length: %d\r\n\r\n", alice.token, boundary, len(whole))

	stalled := s.raw(t)
	_, _ = io.WriteString(stalled, head+whole[:5000])
	if sent := closedWithin(t, stalled, 500*time.Millisecond, 8*time.Second); !strings.HasPrefix(sent, "HTTP/1.1 408") || !strings.Contains(sent, `"request_timeout"`) {
		t.Errorf("a stalled body got %q", sent)
	}
	// One byte at a time never stalls, and is still too slow.
	trickling := s.raw(t)
	_, _ = io.WriteString(trickling, head+whole[:5000])
	go drip(trickling, whole[5000:], 100*time.Millisecond)
	if sent := closedWithin(t, trickling, 500*time.Millisecond, 8*time.Second); !strings.HasPrefix(sent, "HTTP/1.1 408") {
		t.Errorf("a trickling body got %q", sent)
	}
	s.nothingStored(0)
	if n := s.count(`SELECT count(*) FROM app.uploads_in_flight`) + s.count(`SELECT count(*) FROM app.jobs`); n != 0 {
		t.Errorf("%d uploads or jobs are left", n)
	}
	// The control: slow, for several times every timeout, and above the least rate.
	began := time.Now()
	body := io.MultiReader(strings.NewReader("--"+boundary+"\r\nContent-Disposition: "+fileDisposition+"\r\n\r\n"),
		&paced{left: 120_000, piece: 2000, every: 60 * time.Millisecond}, strings.NewReader("\r\n--"+boundary+"--\r\n"))
	alice.do("POST", "/api/v1/jobs", body, header("Content-Type", "multipart/form-data; boundary="+boundary)).want(http.StatusCreated)
	if took := time.Since(began); took < 3*time.Second {
		t.Errorf("the slow upload took %s only", took)
	}
}

// paced gives left bytes, a piece at a time.
type paced struct {
	left, piece int
	every       time.Duration
	tick        *time.Ticker
}

func (p *paced) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	if p.tick == nil {
		p.tick = time.NewTicker(p.every)
	}
	<-p.tick.C
	n := min(p.piece, p.left, len(b))
	p.left -= n
	return n, nil
}

func TestSlowDownloadsAreCutOff(t *testing.T) {
	evidence.Proves(t, "API-06")
	s := startOne(t, impatient)
	alice, w := s.user("alice"), s.worker("w-1")
	const size = 24 << 20
	j := completed(alice, w, []byte("input"), make([]byte, size))
	request := "GET /api/v1/jobs/" + j.ID + "/result HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + alice.token + "\r\n\r\n"

	stalled := s.raw(t)
	_, _ = io.WriteString(stalled, request)
	eventually(t, 15*time.Second, "the server gives a stalled reader up", func() bool { return strings.Contains(s.logs.String(), `"msg":"download broke off"`) })
	if n, err := io.Copy(io.Discard, stalled); err == nil && n >= size {
		t.Error("a reader that had stalled got everything")
	}
	// The control: slow, for several times every timeout, and above the least rate,
	// with the small receive window of a slow line.
	dialer := &net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 256<<10) })
	}}
	slow, err := tls.DialWithDialer(dialer, "tcp", s.main.PublicAddr().String(), s.tlsPublic("http/1.1"))
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	_, _ = io.WriteString(slow, strings.Replace(request, "\r\n\r\n", "\r\nRange: bytes=0-1999999\r\n\r\n", 1))
	began := time.Now()
	buf := make([]byte, 16<<10)
	tick := time.NewTicker(40 * time.Millisecond)
	defer tick.Stop()
	for got := 0; got < 2_000_000; {
		<-tick.C
		n, err := io.ReadFull(slow, buf[:min(len(buf), 2_000_000-got)])
		if err != nil {
			t.Fatalf("a slow reader was cut off after %d bytes: %v", got, err)
		}
		got += n
	}
	if took := time.Since(began); took < 3*time.Second {
		t.Errorf("the slow download took %s only", took)
	}
}

// TestALongPollOutlivesEveryTimeout: waiting on the server's side is nobody's slowness.
func TestALongPollOutlivesEveryTimeout(t *testing.T) {
	evidence.Proves(t, "API-02", "API-06")
	s := startOne(t, impatient)
	w := s.worker("w-1")
	began := time.Now()
	w.tryClaim("4s").want(http.StatusNoContent)
	if took := time.Since(began); took < 3500*time.Millisecond {
		t.Errorf("the poll ended after %s", took)
	}
	w.tryClaim("0s").want(http.StatusNoContent) // and the connection is still good
}

// http2Caller shares one connection per dial and counts the dials.
func (s *server) http2Caller(c *caller) (*caller, *atomic.Int32) {
	var dials atomic.Int32
	transport := &http.Transport{
		ForceAttemptHTTP2: true,
		DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return (&tls.Dialer{Config: s.tlsPublic("h2")}).DialContext(ctx, network, addr)
		},
	}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &caller{t: s.t, base: c.base, token: c.token, http: &http.Client{Transport: transport, Timeout: time.Minute}}, &dials
}

func TestHTTP2(t *testing.T) {
	evidence.Proves(t, "API-06")
	s := startOne(t, func(c *config.Config) {
		impatient(c)
		c.HTTP.IdleTimeout = platform.Duration(time.Minute) // a slow machine's pauses are not the subject
		c.HTTP.MaxConcurrentStreams = 4
	})
	alice, w := s.user("alice"), s.worker("w-1")
	two, dials := s.http2Caller(alice)

	content := bytes.Repeat([]byte("0123456789"), 500_000)
	body, kind := form("a.lua", content)
	created := two.do("POST", "/api/v1/jobs", body, kind).want(http.StatusCreated)
	if created.Proto != "HTTP/2.0" {
		t.Fatalf("the protocol is %s", created.Proto)
	}
	a := w.claim()
	if got := w.get(attemptPath("/internal/v1/jobs/{id}/input", a.ID), fenced(a.FencingToken)).want(http.StatusOK); !bytes.Equal(got.body, content) || got.Proto != "HTTP/1.1" {
		t.Fatalf("the input differs, or came by %s", got.Proto)
	}
	w.finish(a, content).want(http.StatusOK)
	path := "/api/v1/jobs/" + a.ID + "/result"
	if got := two.get(path).want(http.StatusOK); !bytes.Equal(got.body, content) {
		t.Fatal("the result differs")
	}
	two.do("POST", "/api/v1/jobs", io.MultiReader(strings.NewReader("--"+boundary+"\r\nContent-Disposition: "+fileDisposition+"\r\n\r\n"), endless{}),
		header("Content-Type", "multipart/form-data; boundary="+boundary)).refused(http.StatusRequestEntityTooLarge, "too_large")

	// A stream that stalls is cut off and does not hurt another on its connection.
	before := dials.Load()
	var stalled sync.WaitGroup
	stalled.Go(func() {
		body := &stallingBody{Reader: strings.NewReader("--" + boundary + "\r\nContent-Disposition: " + fileDisposition + "\r\n\r\ncontent"), closed: make(chan struct{})}
		two.do("POST", "/api/v1/jobs", body, header("Content-Type", "multipart/form-data; boundary="+boundary)).refused(http.StatusRequestTimeout, "request_timeout")
	})
	slow := io.MultiReader(strings.NewReader("--"+boundary+"\r\nContent-Disposition: "+fileDisposition+"\r\n\r\n"),
		&paced{left: 100_000, piece: 2000, every: 60 * time.Millisecond}, strings.NewReader("\r\n--"+boundary+"--\r\n"))
	two.do("POST", "/api/v1/jobs", slow, header("Content-Type", "multipart/form-data; boundary="+boundary)).want(http.StatusCreated)
	stalled.Wait()
	if n := dials.Load(); n != before {
		t.Errorf("%d connections were made for two streams, want none", n-before)
	}
	eventually(t, 10*time.Second, "no upload is in flight", func() bool { return s.count(`SELECT count(*) FROM app.uploads_in_flight`) == 0 })

	// More streams than the cap do not fit one connection. A response that nobody
	// reads keeps its stream open.
	var open []*http.Response
	for range 9 {
		res, err := two.http.Do(two.request("GET", path, nil))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, res)
	}
	if n := dials.Load(); n < 3 {
		t.Errorf("nine streams at once fitted %d connections with a cap of 4", n)
	}
	for _, res := range open {
		_ = res.Body.Close()
	}
}

// stallingBody gives what its reader has, and then nothing until it is closed.
type stallingBody struct {
	*strings.Reader
	closed chan struct{}
	once   sync.Once
}

func (b *stallingBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		<-b.closed
	}
	return n, err
}

func (b *stallingBody) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{b}) }

func (b *stallingBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

// TestConnectionsAreCapped in all and from one address.
func TestConnectionsAreCapped(t *testing.T) {
	evidence.Proves(t, "API-06", "REL-01")
	s := startOne(t, func(c *config.Config) { c.HTTP.MaxConnections = 12 }) // 3 from one address
	var open []net.Conn
	for range 3 {
		conn := s.raw(t)
		_, _ = io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
		readAnswer(t, conn, "GET").want(http.StatusOK)
		open = append(open, conn)
	}
	if conn, err := tls.Dial("tcp", s.main.PublicAddr().String(), s.tlsPublic()); err == nil {
		_ = conn.Close()
		t.Fatal("a fourth connection from one address was taken")
	}
	_ = open[0].Close()
	eventually(t, 5*time.Second, "a place is free again", func() bool {
		conn, err := tls.Dial("tcp", s.main.PublicAddr().String(), s.tlsPublic())
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// TestTheServerAnswersWhileLargeFilesMove (REL-01): health within a bound while
// uploads run.
func TestTheServerAnswersWhileLargeFilesMove(t *testing.T) {
	evidence.Proves(t, "REL-01")
	s := startOne(t, func(c *config.Config) { c.Limits.MaxInputBytes = 256 << 20 })
	alice := s.user("alice")
	var uploads sync.WaitGroup
	for range 4 {
		uploads.Go(func() {
			body := io.MultiReader(strings.NewReader("--"+boundary+"\r\nContent-Disposition: "+fileDisposition+"\r\n\r\n"),
				io.LimitReader(endless{}, 200<<20), strings.NewReader("\r\n--"+boundary+"--\r\n"))
			alice.do("POST", "/api/v1/jobs", body, header("Content-Type", "multipart/form-data; boundary="+boundary)).want(http.StatusCreated)
		})
	}
	eventually(t, 20*time.Second, "uploads are in flight", func() bool {
		files, _ := filepath.Glob(filepath.Join(s.storage, "tmp", "*"))
		return len(files) == 4
	})
	var waits []time.Duration
	for range 30 {
		began := time.Now()
		alice.get("/api/v1/auth/me").want(http.StatusOK)
		waits = append(waits, time.Since(began))
	}
	uploads.Wait()
	m := median(waits)
	t.Logf("median answer while 4 x 200 MiB move: %s, worst %s", m, waits[len(waits)-1])
	if m > 500*time.Millisecond {
		t.Errorf("the median answer took %s", m)
	}
}
