package tlsconf

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"glovebox/system/platform/logging"
	"glovebox/system/platform/pki"
	"glovebox/system/platform/pki/pkitest"
)

// A server of the standard library lingers half a second over a connection that it
// refused, also when it was closed.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// clock is a time that a test moves.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

func (l *lines) logger() *slog.Logger { return logging.New(l, "test", slog.LevelDebug) }

// bundle is an internal listener over a real socket, as the server runs it: the
// peer is asked again with each request.
type bundle struct {
	in       *pkitest.Installation
	clock    *clock
	log      *lines
	files    Files
	source   *Source
	url      string
	address  string
	accepted atomic.Int64
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{in: pkitest.New(t), clock: &clock{}, log: &lines{}}
	certFile, keyFile := b.in.InternalServer()
	b.files = Files{Cert: certFile, Key: keyFile, CA: b.in.Bundle(pki.Internal)}
	var err error
	b.source, err = open(b.files, b.log.logger(), b.clock.now)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.address = inner.Addr().String()
	b.url = "https://" + b.address + "/"
	server := &http.Server{
		TLSConfig:         b.source.MutualServer("http/1.1"),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(b.log.logger().Handler(), slog.LevelDebug),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				b.accepted.Add(1)
			}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := b.source.CheckPeer(r.TLS); err != nil {
				w.Header().Set("Connection", "close")
				http.Error(w, err.Error(), http.StatusUnauthorized)
				return
			}
			id, kind, ok := WorkerID(*r.TLS)
			if !ok {
				http.Error(w, "no identity", http.StatusForbidden)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, string(kind)+" "+id)
		}),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ServeTLS(inner, "", "")
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return b
}

// client opens a Source for a worker's pair with the listener's clock.
func (b *bundle) client(t *testing.T, certFile, keyFile string) (*http.Client, *Source) {
	t.Helper()
	source, err := open(Files{Cert: certFile, Key: keyFile, CA: b.in.Bundle(pki.Internal)}, b.log.logger(), b.clock.now)
	if err != nil {
		t.Fatal(err)
	}
	rt := source.RoundTripper(2)
	t.Cleanup(rt.CloseIdleConnections)
	return &http.Client{Transport: rt, Timeout: 20 * time.Second}, source
}

// get returns status and text; a transport error fails the test.
func get(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	status, text, err := tryGet(client, url)
	if err != nil {
		t.Fatal(err)
	}
	return status, text
}

func tryGet(client *http.Client, url string) (int, string, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, strings.NewReader("body"))
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	return resp.StatusCode, strings.TrimSpace(string(text)), err
}

// plainDial is a client without this package: it shows the listener config as a
// stranger meets it, and returns the first error of handshake and first read.
// In TLS 1.3 a refusal of the client's certificate arrives with the read.
func plainDial(t *testing.T, address string, config *tls.Config) error {
	t.Helper()
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}
