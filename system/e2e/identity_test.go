package e2e_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"glovebox/ci/local"
	"glovebox/threat-model/evidence"
)

// A worker taken off the list is refused at its next request, on the connections
// that it has open, and its run is dropped.
func revokedWorkerTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"MTL-02", "JOB-08", "SBX-12", "JOB-06"},
		Tried:        "a worker taken off the allow-list while its core runs",
		Oracle:       "answer on a connection that was open before, process table, observer's events",
	})
	const body = "finished by another"
	id, victim := w.running(t, 6*time.Second, body)
	// The same certificate on a connection of the test's own, open before.
	c := asWorker(t, w.System, victim, w.Servers[0].InternalURL)
	claim := func() answer {
		return c.do("POST", "/internal/v1/jobs/claim?wait=0s", strings.NewReader(`{"slots_free":0,"slots_total":2}`), "Content-Type", "application/json")
	}
	if a := claim(); a.status != http.StatusBadRequest { // no request id: let in, nothing claimed
		t.Fatalf("before: %d %s", a.status, a.body)
	}
	w.admin(t, "worker", "remove", victim)
	if a := claim(); a.status != http.StatusForbidden || a.code() != "worker_not_allowed" {
		t.Errorf("after: %d %s", a.status, a.body)
	}
	// The run goes with the next heartbeat, long before it would end.
	eventually(t, 5*time.Second, "the run is dropped", func() string {
		if j := look(t, w.db, id); j.attempt > 1 {
			return ""
		}
		if pids := coreProcesses(w.System); len(pids) > 0 {
			return "core runs: " + strings.Join(pids, " ")
		}
		return ""
	})
	eventually(t, 20*time.Second, "another worker has the job", func() string {
		if j := look(t, w.db, id); j.attempt != 2 || j.status != "processing" || j.worker == victim {
			return fmt.Sprintf("%+v", j)
		}
		return ""
	})
	w.admin(t, "worker", "add", victim)
	w.ended(t, id, body)
	events := history(t, w.db, id)
	if j := look(t, w.db, id); j.attempt != 2 || strings.HasSuffix(events[len(events)-1], victim) || count(events, ">completed") != 1 {
		t.Errorf("the row says %+v, the events %v", j, events)
	}
	clean(t, w.System)
	w.servesAll(t)
}

// serial is the certificate that a listener shows now.
func serial(t *testing.T, w *edgeWorld, url string) string {
	t.Helper()
	roots := trust(t, w.CAFile)
	roots.AppendCertsFromPEM(mustRead(t, w.InternalCAFile))
	conn, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return fmt.Sprintf("%032x", conn.ConnectionState().PeerCertificates[0].SerialNumber)
}

func (w *edgeWorld) leaves(t *testing.T) (server, worker []string) {
	t.Helper()
	dir := filepath.Join(filepath.Dir(w.BinDir), "tls")
	server, err := filepath.Glob(filepath.Join(dir, "server", "*.crt"))
	worker, err2 := filepath.Glob(filepath.Join(dir, "worker", "*.crt"))
	if errors.Join(err, err2) != nil || len(server) != 2 || len(worker) != 2 {
		t.Fatalf("certificates: %v %v", server, worker)
	}
	return server, worker
}

func (w *edgeWorld) pki() string { return filepath.Join(filepath.Dir(w.BinDir), "pki") }

// Renewed files are taken up by running processes.
func renewalTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"MTL-05"},
		Tried:        "glovebox-server pki renew over the files of running servers and workers",
		Oracle:       "serials that both listeners show, and that the worker shows to a stand-in for the server; process ids",
	})
	server, worker := w.leaves(t)
	urls := []string{w.Servers[0].PublicURL, w.Servers[0].InternalURL, w.Servers[1].PublicURL, w.Servers[1].InternalURL}
	shown := map[string]string{}
	for _, url := range urls {
		shown[url] = serial(t, w, url)
	}
	before := map[string]local.Process{}
	for _, name := range []string{"server-1", "worker-0", "worker-1"} {
		before[name], _ = w.Process(name)
	}
	w.admin(t, append([]string{"pki", "renew", "--dir", w.pki()}, server...)...)
	for _, url := range urls {
		eventually(t, 10*time.Second, "the renewed certificate is shown", func() string {
			if now := serial(t, w, url); now == shown[url] {
				return url + " still shows " + now
			}
			return ""
		})
	}
	// The worker's side is seen by whoever stands where its server was.
	if err := w.Stop("server-0", 35*time.Second); err != nil {
		t.Error(err)
	}
	v := standIn(t, w, 0)
	var old string
	eventually(t, 15*time.Second, "the worker has come", func() string {
		if _, serials := v.seen(); len(serials) == 1 {
			old = serials[0]
			return ""
		}
		return "not yet"
	})
	w.admin(t, append([]string{"pki", "renew", "--dir", w.pki()}, worker...)...)
	eventually(t, 30*time.Second, "the worker shows its renewed certificate", func() string {
		if _, serials := v.seen(); len(serials) == 2 {
			return ""
		}
		return "only " + old
	})
	v.close()
	if err := w.Restart(t.Context(), "server-0"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"server-1", "worker-0", "worker-1"} {
		if p, alive := w.Process(name); !alive || p != before[name] {
			t.Errorf("%s is not the process that it was", name)
		}
	}
	w.servesAll(t)
}

// A new internal authority with an overlap, as the manual says, while jobs run
// through it: none fails, and what the old one signed is refused in the end.
func rotationTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"MTL-05", "MTL-01"},
		Tried:        "the internal authority rotated by the manual's five steps under a stream of jobs",
		Oracle:       "client's results, observer's attempts, handshake and open connection of a certificate that was not renewed",
	})
	late := asWorker(t, w.System, "spare-1", w.Servers[0].InternalURL) // its files stay as they are
	if a := late.do("POST", "/internal/v1/jobs/claim", nil); a.status != http.StatusBadRequest {
		t.Fatalf("before: %d %s", a.status, a.body)
	}
	ctx, stop := context.WithCancel(context.Background())
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		ids []string
	)
	for _, p := range w.people {
		c := p.caller(0)
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				a, err := c.upload("rotating", []byte(fmt.Sprintf("#!act sleep 300\nfile %d", n)))
				if err != nil || a.status != http.StatusCreated {
					t.Errorf("submit: %d %s (%v)", a.status, a.body, err)
					return
				}
				mu.Lock()
				ids = append(ids, a.id())
				mu.Unlock()
				c.waitFor(ctx, a.id())
			}
		})
	}
	// Some jobs under each state of the files.
	progress := func(what string) {
		t.Helper()
		done := func() (n int) {
			if err := w.db.QueryRow(ctx, `SELECT count(*) FROM observe.jobs WHERE status = 'completed'`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		from := done()
		eventually(t, 30*time.Second, "jobs are done after: "+what, func() string {
			if n := done(); n < from+6 {
				return fmt.Sprintf("%d jobs", n-from)
			}
			return ""
		})
	}
	bundle := filepath.Join(w.pki(), "internal-ca-bundle.crt")
	distribute := func() {
		t.Helper()
		content := mustRead(t, bundle)
		temporary := w.InternalCAFile + ".part"
		if err := errors.Join(os.WriteFile(temporary, content, 0o644), os.Rename(temporary, w.InternalCAFile)); err != nil {
			t.Fatal(err)
		}
	}
	server, worker := w.leaves(t)
	progress("nothing yet")
	w.admin(t, "pki", "init", "--dir", w.pki(), "--rotate")
	distribute()
	progress("both authorities are trusted")
	w.admin(t, append([]string{"pki", "renew", "--dir", w.pki()}, worker...)...)
	progress("the workers' certificates are new")
	w.admin(t, append([]string{"pki", "renew", "--dir", w.pki()}, server...)...)
	progress("the servers' certificates are new")
	spare, err := filepath.Glob(filepath.Join(filepath.Dir(w.BinDir), "tls", "spare", "worker-*.crt"))
	if err != nil {
		t.Fatal(err)
	}
	w.admin(t, append([]string{"pki", "renew", "--dir", w.pki()}, spare...)...) // late has read its files before
	if a := late.do("POST", "/internal/v1/jobs/claim", nil); a.status != http.StatusBadRequest {
		t.Errorf("during the overlap the old certificate got %d %s", a.status, a.body)
	}
	w.admin(t, "pki", "init", "--dir", w.pki(), "--finish-rotation")
	distribute()
	progress("the old authority is gone")
	stop()
	wg.Wait()
	eventually(t, 15*time.Second, "the old certificate is refused on its open connection", func() string {
		a, err := late.try("POST", "/internal/v1/jobs/claim", nil)
		if err != nil || a.status == http.StatusUnauthorized {
			return ""
		}
		return fmt.Sprintf("%d %s", a.status, a.body)
	})
	late.http.CloseIdleConnections()
	if a, err := late.try("POST", "/internal/v1/jobs/claim", nil); err == nil {
		t.Errorf("the old certificate made a new connection and got %d", a.status)
	}
	for _, id := range ids {
		eventually(t, 20*time.Second, "the last jobs are done", func() string {
			if j := look(t, w.db, id); j.status != "completed" || j.attempt != 1 {
				return fmt.Sprintf("%s: %+v %v", id, j, history(t, w.db, id))
			}
			return ""
		})
	}
	t.Logf("%d jobs ran through the rotation", len(ids))
	clean(t, w.System)
}

// waitFor polls until the job has ended.
func (c caller) waitFor(ctx context.Context, id string) {
	for ctx.Err() == nil {
		a, err := c.try("GET", "/api/v1/jobs/"+id, nil)
		if err == nil && (bytes.Contains(a.body, []byte(`"completed"`)) || bytes.Contains(a.body, []byte(`"failed"`))) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// A user's token opens nothing of the internal API, and a worker's certificate
// nothing of the public one, on either server. (Each route alone is tried in
// system/server/cmd/server TestTheTwoAPIsDoNotOpenForEachOther.)
func crossingTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"MTL-03", "MTL-01", "AUT-01"},
		Tried:        "user token without a certificate on :9443, worker certificate on :8443, a listed and an unlisted worker",
		Oracle:       "handshake and answers, each beside a control that is let in",
	})
	for i, server := range w.Servers {
		user := w.people[0].caller(i)
		user.base = server.InternalURL
		user.http.Transport.(*http.Transport).TLSClientConfig.RootCAs = trust(t, w.InternalCAFile)
		if a, err := user.try("POST", "/internal/v1/jobs/claim", nil); err == nil {
			t.Errorf("a token without a certificate got %d %s", a.status, a.body)
		}
		worker := asWorker(t, w.System, "spare-1", server.InternalURL)
		if a := worker.do("POST", "/internal/v1/jobs/claim", nil); a.status != http.StatusBadRequest {
			t.Fatalf("control: the worker got %d %s", a.status, a.body)
		}
		outsider := asWorker(t, w.System, "outsider", server.InternalURL)
		if a := outsider.do("POST", "/internal/v1/jobs/claim", nil); a.status != http.StatusForbidden || a.code() != "worker_not_allowed" {
			t.Errorf("a worker on no list got %d %s", a.status, a.body)
		}
		worker.base = server.PublicURL
		for _, path := range []string{"/api/v1/auth/me", "/api/v1/jobs/6f1c1d0a-0f3c-4c3e-9a51-0d1f5f0a7c11", "/api/v1/jobs/6f1c1d0a-0f3c-4c3e-9a51-0d1f5f0a7c11/result"} {
			if a := worker.do("GET", path, nil); a.status != http.StatusUnauthorized {
				t.Errorf("a worker's certificate on %s got %d %s", path, a.status, a.body)
			}
		}
		if a := worker.do("POST", "/internal/v1/jobs/claim", strings.NewReader("{}")); a.status != http.StatusNotFound && a.status != http.StatusUnauthorized {
			t.Errorf("the public listener has an internal route: %d %s", a.status, a.body)
		}
	}
}
