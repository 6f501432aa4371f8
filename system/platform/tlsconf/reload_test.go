package tlsconf

import (
	"errors"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"glovebox/system/platform/pki"
	"glovebox/threat-model/evidence"
)

func TestRenewedPairIsTakenUpWithoutARestart(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "MTL-05")
	b := setup(t)
	certFile, keyFile := b.in.Worker("w-1")
	client, source := b.client(t, certFile, keyFile)
	if status, text := get(t, client, b.url); status != 200 || text != "worker w-1" {
		t.Fatalf("before: %d %q", status, text)
	}
	before := source.Leaf().SerialNumber
	if _, err := b.in.Renew(certFile); err != nil {
		t.Fatal(err)
	}
	if status, _ := get(t, client, b.url); status != 200 || b.accepted.Load() != 1 {
		t.Fatalf("within a second of the last look: status %d over %d connections, want the same one", status, b.accepted.Load())
	}
	b.clock.advance(2 * time.Second)
	if status, text := get(t, client, b.url); status != 200 || text != "worker w-1" {
		t.Fatalf("after: %d %q", status, text)
	}
	if source.Leaf().SerialNumber.Cmp(before) == 0 {
		t.Error("the renewed certificate was not taken up")
	}
	if n := b.accepted.Load(); n != 2 {
		t.Errorf("%d connections: the open one, made with the old certificate, was used again", n)
	}
}

func TestBrokenNewFilesKeepTheOld(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "MTL-05")
	b := setup(t)
	certFile, keyFile := b.in.Worker("w-1")
	_, foreignKey := b.in.Worker("w-2")
	workerClient, source := b.client(t, certFile, keyFile)
	good, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, breakIt := range map[string]func() error{
		"half a file":   func() error { return os.WriteFile(keyFile, good[:len(good)/2], 0o600) },
		"another's key": func() error { return os.Rename(foreignKey, keyFile) },
		"no file":       func() error { return os.Remove(keyFile) },
	} {
		if err := breakIt(); err != nil {
			t.Fatal(err)
		}
		complaints := b.log.count("cannot be used")
		for range 3 {
			b.clock.advance(2 * time.Second)
			workerClient.CloseIdleConnections()
			if status, text := get(t, workerClient, b.url); status != 200 || text != "worker w-1" {
				t.Fatalf("%s: %d %q", name, status, text)
			}
		}
		if n := b.log.count("cannot be used") - complaints; n != 1 {
			t.Errorf("%s: %d log lines, want one for the change", name, n)
		}
		if err := source.Reload(); err == nil {
			t.Errorf("%s: a reload by hand says all is well", name)
		}
		if err := os.WriteFile(keyFile, good, 0o600); err != nil {
			t.Fatal(err)
		}
		b.clock.advance(2 * time.Second)
		if status, _ := get(t, workerClient, b.url); status != 200 {
			t.Fatalf("%s: after the repair: %d", name, status)
		}
		if _, otherKey := b.in.At(time.Now()).Leaf(pki.Request{Kind: pki.Worker, ID: "w-2"}); otherKey != "" {
			foreignKey = otherKey
		}
	}
}

// An open connection is refused at the next request once the peer's certificate
// has ended, although the handshake was fine.
func TestOpenConnectionEndsWithTheCertificate(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "MTL-01")
	b := setup(t)
	certFile, keyFile := b.in.Leaf(pki.Request{Kind: pki.Worker, ID: "brief", Life: time.Hour})
	pair := b.in.Pair(certFile, keyFile)
	transport := &http.Transport{TLSClientConfig: forced(pair)} // a client that asks nothing of itself
	transport.TLSClientConfig.RootCAs = b.in.Pool(pki.Internal)
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	if status, text := get(t, client, b.url); status != 200 {
		t.Fatalf("before: %d %s", status, text)
	}
	b.clock.advance(59 * time.Minute)
	if status, text := get(t, client, b.url); status != 200 || b.accepted.Load() != 1 {
		t.Fatalf("shortly before the end: %d %s over %d connections", status, text, b.accepted.Load())
	}
	b.clock.advance(2 * time.Minute)
	if status, text := get(t, client, b.url); status != 401 || text != ErrPeerExpired.Error() || b.accepted.Load() != 1 {
		t.Fatalf("after the end: %d %q over %d connections, want a refusal on the open one", status, text, b.accepted.Load())
	}
	if _, _, err := tryGet(client, b.url); err == nil {
		t.Error("the expired certificate made a new connection")
	}
}

// The client's side of the same: a server whose certificate has ended gets no
// further request, and one that was renewed is met over a new connection.
func TestClientLeavesAConnectionWhoseServerHasEnded(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "MTL-05")
	b := setup(t)
	certFile, keyFile := b.in.Leaf(pki.Request{Kind: pki.Worker, ID: "w-1", Life: 300 * 24 * time.Hour})
	client, _ := b.client(t, certFile, keyFile)
	if status, _ := get(t, client, b.url); status != 200 {
		t.Fatal(status)
	}
	b.clock.advance(pki.DefaultLife + time.Hour)
	if _, _, err := tryGet(client, b.url); err == nil {
		t.Fatal("a request went to a server whose certificate has ended")
	}
	if _, err := b.in.At(b.clock.now()).Renew(b.files.Cert); err != nil {
		t.Fatal(err)
	}
	b.clock.advance(2 * time.Second)
	if status, _ := get(t, client, b.url); status != 200 {
		t.Fatal(status)
	}
}

// A whole rotation under load: old and new leaves side by side, not one request
// lost, and an open connection of the old authority refused once it is dropped.
func TestRotationLosesNoRequest(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "MTL-05", "MTL-01")
	b := setup(t)
	certFile, keyFile := b.in.Worker("w-1")
	client, _ := b.client(t, certFile, keyFile)
	lateFile, lateKey := b.in.Worker("late") // never renewed
	late := &http.Transport{TLSClientConfig: forced(b.in.Pair(lateFile, lateKey))}
	late.TLSClientConfig.InsecureSkipVerify = true // it stays behind in everything
	t.Cleanup(late.CloseIdleConnections)
	lateClient := &http.Client{Transport: late}
	if status, text := get(t, lateClient, b.url); status != 200 {
		t.Fatalf("late worker before: %d %s", status, text)
	}
	var (
		stop  = make(chan struct{})
		wg    sync.WaitGroup
		count atomic.Int64
		ticks = make(chan struct{}, 1)
	)
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				status, text, err := tryGet(client, b.url)
				if err != nil || status != 200 {
					t.Errorf("lost a request: %d %s %v", status, text, err)
					return
				}
				count.Add(1)
				select {
				case ticks <- struct{}{}:
				default:
				}
			}
		})
	}
	answers := func(n int) {
		t.Helper()
		for range n {
			select {
			case <-ticks:
			case <-time.After(20 * time.Second):
				t.Fatal("no more answers come")
			}
		}
	}
	after := func(n int) { // some requests after each step, under the old state and the new
		t.Helper()
		answers(n)
		b.clock.advance(2 * time.Second)
		answers(n)
	}
	after(5)
	if _, err := b.in.Rotate(pki.Internal); err != nil {
		t.Fatal(err)
	}
	after(5)
	for _, file := range []string{certFile, b.files.Cert} {
		if _, err := b.in.Renew(file); err != nil {
			t.Fatal(err)
		}
		after(5)
	}
	if status, text := get(t, lateClient, b.url); status != 200 {
		t.Errorf("late worker during the overlap: %d %s", status, text)
	}
	if _, err := b.in.FinishRotation(pki.Internal); err != nil {
		t.Fatal(err)
	}
	after(5)
	close(stop)
	wg.Wait()
	accepted := b.accepted.Load()
	if status, text := get(t, lateClient, b.url); status != 401 || text != ErrUntrusted.Error() || b.accepted.Load() != accepted {
		t.Errorf("late worker after the rotation: %d %q, want a refusal on its open connection", status, text)
	}
	t.Logf("%d requests, %d connections", count.Load(), accepted)
}

func TestCheckPeerWithoutACertificate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := b.source.CheckPeer(nil); !errors.Is(err, ErrNoPeer) {
		t.Errorf("got %v", err)
	}
}
