package jobs_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"glovebox/system/protocol"
	"glovebox/system/worker/internal/jobs"
	"glovebox/threat-model/evidence"
)

func TestLostLeaseEndsTheRun(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "JOB-08")
	for name, lie := range map[string]func(s *server, w http.ResponseWriter, r *http.Request){
		"told: 409 in mid-run":     func(_ *server, w http.ResponseWriter, _ *http.Request) { refuse(w, 409, protocol.CodeLeaseLost) },
		"told: 409 without a form": func(_ *server, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(409) },
		"told: no longer allowed":  func(_ *server, w http.ResponseWriter, _ *http.Request) { refuse(w, 403, protocol.CodeWorkerNotAllowed) },
		"500 for a lease":          func(_ *server, w http.ResponseWriter, _ *http.Request) { refuse(w, 500, "internal") },
		"stalled for a lease": func(s *server, _ http.ResponseWriter, r *http.Request) {
			s.stall(r)
		},
		"cut for a lease": func(_ *server, w http.ResponseWriter, _ *http.Request) { cut(w) },
		"a lease of 0":    func(_ *server, w http.ResponseWriter, _ *http.Request) { answer(w, 200, protocol.HeartbeatAnswer{}) },
		"a lease in words": func(_ *server, w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"lease_seconds":"9"}`))
		},
		"not found, say so": func(_ *server, w http.ResponseWriter, _ *http.Request) { refuse(w, 404, "not_found") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.setHook(func(verb string, _ int, w http.ResponseWriter, r *http.Request) bool {
				if verb != "heartbeat" {
					return false
				}
				lie(s, w, r)
				return true
			})
			j := s.add("x", func(a *protocol.Assignment) {
				if strings.HasPrefix(name, "told: ") {
					a.LeaseSeconds = 300 // the word must do it, not the clock
				}
			})
			started, cause := make(chan string, 1), make(chan error, 1)
			w := start(t, s, runner{work: untilTold(started, cause)}, 1, time.Minute)
			receive(t, started)
			begun := time.Now()
			if err := receive(t, cause); !errors.Is(err, jobs.ErrLeaseLost) {
				t.Errorf("the run was ended by %v", err)
			}
			if took := time.Since(begun); took > 2500*time.Millisecond {
				t.Errorf("the run went on for %s under a lease of 2s", took)
			}
			w.untilEnd(jobs.EndLeaseLost)
			if s.count("fail") != 0 || s.count("result") != 0 || j.status != "processing" {
				t.Error("something was reported under a lost lease")
			}
			if w.seen.failed == 0 {
				t.Error("no failed heartbeat was counted")
			}
		})
	}
}

// Heartbeats that come through now and then keep the lease for longer than its
// first length.
func TestHeartbeatsKeepTheLease(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "JOB-08")
	s := newServer(t)
	s.setHook(func(verb string, n int, w http.ResponseWriter, _ *http.Request) bool {
		if verb == "heartbeat" && n%2 == 1 {
			return cut(w)
		}
		return false
	})
	j := s.add("x", nil)
	r := runner{work: func(ctx context.Context, a protocol.Assignment, x jobs.Exchange) jobs.Outcome {
		s.until("heartbeats past the first lease", func() bool { return s.counts["heartbeat"] >= 8 })
		return upper(ctx, a, x)
	}}
	w := start(t, s, r, 1, time.Minute)
	w.untilEnd(jobs.EndCompleted)
	if j.completed != 1 {
		t.Errorf("completed %d times", j.completed)
	}
}

// Heartbeats go on while the result is on its way, and stop once it is answered.
func TestHeartbeatsGoOnUntilTheAnswer(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "JOB-08")
	s := newServer(t)
	s.setHook(func(verb string, _ int, w http.ResponseWriter, r *http.Request) bool {
		if verb == "result" { // a slow disk: longer than a heartbeat, shorter than a stall
			s.until("heartbeats during the result", func() bool { return s.counts["heartbeat"] >= 1 })
		}
		return false
	})
	timing := fast
	timing.Stall = 20 * time.Second
	s.add("x", nil)
	w := startTimed(t, s, runner{}, 1, time.Minute, timing)
	w.untilEnd(jobs.EndCompleted)
	after := s.count("heartbeat")
	s.until("the next claim", func() bool { return s.counts["claim"] >= 2 })
	if n := s.count("heartbeat"); n != after {
		t.Errorf("%d heartbeats after the answer", n-after)
	}
}

// Giving the slot back after the answer takes longer than a heartbeat's interval,
// and none goes out meanwhile: it would be refused and counted as a lost lease.
func TestNoHeartbeatWhileTheSlotIsGivenBack(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "JOB-08")
	s := newServer(t)
	var answered int
	r := runner{work: func(ctx context.Context, a protocol.Assignment, x jobs.Exchange) jobs.Outcome {
		s.until("a heartbeat before the answer", func() bool { return s.counts["heartbeat"] >= 1 }) // the control: they do go out
		outcome := upper(ctx, a, x)
		answered = s.count("heartbeat")
		<-time.After(3 * time.Duration(a.HeartbeatSeconds) * time.Second / 2) // the slot's own time
		return outcome
	}}
	s.add("x", nil)
	w := start(t, s, r, 1, time.Minute)
	w.untilEnd(jobs.EndCompleted)
	if n := s.count("heartbeat"); n != answered {
		t.Errorf("%d heartbeats after the answer", n-answered)
	}
	w.seen.mu.Lock()
	defer w.seen.mu.Unlock()
	if w.seen.failed != 0 {
		t.Errorf("%d heartbeats were counted as failed", w.seen.failed)
	}
}

// The server completes the job, and a heartbeat gets its harmless 409 before the
// answer to the result has come: the attempt is completed, not lost.
func TestCompletionOvertakenByAHeartbeat(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "JOB-04", "JOB-08")
	s := newServer(t)
	s.setHook(func(verb string, _ int, w http.ResponseWriter, r *http.Request) bool {
		switch verb {
		case "heartbeat":
			refuse(w, 409, protocol.CodeLeaseLost)
			return true
		case "result":
			s.until("a heartbeat in between", func() bool { return s.counts["heartbeat"] >= 1 })
		}
		return false
	})
	timing := fast
	timing.Stall, timing.Call = 20*time.Second, 10*time.Second
	j := s.add("x", nil)
	w := startTimed(t, s, runner{}, 1, time.Minute, timing)
	w.untilEnd(jobs.EndCompleted)
	if j.completed != 1 || s.count("result") != 1 {
		t.Errorf("completed %d times by %d results", j.completed, s.count("result"))
	}
	w.seen.mu.Lock()
	defer w.seen.mu.Unlock()
	if w.seen.failed != 0 {
		t.Errorf("%d heartbeats were counted as failed", w.seen.failed)
	}
}
