package e2e_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"glovebox/threat-model/evidence"
)

// adminCommand runs an operator's command as the manual says.
func (w *edgeWorld) adminCommand(args ...string) (string, error) {
	if args[0] != "pki" {
		args = append(args, "--config", w.AdminConfig)
	}
	out, err := exec.Command(filepath.Join(w.BinDir, "glovebox-server"), args...).CombinedOutput()
	return string(out), err
}

func (w *edgeWorld) admin(t *testing.T, args ...string) string {
	t.Helper()
	out, err := w.adminCommand(args...)
	if err != nil {
		t.Fatalf("glovebox-server %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return out
}

// seenNow reports whether `worker list` shows that the worker has ever been heard.
func seenNow(list, id string) bool {
	for line := range strings.Lines(list) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == id {
			return !strings.HasPrefix(fields[2], "never") && fields[2] != "-"
		}
	}
	return false
}

// visits is a stand-in for a server that is away: it has the server's certificate,
// answers 503, and notes who comes, when, and with which certificate.
type visits struct {
	server *http.Server

	mu      sync.Mutex
	times   []time.Time
	serials map[string]bool
}

// standIn listens at the internal address of server i, whose process must not run.
func standIn(t *testing.T, w *edgeWorld, i int) *visits {
	t.Helper()
	tlsDir := filepath.Join(filepath.Dir(w.BinDir), "tls", "server")
	pair, err := tls.LoadX509KeyPair(filepath.Join(tlsDir, "server-main-internal.crt"), filepath.Join(tlsDir, "server-main-internal.key"))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", strings.TrimPrefix(w.Servers[i].InternalURL, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	v := &visits{serials: map[string]bool{}}
	v.server = &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trust(t, w.InternalCAFile)},
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			v.mu.Lock()
			v.times = append(v.times, time.Now())
			v.serials[fmt.Sprintf("%032x", r.TLS.PeerCertificates[0].SerialNumber)] = true
			v.mu.Unlock()
			rw.WriteHeader(http.StatusServiceUnavailable)
		}),
	}
	go func() { _ = v.server.ServeTLS(listener, "", "") }()
	return v
}

func (v *visits) close() { _ = v.server.Close() }

func (v *visits) seen() (times []time.Time, serials []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for s := range v.serials {
		serials = append(serials, s)
	}
	return append(times, v.times...), serials
}

// While the servers are away the workers come back at growing intervals, and when
// they are there again the work goes on by itself.
func serversAwayTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"JOB-06", "REL-05", "ARC-01"},
		Tried:        "both servers stopped; one replaced by a stand-in that answers 503 and notes every visit",
		Oracle:       "times at which the worker's requests reach the stand-in; a job submitted afterwards",
	})
	for _, name := range []string{"server-0", "server-1"} {
		if err := w.Stop(name, 35*time.Second); err != nil {
			t.Error(err)
		}
	}
	v := standIn(t, w, 0)
	// Two slots come at first every quarter to half a second, then half as often
	// each time: over seven seconds some five visits each.
	var times []time.Time
	eventually(t, 30*time.Second, "the worker has come for seven seconds", func() string {
		times, _ = v.seen()
		if len(times) > 2 && times[len(times)-1].Sub(times[0]) > 7*time.Second {
			return ""
		}
		return fmt.Sprintf("%d visits", len(times))
	})
	v.close()
	span := times[len(times)-1].Sub(times[0])
	t.Logf("%d visits in %s", len(times), span.Round(time.Second))
	if len(times) > 20 {
		t.Errorf("%d visits in %s: the worker does not hold back", len(times), span)
	}
	for _, name := range []string{"server-0", "server-1"} {
		if err := w.Restart(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	id := w.people[0].caller(1).created("after", []byte("after the outage"))
	w.ended(t, id, "after the outage")
	t.Logf("the first job after the outage took %s", time.Since(began).Round(100*time.Millisecond))
	w.servesAll(t)
	clean(t, w.System)
}
