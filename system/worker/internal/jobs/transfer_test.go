package jobs_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"glovebox/system/protocol"
	"glovebox/system/protocol/failure"
	"glovebox/system/worker/internal/jobs"
	"glovebox/threat-model/evidence"
)

func TestInputThatIsNotTheOneAssigned(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "JOB-12")
	const input = "the input as assigned"
	rows := map[string]struct {
		lie  func(s *server, w http.ResponseWriter)
		says string
	}{
		"other bytes": {func(_ *server, w http.ResponseWriter) { _, _ = w.Write([]byte(strings.ToUpper(input))) }, "SHA-256 differs"},
		"fewer announced": {func(_ *server, w http.ResponseWriter) {
			w.Header().Set("Content-Length", "3")
			_, _ = w.Write([]byte("the"))
		}, "announces 3 bytes"},
		"more announced": {func(_ *server, w http.ResponseWriter) { _, _ = w.Write([]byte(input + "!")) }, "announces 22 bytes"},
		"fewer, chunked": {func(_ *server, w http.ResponseWriter) { chunk(w, input[:5]) }, "5 bytes came"},
		"more, chunked":  {func(_ *server, w http.ResponseWriter) { chunk(w, input, "!") }, "more than the assigned"},
		"endless":        {func(s *server, w http.ResponseWriter) { chunk(w, input); s.flood(w) }, "more than the assigned"},
		"nothing":        {func(_ *server, w http.ResponseWriter) { w.WriteHeader(200) }, "announces 0 bytes"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.setHook(func(verb string, _ int, w http.ResponseWriter, _ *http.Request) bool {
				if verb == "input" {
					row.lie(s, w)
				}
				return verb == "input"
			})
			j := s.add(input, nil)
			seen := make(chan error, 1)
			start(t, s, runner{work: func(ctx context.Context, a protocol.Assignment, x jobs.Exchange) jobs.Outcome {
				in := &memory{}
				err := x.FetchInput(ctx, in)
				seen <- err
				if len(in.content) > len(input) {
					t.Errorf("%d bytes were written of %d", len(in.content), len(input))
				}
				return jobs.Failed(failure.SandboxFailure, "no input", err)
			}}, 1, 0)
			if err := receive(t, seen); !errors.Is(err, jobs.ErrInputMismatch) || !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, want %q", err, row.says)
			}
			s.until("the failure reported", func() bool { return j.status == "failed" })
			if j.report.Code != failure.SandboxFailure || !j.report.Retryable || s.count("input") != 1 {
				t.Errorf("reported %+v after %d tries", j.report, s.count("input"))
			}
		})
	}
}

func chunk(w http.ResponseWriter, parts ...string) {
	for _, part := range parts {
		_, _ = w.Write([]byte(part))
		_ = http.NewResponseController(w).Flush()
	}
}

// Faults of the way, not of the input: the transfer is done again within the
// attempt.
func TestInputThatIsCutOrStalled(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "JOB-12")
	input := strings.Repeat("0123456789", 30_000)
	rows := map[string]func(w http.ResponseWriter, r *http.Request){
		"cut in the middle": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(input)))
			chunk(w, input[:100_000])
			cut(w)
		},
		"cut while chunked": func(w http.ResponseWriter, _ *http.Request) {
			chunk(w, input[:100_000])
			cut(w)
		},
		"cut before the end mark": func(w http.ResponseWriter, _ *http.Request) {
			chunk(w, input)
			cut(w)
		},
		"stalled": func(w http.ResponseWriter, r *http.Request) {
			chunk(w, input[:10])
			<-r.Context().Done()
		},
		"no answer":      func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"internal error": func(w http.ResponseWriter, _ *http.Request) { refuse(w, 500, "internal") },
	}
	for name, lie := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.setHook(func(verb string, n int, w http.ResponseWriter, r *http.Request) bool {
				if verb != "input" || n > 2 {
					return false
				}
				lie(w, r)
				return true
			})
			j := s.add(input, nil)
			start(t, s, runner{}, 1, 0)
			s.until("the job completed", func() bool { return j.status == "completed" })
			if s.count("input") != 3 || string(j.result) != input {
				t.Errorf("%d transfers, %d bytes", s.count("input"), len(j.result))
			}
		})
	}
}

// givenUp is a transport whose body ends in order once its request was given up,
// as a body does whose server answers the goodbye before the connection is gone.
type givenUp struct{}

func (givenUp) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, ContentLength: -1, Body: io.NopCloser(untilDone{req.Context()}), Request: req}, nil
}

type untilDone struct{ ctx context.Context }

func (u untilDone) Read([]byte) (int, error) {
	<-u.ctx.Done()
	return 0, io.EOF
}

func TestInputThatWasGivenUpIsNoMismatch(t *testing.T) {
	t.Parallel()
	timing := fast
	timing.Stall = 10 * time.Millisecond
	client, err := jobs.NewClient("https://box.example", givenUp{}, timing)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{0, 5} {
		err := client.Input(context.Background(), protocol.Assignment{InputSize: size}, &memory{})
		if !errors.Is(err, jobs.ErrUnreachable) || errors.Is(err, jobs.ErrInputMismatch) {
			t.Errorf("size %d: got %v", size, err)
		}
	}
}

// An input that never comes ends the attempt, so that the job can end.
func TestInputThatIsGone(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.setHook(func(verb string, _ int, w http.ResponseWriter, _ *http.Request) bool {
		if verb == "input" {
			refuse(w, 500, "internal")
		}
		return verb == "input"
	})
	j := s.add("x", nil)
	start(t, s, runner{}, 1, 0)
	s.until("the failure reported", func() bool { return j.status == "failed" })
	if n := s.count("input"); n != 5 {
		t.Errorf("%d tries", n)
	}
}

// The answer to a result is lost, the server is busy, the connection is cut in
// mid-body: the same result is sent again, and completes the job once.
func TestResultIsSentAgain(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "JOB-04")
	rows := map[string]func(s *server, w http.ResponseWriter, r *http.Request) bool{
		"answer lost": func(s *server, w http.ResponseWriter, r *http.Request) bool { return s.loseAnswer("result", w, r) },
		"cut in mid-body": func(_ *server, w http.ResponseWriter, r *http.Request) bool {
			_, _ = r.Body.Read(make([]byte, 1000))
			return cut(w)
		},
		"disk full": func(_ *server, w http.ResponseWriter, _ *http.Request) bool {
			refuse(w, 507, "insufficient_storage")
			return true
		},
		"come later": func(_ *server, w http.ResponseWriter, _ *http.Request) bool {
			refuse(w, 503, "unavailable")
			return true
		},
		"stalled": func(s *server, _ http.ResponseWriter, r *http.Request) bool {
			s.stall(r)
			return true
		},
	}
	for name, lie := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.setHook(func(verb string, n int, w http.ResponseWriter, r *http.Request) bool {
				return verb == "result" && n <= 2 && lie(s, w, r)
			})
			j := s.add(strings.Repeat("abcdefgh", 50_000), nil)
			w := start(t, s, runner{}, 1, 0)
			w.untilEnd(jobs.EndCompleted)
			if j.completed != 1 || s.count("result") != 3 || s.count("fail") != 0 {
				t.Errorf("completed %d times by %d results, %d failures", j.completed, s.count("result"), s.count("fail"))
			}
		})
	}
}

func TestResultThatIsRefused(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "JOB-03")
	rows := map[string]struct {
		lie func(w http.ResponseWriter)
		is  error
	}{
		"lease lost":         {func(w http.ResponseWriter) { refuse(w, 409, protocol.CodeLeaseLost) }, jobs.ErrLeaseLost},
		"other bytes taken":  {func(w http.ResponseWriter) { refuse(w, 409, protocol.CodeConflict) }, jobs.ErrLeaseLost},
		"too large":          {func(w http.ResponseWriter) { refuse(w, 413, "too_large") }, jobs.ErrTooLarge},
		"digest refused":     {func(w http.ResponseWriter) { refuse(w, 400, "invalid_request") }, jobs.ErrRefused},
		"answered by a lie":  {func(w http.ResponseWriter) { answer(w, 200, protocol.ResultAnswer{Status: "completed", Size: 1}) }, jobs.ErrRefused},
		"another status":     {func(w http.ResponseWriter) { answer(w, 200, protocol.ResultAnswer{Status: "processing"}) }, jobs.ErrRefused},
		"worker not allowed": {func(w http.ResponseWriter) { refuse(w, 403, protocol.CodeWorkerNotAllowed) }, jobs.ErrNotAllowed},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.setHook(func(verb string, _ int, w http.ResponseWriter, _ *http.Request) bool {
				if verb == "result" {
					row.lie(w)
				}
				return verb == "result"
			})
			s.add("x", nil)
			seen := make(chan error, 1)
			w := start(t, s, runner{work: func(ctx context.Context, a protocol.Assignment, x jobs.Exchange) jobs.Outcome {
				outcome := upper(ctx, a, x)
				seen <- outcome.Cause
				return outcome
			}}, 1, 0)
			if err := receive(t, seen); !errors.Is(err, row.is) {
				t.Errorf("got %v", err)
			}
			end := string(failure.SandboxFailure)
			if errors.Is(row.is, jobs.ErrLeaseLost) {
				end = jobs.EndLeaseLost
			}
			w.untilEnd(end)
			if n := s.count("result"); n != 1 {
				t.Errorf("sent %d times", n)
			}
			if end == jobs.EndLeaseLost && s.count("fail") != 0 {
				t.Error("a failure was reported for a lost lease")
			}
		})
	}
}

func TestFailureIsReportedAgain(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "JOB-04", "JOB-09")
	s := newServer(t)
	s.setHook(func(verb string, n int, w http.ResponseWriter, r *http.Request) bool {
		return verb == "fail" && n <= 2 && s.loseAnswer(verb, w, r)
	})
	j := s.add("x", nil)
	w := start(t, s, runner{work: func(context.Context, protocol.Assignment, jobs.Exchange) jobs.Outcome {
		return jobs.Failed(failure.InvalidInput, "line 1, column 1: é\n"+strings.Repeat("x", 5000), nil)
	}}, 1, 0)
	w.untilEnd(string(failure.InvalidInput))
	if j.reports != 1 || s.count("fail") != 3 || j.report.Retryable {
		t.Errorf("%d transitions by %d reports, %+v", j.reports, s.count("fail"), j.report)
	}
	if len(j.report.Detail) != protocol.MaxDetailBytes || !strings.HasPrefix(j.report.Detail, "line 1, column 1: ??x") {
		t.Errorf("detail of %d bytes: %.40q", len(j.report.Detail), j.report.Detail)
	}
}

func TestAddressesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "http://localhost:9443", "localhost:9443", "https://", "https://a@b", "https://b/path", "https://b?q", "https://b#f"} {
		if _, err := jobs.NewClient(address, http.DefaultTransport, fast); err == nil {
			t.Errorf("%q was taken", address)
		}
	}
	if _, err := jobs.NewClient("https://localhost:9443/", http.DefaultTransport, fast); err != nil {
		t.Error(err)
	}
}

func TestOutcomesKeepTheTable(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "JOB-11")
	for _, code := range failure.Codes() {
		fact, _ := failure.Lookup(code)
		got := jobs.Failed(code, "", nil).Failure
		if fact.Reporter == failure.ByWorker && (got.Code != code || got.Retryable != fact.Retryable) {
			t.Errorf("%s became %+v", code, got)
		}
		if fact.Reporter == failure.ByServer && got.Code != failure.SandboxFailure {
			t.Errorf("%s, which is the server's to say, became %+v", code, got)
		}
	}
	if got := jobs.Failed("novel", "", nil).Failure; got.Code != failure.SandboxFailure || !got.Retryable {
		t.Errorf("an unknown code became %+v", got)
	}
}

// The server asks for time: it gets it.
func TestRetryAfterIsKept(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.setHook(func(verb string, n int, w http.ResponseWriter, _ *http.Request) bool {
		if verb == "result" && n == 1 {
			w.Header().Set("Retry-After", "1")
			refuse(w, 503, "unavailable")
			return true
		}
		return false
	})
	s.add("x", nil)
	begun := time.Now()
	w := start(t, s, runner{}, 1, 0)
	w.untilEnd(jobs.EndCompleted)
	if took := time.Since(begun); took < time.Second {
		t.Errorf("asked for a second, waited %s in all", took)
	}
}
