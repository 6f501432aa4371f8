package e2e_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// stream is people who submit all the time, each request to any server, as a client
// would that knows several. A request that cannot have an answer now (no
// connection, 503, a key still in flight) is sent again under its key; any other
// refusal is a failure.
type stream struct {
	t    *testing.T
	w    *edgeWorld
	stop context.CancelFunc
	all  sync.WaitGroup

	mu       sync.Mutex
	sums     map[string][32]byte // by job
	again    int                 // requests that had to be sent again
	failures []string
}

// maxPatience bounds how long one submission may go on without an answer.
const maxPatience = 20 * time.Second

func (w *edgeWorld) stream(t *testing.T) *stream {
	ctx, stop := context.WithCancel(context.Background())
	s := &stream{t: t, w: w, stop: stop, sums: map[string][32]byte{}}
	for i, p := range w.people {
		callers := []caller{p.caller(0), p.caller(1)}
		s.all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				s.submit(callers, i+n, fmt.Sprintf("%s %d", p.user.Login, n))
				time.Sleep(100 * time.Millisecond) // the pace of the people, not a wait for anything
			}
		})
	}
	return s
}

func (s *stream) submit(callers []caller, first int, body string) {
	content := []byte("#!act sleep 50\n" + body)
	key := make([]byte, 16)
	_, _ = rand.Read(key)
	deadline := time.Now().Add(maxPatience)
	for turn := first; ; turn++ {
		a, err := callers[turn%len(callers)].upload("stream", content, "Idempotency-Key", hex.EncodeToString(key), "Glovebox-File-Digest", digest(content))
		s.mu.Lock()
		switch {
		case err == nil && (a.status == http.StatusCreated || a.status == http.StatusOK):
			s.sums[a.id()] = sha256.Sum256([]byte(body))
			s.mu.Unlock()
			return
		case err != nil || a.status == http.StatusServiceUnavailable || a.code() == "idempotency_in_flight":
			s.again++
		default:
			s.failures = append(s.failures, fmt.Sprintf("%s: %d %s", body, a.status, a.body))
			s.mu.Unlock()
			return
		}
		if time.Now().After(deadline) {
			s.failures = append(s.failures, fmt.Sprintf("%s: no answer within %s: %v", body, maxPatience, err))
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		time.Sleep(50 * time.Millisecond) // a client's pause before it tries again
	}
}

// reach waits until n jobs have been taken in, so that what is done to the system
// has traffic before and after it.
func (s *stream) reach(n int) {
	s.t.Helper()
	eventually(s.t, 30*time.Second, "traffic", func() string {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.sums) < n {
			return fmt.Sprintf("%d jobs of %d; failures %v", len(s.sums), n, s.failures)
		}
		return ""
	})
}

// end stops the people, waits for their jobs and holds each to its end: completed
// once, with its own bytes, never by way of a lease that ran out.
func (s *stream) end(least int) {
	s.t.Helper()
	s.stop()
	s.all.Wait()
	if len(s.failures) > 0 || len(s.sums) < least {
		s.t.Errorf("%d jobs were taken in, at least %d wanted; %d failures: %v", len(s.sums), least, len(s.failures), s.failures[:min(3, len(s.failures))])
	}
	s.w.settled(s.t)
	callers := []caller{s.w.people[0].caller(0), s.w.people[1].caller(1)}
	for id, want := range s.sums {
		events := history(s.t, s.w.db, id)
		if j := look(s.t, s.w.db, id); j.status != "completed" || count(events, ">completed") != 1 ||
			slices.ContainsFunc(events, func(e string) bool { return strings.Contains(e, "lease_lost") }) {
			s.t.Errorf("job %s is %+v after %v", id, j, events)
			continue
		}
		sum, _, err := callers[0].download(id)
		if err != nil {
			sum, _, err = callers[1].download(id) // the other person's
		}
		if err != nil || sum != want {
			s.t.Errorf("the result of job %s is another: %v", id, err)
		}
	}
	s.t.Logf("%d jobs, %d requests sent again, no failure", len(s.sums), s.again)
}
