package jobs_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"glovebox/system/protocol"
	"glovebox/system/protocol/failure"
	"glovebox/system/worker/internal/jobs"
	"glovebox/threat-model/evidence"
)

func TestRunningAttemptsFinishWithinTheGrace(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "REL-05")
	s := newServer(t)
	j := s.add("x", nil)
	started, goOn := make(chan struct{}), make(chan struct{})
	w := start(t, s, runner{work: func(ctx context.Context, a protocol.Assignment, x jobs.Exchange) jobs.Outcome {
		close(started)
		<-goOn
		return upper(ctx, a, x)
	}}, 1, time.Minute)
	receive(t, started)
	w.stop()
	waiting := s.add("never claimed", nil)
	close(goOn)
	w.wait()
	if j.status != "completed" || waiting.status != "pending" {
		t.Errorf("running: %s, waiting: %s", j.status, waiting.status)
	}
}

func TestTheRestIsHandedBack(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "REL-05")
	s := newServer(t)
	s.setHook(func(verb string, n int, w http.ResponseWriter, _ *http.Request) bool {
		return verb == "fail" && n == 1 && cut(w) // it is worth a second try
	})
	j := s.add("x", nil)
	started, cause := make(chan string, 1), make(chan error, 1)
	w := start(t, s, runner{work: untilTold(started, cause)}, 1, 100*time.Millisecond)
	receive(t, started)
	w.stop()
	if err := receive(t, cause); !errors.Is(err, jobs.ErrHandBack) {
		t.Errorf("the run was ended by %v", err)
	}
	w.wait()
	if j.status != "failed" || j.report.Code != failure.WorkerShutdown || !j.report.Retryable {
		t.Errorf("%s, %+v", j.status, j.report)
	}
	if w.ends()[string(failure.WorkerShutdown)] != 1 {
		t.Errorf("ends %v", w.ends())
	}
}

// A stop does not wait for the long poll, and a job that was assigned while the
// poll was cut off is handed back, not left to its lease.
func TestStopDuringTheLongPoll(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "REL-05", "JOB-04")
	s := newServer(t)
	assigned := make(chan struct{})
	s.setHook(func(verb string, n int, w http.ResponseWriter, r *http.Request) bool {
		if verb != "claim" || n != 1 {
			return false
		}
		s.honest("claim", &recorder{header: http.Header{}}, r) // assigned, and the answer never leaves
		close(assigned)
		s.stall(r)
		return true
	})
	j := s.add("x", nil)
	w := start(t, s, runner{}, 1, time.Minute)
	receive(t, assigned)
	begun := time.Now()
	w.stop()
	w.wait()
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("the stop took %s", took)
	}
	if j.status != "failed" || j.report.Code != failure.WorkerShutdown {
		t.Errorf("%s, %+v", j.status, j.report)
	}
	if ids := s.claimIDs(); len(ids) != 2 || ids[0] != ids[1] {
		t.Errorf("claims %q, want one, asked again", ids)
	}
}

// A server that is gone does not hold up the stop for longer than HandBack.
func TestStopWithoutAServer(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "REL-05")
	s := newServer(t)
	s.add("x", func(a *protocol.Assignment) { a.LeaseSeconds, a.HeartbeatSeconds = 600, 500 })
	started, cause := make(chan string, 1), make(chan error, 1)
	timing := fast
	timing.HandBack = 300 * time.Millisecond
	w := startTimed(t, s, runner{work: untilTold(started, cause)}, 1, 0, timing)
	receive(t, started)
	s.close()
	begun := time.Now()
	w.stop()
	w.wait()
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("the stop took %s", took)
	}
}
