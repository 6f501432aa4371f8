package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"glovebox/threat-model/evidence"
)

// 200 equal requests with one key through both servers make one job.
func equalRequestsTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"API-04", "ARC-05", "JOB-04"},
		Tried:        "200 equal POST /jobs with one Idempotency-Key at once, through two servers, then once more through each",
		Oracle:       "observer's count of jobs before and after; the answers",
	})
	const n = 200
	before := jobCount(t, w)
	callers := []caller{w.people[0].caller(0), w.people[0].caller(1)}
	content := []byte("two hundred times the same")
	var (
		all      sync.WaitGroup
		mu       sync.Mutex
		statuses = map[int]int{}
		ids      = map[string]bool{}
		start    = make(chan struct{})
	)
	for i := range n {
		c := callers[i%2]
		all.Go(func() {
			<-start
			a, err := c.upload("same.bin", content, "Idempotency-Key", "two-hundred", "Glovebox-File-Digest", digest(content))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			statuses[a.status]++
			switch a.status {
			case http.StatusCreated, http.StatusOK:
				ids[a.id()] = true
			case http.StatusConflict:
				if a.code() != "idempotency_in_flight" || a.header.Get("Retry-After") == "" {
					t.Errorf("409 says %s, Retry-After %q", a.body, a.header.Get("Retry-After"))
				}
			default:
				t.Errorf("status %d: %s", a.status, a.body)
			}
		})
	}
	close(start)
	all.Wait()
	t.Logf("statuses: %v", statuses)
	if made := jobCount(t, w) - before; made != 1 || statuses[http.StatusCreated] != 1 || len(ids) != 1 {
		t.Errorf("%d jobs, statuses %v, ids %v", made, statuses, ids)
	}
	for i, c := range callers {
		a, err := c.upload("same.bin", content, "Idempotency-Key", "two-hundred")
		if err != nil || a.status != http.StatusOK || !ids[a.id()] || a.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("replay through server %d: %d %s (%v)", i, a.status, a.body, err)
		}
	}
}

func jobCount(t *testing.T, w *edgeWorld) (n int) {
	t.Helper()
	if err := w.db.QueryRow(context.Background(), `SELECT count(*) FROM observe.jobs`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Other bytes under a key are refused: at once where the digest is declared, also
// while the first request is still in flight, and after the bytes where it is not.
func otherBytesTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"API-04"},
		Tried:        "other bytes under a used key and under a key in flight on the other server, with a declared digest and without",
		Oracle:       "the answer, before the body is sent; observer's count of jobs",
	})
	one, two := w.people[0].caller(0), w.people[0].caller(1)
	id := one.created("slow", []byte("first"), "Idempotency-Key", "other-bytes")
	before := jobCount(t, w)
	refused := func(what string, a answer, err error) {
		t.Helper()
		if err != nil || a.status != http.StatusUnprocessableEntity || a.code() != "idempotency_mismatch" {
			t.Errorf("%s: status %d %s (%v)", what, a.status, a.body, err)
		}
	}
	a, err := two.upload("slow", []byte("second"), "Idempotency-Key", "other-bytes")
	refused("without a declared digest", a, err)

	// The body stays away: only an answer that does not wait for it can come.
	early := two.beginUpload("", 1<<20, "Idempotency-Key", "other-bytes", "Glovebox-File-Digest", digest([]byte("second")))
	a, err = early.answerBeforeTheBody(t)
	refused("declared, before the body", a, err)
	early.abandon()

	begun := w.watchBodies()
	first := one.beginUpload("fir", len("first"), "Idempotency-Key", "in-flight", "Glovebox-File-Digest", digest([]byte("first")))
	eventually(t, 10*time.Second, "the first request holds the key", func() string {
		if !begun() { // else this request would be the first
			return "no body is on its way; the first request: " + first.state()
		}
		a, err := two.upload("slow", []byte("first"), "Idempotency-Key", "in-flight", "Glovebox-File-Digest", digest([]byte("first")))
		if err != nil || a.status != http.StatusConflict {
			return fmt.Sprintf("status %d %s (%v)", a.status, a.body, err)
		}
		return ""
	})
	meanwhile := two.beginUpload("", 1<<20, "Idempotency-Key", "in-flight", "Glovebox-File-Digest", digest([]byte("second")))
	a, err = meanwhile.answerBeforeTheBody(t)
	refused("declared, while the first is in flight", a, err)
	meanwhile.abandon()
	if a, err := first.finish("st"); err != nil || a.status != http.StatusCreated {
		t.Errorf("the first request: %d %s (%v)", a.status, a.body, err)
	}
	if made := jobCount(t, w) - before; made != 1 {
		t.Errorf("%d jobs were made, want the one of the key in flight", made)
	}
	w.people[0].must("wait", id)
}

// watchBodies returns what reports whether a body has begun to arrive since.
func (w *edgeWorld) watchBodies() (begun func() bool) {
	before := temporaryFiles(w.StorageRoot)
	return func() bool {
		return slices.ContainsFunc(temporaryFiles(w.StorageRoot), func(f string) bool { return !slices.Contains(before, f) })
	}
}

// answerBeforeTheBody waits for the answer to a request whose body is not sent.
func (u *slowUpload) answerBeforeTheBody(t *testing.T) (answer, error) {
	t.Helper()
	select {
	case <-u.done:
		return u.answer, u.err
	case <-time.After(15 * time.Second):
		t.Fatal("no answer came before the body")
		return answer{}, nil
	}
}

// heldKey is a key whose holder was killed.
type heldKey struct {
	since time.Time
	call  caller
}

const (
	deadKey = "held-by-the-dead"
	// staleAfter is how long a key outlives its server (jobs.UploadStale), with a
	// margin for a busy host.
	staleAfter = 30*time.Second + 30*time.Second
)

// takeKeyAndDie begins an upload under a key, kills the server that receives it and
// starts it again; the upload never ends.
func takeKeyAndDie(t *testing.T, w *edgeWorld) *heldKey {
	t.Helper()
	dying, other := w.people[1].caller(1), w.people[1].caller(0)
	begun := w.watchBodies()
	u := dying.beginUpload("begin", 1<<20, "Idempotency-Key", deadKey)
	content := []byte("the whole file")
	inFlight := func() string {
		a, err := other.upload("slow", content, "Idempotency-Key", deadKey)
		if err != nil || a.status != http.StatusConflict || a.code() != "idempotency_in_flight" {
			return fmt.Sprintf("status %d %s (%v)", a.status, a.body, err)
		}
		return ""
	}
	// Not too early: the key is taken when the server has read the headers.
	eventually(t, 10*time.Second, "the key is held", func() string {
		if !begun() {
			return "no body is on its way: " + u.state()
		}
		return inFlight()
	})
	if err := w.Kill("server-1"); err != nil {
		t.Fatal(err)
	}
	u.abandon()
	held := &heldKey{time.Now(), other}
	if why := inFlight(); why != "" {
		t.Errorf("right after the death: %s", why)
	}
	if err := w.Restart(context.Background(), "server-1"); err != nil {
		t.Fatal(err)
	}
	return held
}

func (h *heldKey) freesItselfTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"API-04", "UPL-03", "UPL-08"},
		Tried:        "SIGKILL of a server in the middle of an upload that holds an Idempotency-Key",
		Oracle:       "the other server's answers under the same key over time; the storage's folder of temporary files",
	})
	content := []byte("the whole file")
	var id string
	eventually(t, staleAfter-time.Since(h.since), "the key is free again", func() string {
		a, err := h.call.upload("slow", content, "Idempotency-Key", deadKey)
		if err == nil && a.status == http.StatusCreated {
			id = a.id()
			return ""
		}
		if err != nil || a.status != http.StatusConflict {
			t.Fatalf("status %d %s (%v)", a.status, a.body, err)
		}
		return "409"
	})
	t.Logf("the key was free %s after its server's death", time.Since(h.since).Round(time.Second))
	w.people[1].must("wait", id)
	clean(t, w.System)
}
