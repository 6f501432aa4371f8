package jobs_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"glovebox/system/protocol"
	"glovebox/system/protocol/failure"
	"glovebox/system/worker/internal/jobs"
	"glovebox/threat-model/evidence"
)

func TestJobsAreClaimedAndCompleted(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "ARC-01", "API-02")
	s := newServer(t)
	var all []*job
	for range 6 {
		all = append(all, s.add("print('hello')", nil))
	}
	w := start(t, s, runner{}, 2, time.Minute)
	for _, j := range all {
		s.until("every job completed", func() bool { return j.status == "completed" })
		if string(j.result) != "PRINT('HELLO')" || j.completed != 1 {
			t.Errorf("result %q, completed %d times", j.result, j.completed)
		}
	}
	w.stop()
	w.wait()
	if w.ends()[jobs.EndCompleted] != 6 || w.seen.most > 2 {
		t.Errorf("ends %v, at most %d busy of 2", w.ends(), w.seen.most)
	}
}

// Each free slot has one claim out, a busy one none.
func TestOneClaimForAFreeSlot(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "ARC-05")
	s := newServer(t)
	started, cause := make(chan string, 9), make(chan error, 9)
	w := start(t, s, runner{work: untilTold(started, cause)}, 3, 0)
	s.until("three claims wait", func() bool { return s.counts["claim"] == 3 })
	for range 4 {
		s.add("x", nil)
	}
	for range 3 {
		receive(t, started)
	}
	s.mu.Lock()
	left := len(s.pending)
	s.mu.Unlock()
	if left != 1 || s.count("claim") != 3 {
		t.Errorf("%d jobs left, %d claims: a busy slot has claimed", left, s.count("claim"))
	}
	w.stop()
	w.wait()
}

func TestNothingIsClaimedWhileTheSandboxIsNotReady(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "SBX-10")
	s := newServer(t)
	j := s.add("x", nil)
	var up atomic.Bool
	asked := make(chan struct{}, 1000)
	r := runner{ready: func(context.Context) error {
		select {
		case asked <- struct{}{}:
		default:
		}
		if up.Load() {
			return nil
		}
		return errors.New("the launcher refuses: memory.limit does not bite")
	}}
	w := start(t, s, r, 2, 0)
	for range 10 {
		receive(t, asked)
	}
	if n := s.count("claim"); n != 0 {
		t.Fatalf("%d claims", n)
	}
	if n := w.log.count("sandbox is not available"); n != 1 || w.log.count("memory.limit does not bite") == 0 {
		t.Errorf("%d log lines for one refusal, or the wall is not named", n)
	}
	up.Store(true)
	s.until("the job completed", func() bool { return j.status == "completed" })
	w.stop()
	w.wait()
	if n := w.log.count("sandbox is available"); n != 1 {
		t.Errorf("%d log lines say that it is well again", n)
	}
}

// A server that goes away for a while: few tries, one log line for each change,
// and work goes on when it is back.
func TestServerAwayForAWhile(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "REL-05")
	s := newServer(t)
	timing := fast
	timing.First, timing.Most = 50*time.Millisecond, 200*time.Millisecond
	w := startTimed(t, s, runner{}, 2, 0, timing)
	s.until("claims wait", func() bool { return s.counts["claim"] == 2 })
	s.close()
	// Two slots make 8 tries: one of them 4, with waits of at least 25, 50 and 100 ms between.
	if took := refuseTries(t, strings.TrimPrefix(s.url, "https://"), 8); took < 150*time.Millisecond {
		t.Errorf("8 tries within %s: a busy loop", took)
	}
	s.listen()
	j := s.add("x", nil)
	s.until("the job completed", func() bool { return j.status == "completed" })
	w.stop()
	w.wait()
	if n := w.log.count("server is not available"); n != 1 {
		t.Errorf("%d log lines for one absence", n)
	}
	if n := w.log.count("server is available"); n != 1 {
		t.Errorf("%d log lines for the return", n)
	}
}

// refuseTries stands at address in a server's place, closes each connection, and
// returns how long the first n took.
func refuseTries(t *testing.T, address string, n int) time.Duration {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var first time.Time
	for i := range n {
		if err := listener.(*net.TCPListener).SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		conn, err := listener.Accept()
		if err != nil {
			t.Fatalf("after %d tries: %v", i, err)
		}
		conn.Close()
		if i == 0 {
			first = time.Now()
		}
	}
	return time.Since(first)
}

// What a server may answer instead of a job: none makes a busy loop, none is
// taken for a job, and the worker goes on.
func TestHostileAnswersToAClaim(t *testing.T) {
	t.Parallel()
	good := protocol.Assignment{ID: "0b0b081d-fa52-4c40-8375-123456789abc", Attempt: 1, FencingToken: 1, LeaseSeconds: 3, HeartbeatSeconds: 1,
		InputSHA256: strings.Repeat("0", 64), TimeoutSeconds: 1, MaxResultBytes: 1}
	with := func(change func(*protocol.Assignment)) func(*server, http.ResponseWriter) {
		a := good
		change(&a)
		return func(_ *server, w http.ResponseWriter) { answer(w, 200, a) }
	}
	rows := map[string]func(*server, http.ResponseWriter){
		"empty at once":         func(_ *server, w http.ResponseWriter) { w.WriteHeader(204) },
		"not allowed":           func(_ *server, w http.ResponseWriter) { refuse(w, 403, protocol.CodeWorkerNotAllowed) },
		"the id is over":        func(_ *server, w http.ResponseWriter) { refuse(w, 409, protocol.CodeLeaseLost) },
		"internal error":        func(_ *server, w http.ResponseWriter) { refuse(w, 500, "internal") },
		"bad request":           func(_ *server, w http.ResponseWriter) { refuse(w, 400, "invalid_request") },
		"redirect":              func(_ *server, w http.ResponseWriter) { w.Header().Set("Location", "/elsewhere"); w.WriteHeader(307) },
		"no JSON":               func(_ *server, w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) },
		"endless error":         func(s *server, w http.ResponseWriter) { w.WriteHeader(500); s.flood(w) },
		"endless answer":        func(s *server, w http.ResponseWriter) { s.flood(w) },
		"cut":                   func(_ *server, w http.ResponseWriter) { cut(w) },
		"id with a path":        with(func(a *protocol.Assignment) { a.ID = "../../claim" }),
		"id in upper case":      with(func(a *protocol.Assignment) { a.ID = strings.ToUpper(a.ID) }),
		"no fencing token":      with(func(a *protocol.Assignment) { a.FencingToken = 0 }),
		"lease under heartbeat": with(func(a *protocol.Assignment) { a.LeaseSeconds = 1 }),
		"no heartbeat":          with(func(a *protocol.Assignment) { a.HeartbeatSeconds = 0 }),
		"negative size":         with(func(a *protocol.Assignment) { a.InputSize = -1 }),
		"no digest":             with(func(a *protocol.Assignment) { a.InputSHA256 = "" }),
		"no timeout":            with(func(a *protocol.Assignment) { a.TimeoutSeconds = 0 }),
	}
	for name, lie := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			begun := time.Now()
			s.setHook(func(verb string, n int, w http.ResponseWriter, _ *http.Request) bool {
				if verb != "claim" || n > 6 {
					return false
				}
				lie(s, w)
				return true
			})
			j := s.add("x", nil)
			w := start(t, s, runner{}, 1, 0)
			s.until("the job completed", func() bool { return j.status == "completed" })
			// Six waits of at least half of 5, 10, 20, 40, 50, 50 ms, save after 204 and 409.
			if took := time.Since(begun); took < 25*time.Millisecond {
				t.Errorf("six such answers took %s: a busy loop", took)
			}
			if ends := w.ends(); len(ends) > 1 || ends[jobs.EndCompleted] > 1 {
				t.Errorf("ends %v", ends)
			}
		})
	}
}

// The answer to a claim is lost: the same request id is sent again and gets the
// same assignment; no second job is taken.
func TestLostAnswerToAClaim(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "JOB-04")
	s := newServer(t)
	s.setHook(func(verb string, n int, w http.ResponseWriter, r *http.Request) bool {
		return verb == "claim" && n <= 2 && s.loseAnswer(verb, w, r)
	})
	beaten := make(chan struct{})
	j := s.add("x", func(a *protocol.Assignment) { a.HeartbeatSeconds, a.LeaseSeconds = 200, 300 })
	r := runner{work: func(ctx context.Context, a protocol.Assignment, x jobs.Exchange) jobs.Outcome {
		// The lease may be old by now: a heartbeat must go out long before the interval.
		s.until("a heartbeat at once", func() bool { return s.counts["heartbeat"] > 0 })
		close(beaten)
		return upper(ctx, a, x)
	}}
	w := start(t, s, r, 1, 0)
	receive(t, beaten)
	s.until("the job completed", func() bool { return j.status == "completed" })
	ids := s.claimIDs()
	if ids[0] != ids[1] || ids[1] != ids[2] {
		t.Errorf("the claim was repeated under other ids: %q", ids[:3])
	}
	w.untilEnd(jobs.EndCompleted)
	s.until("the next claim", func() bool { return s.counts["claim"] >= 4 })
	if ids := s.claimIDs(); ids[3] == ids[2] {
		t.Error("an answered claim's id was used again")
	}
	if j.a.Attempt != 1 {
		t.Errorf("%d attempts were made", j.a.Attempt)
	}
}

// A panic in one attempt is that attempt's failure and nobody else's.
func TestAPanicFailsItsAttempt(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	first := s.add("first", nil)
	var n atomic.Int64
	r := runner{work: func(ctx context.Context, a protocol.Assignment, x jobs.Exchange) jobs.Outcome {
		if n.Add(1) == 1 {
			panic("boom")
		}
		return upper(ctx, a, x)
	}}
	start(t, s, r, 1, 0)
	s.until("the failure reported", func() bool { return first.status == "failed" })
	if first.report.Code != failure.SandboxFailure || !first.report.Retryable || first.report.Detail == "boom" {
		t.Errorf("reported %+v", first.report)
	}
	second := s.add("second", nil)
	s.until("the next job completed", func() bool { return second.status == "completed" })
}
