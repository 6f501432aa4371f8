package jobs_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"glovebox/system/platform/logging"
	"glovebox/system/platform/pki"
	"glovebox/system/platform/pki/pkitest"
	"glovebox/system/platform/tlsconf"
	"glovebox/system/protocol"
	"glovebox/system/worker/internal/jobs"
)

// A server of the standard library lingers half a second over a connection that it
// refused, also when it was closed.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// server is an internal API over real mTLS that keeps the protocol, unless a
// test's hook lies for it.
type server struct {
	t      *testing.T
	in     *pkitest.Installation
	url    string
	listen func() // (re)opens the listener on the same port
	close  func()
	over   chan struct{} // closed when the test ends

	// hook sees each request first, n counting from 1 for its verb. It returns
	// true when it has answered.
	hook func(verb string, n int, w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	pending  []*job
	byClaim  map[string]*job
	byID     map[string]*job
	counts   map[string]int
	requests []string // claim ids in the order they came
	problems []string // requests that break the protocol
	moved    *sync.Cond
}

type job struct {
	a         protocol.Assignment
	input     []byte
	status    string // pending, processing, completed, failed
	result    []byte
	completed int
	report    protocol.FailureReport
	reports   int
	said      []string // of the run, by the report that ended it; nil without the header
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, in: pkitest.New(t), byClaim: map[string]*job{}, byID: map[string]*job{}, counts: map[string]int{}, over: make(chan struct{})}
	s.moved = sync.NewCond(&s.mu)
	certFile, keyFile := s.in.InternalServer()
	source, err := tlsconf.Open(tlsconf.Files{Cert: certFile, Key: keyFile, CA: s.in.Bundle(pki.Internal)}, discard())
	if err != nil {
		t.Fatal(err)
	}
	address := "127.0.0.1:0"
	s.listen = func() {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		address = listener.Addr().String()
		s.url = "https://" + address
		srv := &http.Server{
			Handler: s, TLSConfig: source.MutualServer("http/1.1"), ReadHeaderTimeout: 10 * time.Second,
			ErrorLog: slog.NewLogLogger(discard().Handler(), slog.LevelDebug),
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = srv.ServeTLS(listener, "", "")
		}()
		s.close = sync.OnceFunc(func() {
			_ = srv.Close()
			<-done
		})
	}
	s.listen()
	t.Cleanup(func() {
		close(s.over)
		s.close()
	})
	return s
}

func discard() *slog.Logger { return logging.New(io.Discard, "test", slog.LevelDebug) }

// add queues a job with this input; change may alter the assignment.
func (s *server) add(input string, change func(*protocol.Assignment)) *job {
	sum := sha256.Sum256([]byte(input))
	j := &job{status: "pending", input: []byte(input), a: protocol.Assignment{
		ID: uuid.NewString(), LeaseSeconds: 2, HeartbeatSeconds: 1, InputSize: int64(len(input)),
		InputSHA256: hex.EncodeToString(sum[:]), TimeoutSeconds: 30, MaxResultBytes: 1 << 20,
	}}
	if change != nil {
		change(&j.a)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, j)
	s.byID[j.a.ID] = j
	s.moved.Broadcast()
	return j
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mux := http.NewServeMux()
	for pattern, verb := range map[string]string{
		"POST " + protocol.PathClaim: "claim", "GET " + protocol.PathInput: "input",
		"POST " + protocol.PathHeartbeat: "heartbeat", "PUT " + protocol.PathResult: "result", "POST " + protocol.PathFail: "fail",
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if _, kind, ok := tlsconf.WorkerID(*r.TLS); !ok || kind != pki.Worker {
				s.problem("a peer without a worker's identity came in")
			}
			s.mu.Lock()
			s.counts[verb]++
			n := s.counts[verb]
			if verb == "claim" {
				s.requests = append(s.requests, r.Header.Get(protocol.HeaderRequestID))
			}
			s.moved.Broadcast()
			hook := s.hook
			s.mu.Unlock()
			if hook != nil && hook(verb, n, w, r) {
				return
			}
			s.honest(verb, w, r)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.problem("a request for " + r.Method + " " + r.URL.Path)
		http.NotFound(w, r)
	})
	mux.ServeHTTP(w, r)
}

// honest answers as the protocol says.
func (s *server) honest(verb string, w http.ResponseWriter, r *http.Request) {
	if verb == "claim" {
		s.claim(w, r)
		return
	}
	j, ok := s.fenced(w, r)
	if !ok {
		return
	}
	switch verb {
	case "input":
		w.Header().Set("Content-Length", strconv.Itoa(len(j.input)))
		_, _ = w.Write(j.input)
	case "heartbeat":
		answer(w, 200, protocol.HeartbeatAnswer{LeaseSeconds: j.a.LeaseSeconds})
	case "result":
		s.result(j, w, r)
	case "fail":
		s.fail(j, w, r)
	}
}

func (s *server) claim(w http.ResponseWriter, r *http.Request) {
	wait, err := time.ParseDuration(r.URL.Query().Get("wait"))
	id := r.Header.Get(protocol.HeaderRequestID)
	if _, idErr := uuid.Parse(id); err != nil || idErr != nil {
		s.problem("a claim without a wait or a request id")
	}
	var slots protocol.Saturation
	if err := json.NewDecoder(r.Body).Decode(&slots); err != nil || slots.SlotsTotal < 1 || slots.SlotsFree < 0 || slots.SlotsFree > slots.SlotsTotal {
		s.problem(fmt.Sprintf("a claim with slots %+v (%v)", slots, err))
	}
	_, _ = io.Copy(io.Discard, r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	over := false
	timer := time.AfterFunc(wait, func() { s.wake(&over) })
	defer timer.Stop()
	defer context.AfterFunc(r.Context(), func() { s.wake(&over) })()
	for len(s.pending) == 0 && s.byClaim[id] == nil && !over {
		s.moved.Wait()
	}
	j := s.byClaim[id]
	if j == nil && len(s.pending) > 0 && r.Context().Err() == nil {
		j, s.pending = s.pending[0], s.pending[1:]
		j.a.Attempt++
		j.a.FencingToken++
		j.status = "processing"
		s.byClaim[id] = j
		s.moved.Broadcast()
	}
	if j == nil {
		w.WriteHeader(204)
		return
	}
	answer(w, 200, j.a)
}

func (s *server) wake(over *bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*over = true
	s.moved.Broadcast()
}

func (s *server) fenced(w http.ResponseWriter, r *http.Request) (*job, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.byID[r.PathValue("id")]
	if j == nil || r.Header.Get(protocol.HeaderFencingToken) != strconv.FormatInt(j.a.FencingToken, 10) || j.status == "pending" {
		refuse(w, 409, protocol.CodeLeaseLost)
		return nil, false
	}
	return j, true
}

func (s *server) result(j *job, w http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return // cut: nothing stored
	}
	sum := sha256.Sum256(content)
	if r.ContentLength != int64(len(content)) || r.Header.Get(protocol.HeaderReprDigest) != "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":" {
		s.problem("a result whose length or digest is not announced")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case j.status == "completed" && bytes.Equal(j.result, content):
	case j.status == "completed":
		refuse(w, 409, protocol.CodeConflict)
		return
	case j.status != "processing":
		refuse(w, 409, protocol.CodeLeaseLost)
		return
	default:
		j.status, j.result, j.said = "completed", content, r.Header.Values(protocol.HeaderProvenance)
		j.completed++
	}
	s.moved.Broadcast()
	answer(w, 200, protocol.ResultAnswer{Status: "completed", SHA256: hex.EncodeToString(sum[:]), Size: int64(len(content))})
}

func (s *server) fail(j *job, w http.ResponseWriter, r *http.Request) {
	var report protocol.FailureReport
	if err := json.NewDecoder(r.Body).Decode(&report); err != nil || len(report.Detail) > protocol.MaxDetailBytes {
		s.problem(fmt.Sprintf("a failure report that breaks its form: %v", err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.status == "completed" {
		refuse(w, 409, protocol.CodeLeaseLost)
		return
	}
	if j.status != "failed" {
		j.reports++
	}
	j.status, j.report, j.said = "failed", report, r.Header.Values(protocol.HeaderProvenance)
	s.moved.Broadcast()
	answer(w, 200, protocol.FailureAnswer{Status: "failed"})
}

func (s *server) problem(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, text)
}

func (s *server) setHook(hook func(verb string, n int, w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// until waits for a state of the server, and fails the test when it does not
// come within half a minute.
func (s *server) until(what string, state func() bool) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	late := false
	timer := time.AfterFunc(30*time.Second, func() { s.wake(&late) })
	defer timer.Stop()
	for !state() {
		if late {
			s.t.Fatalf("did not come about: %s; counts %v, problems %q", what, s.counts, s.problems)
		}
		s.moved.Wait()
	}
}

func (s *server) count(verb string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[verb]
}

func (s *server) claimIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, code string) {
	answer(w, status, protocol.Error{Error: protocol.ErrorBody{Code: code, Message: "refused"}})
}

// stall answers nothing for as long as the client waits.
func (s *server) stall(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.over: // the context outlives a client whose body was not read
	}
}

// floodBytes is more than any buffer on the way, and more than a client takes.
const floodBytes = 32 << 20

// flood answers with one JSON text that does not end.
func (s *server) flood(w http.ResponseWriter) {
	_, err := io.WriteString(w, `{"error":{"code":"internal","message":"`)
	block := bytes.Repeat([]byte("x"), 64<<10)
	for sent := 0; err == nil; sent += len(block) {
		if sent > floodBytes {
			s.problem("an endless answer was read to the end")
			return
		}
		_, err = w.Write(block)
	}
}

// cut closes the connection without an answer.
func cut(http.ResponseWriter) bool { panic(http.ErrAbortHandler) }

// recorder is a ResponseWriter whose answer goes nowhere: the request takes
// effect and its answer is lost.
type recorder struct {
	header http.Header
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }
func (r *recorder) WriteHeader(int)             {}

// loseAnswer lets the server act and cuts the connection in place of an answer.
func (s *server) loseAnswer(verb string, w http.ResponseWriter, r *http.Request) bool {
	s.honest(verb, &recorder{header: http.Header{}}, r)
	return cut(w)
}

var fast = jobs.Timing{
	Call: 2 * time.Second, Stall: time.Second, Wait: 5 * time.Second,
	First: 5 * time.Millisecond, Most: 50 * time.Millisecond, HandBack: 5 * time.Second,
}
