package jobs_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"glovebox/system/platform/logging"
	"glovebox/system/platform/pki"
	"glovebox/system/platform/tlsconf"
	"glovebox/system/protocol"
	"glovebox/system/protocol/failure"
	"glovebox/system/worker/internal/jobs"
)

// worker is a Loop against a server, with a runner that a test writes.
type worker struct {
	t      *testing.T
	client *jobs.Client
	loop   *jobs.Loop
	log    *lines
	seen   *observer
	stop   context.CancelFunc
	ended  chan struct{}
}

// runner is a jobs.Runner from two functions. Its work is the upper-cased input
// where the test gives none.
type runner struct {
	ready func(ctx context.Context) error
	work  func(ctx context.Context, a protocol.Assignment, x jobs.Exchange) jobs.Outcome
}

func (r runner) Ready(ctx context.Context) error {
	if r.ready == nil {
		return nil
	}
	return r.ready(ctx)
}

func (r runner) Execute(ctx context.Context, a protocol.Assignment, x jobs.Exchange) jobs.Outcome {
	if r.work == nil {
		return upper(ctx, a, x)
	}
	return r.work(ctx, a, x)
}

// memory is an input file in memory.
type memory struct{ content []byte }

func (m *memory) WriteAt(b []byte, at int64) (int, error) {
	if need := int(at) + len(b); need > len(m.content) {
		m.content = append(m.content, make([]byte, need-len(m.content))...)
	}
	return copy(m.content[at:], b), nil
}

func upper(ctx context.Context, _ protocol.Assignment, x jobs.Exchange) jobs.Outcome {
	in := &memory{}
	if err := x.FetchInput(ctx, in); err != nil {
		return jobs.Failed(failure.SandboxFailure, "no input", err)
	}
	return deliver(ctx, x, bytes.ToUpper(in.content))
}

// ran is what deliver says of its run.
const ran = "image=sha256:00; duration_ms=1"

func deliver(ctx context.Context, x jobs.Exchange, result []byte) jobs.Outcome {
	if err := x.DeliverResult(ctx, bytes.NewReader(result), int64(len(result)), sha256.Sum256(result), ran); err != nil {
		return jobs.Failed(failure.SandboxFailure, "not delivered", err)
	}
	return jobs.Outcome{Delivered: true}
}

// untilTold is work that ends only with its context, whose cause it sends.
func untilTold(started chan<- string, cause chan<- error) func(context.Context, protocol.Assignment, jobs.Exchange) jobs.Outcome {
	return func(ctx context.Context, a protocol.Assignment, _ jobs.Exchange) jobs.Outcome {
		started <- a.ID
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return jobs.Failed(failure.SandboxFailure, "ended", nil)
	}
}

type observer struct {
	mu     sync.Mutex
	ends   map[string]int
	most   int
	failed int
	change *sync.Cond
}

func newObserver() *observer {
	o := &observer{ends: map[string]int{}}
	o.change = sync.NewCond(&o.mu)
	return o
}

func (o *observer) AttemptEnded(end string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ends[end]++
	o.change.Broadcast()
}

func (o *observer) SlotsBusy(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.most = max(o.most, n)
}

func (o *observer) HeartbeatFailed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed++
}

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

// newClient returns a client with a worker's certificate.
func newClient(t *testing.T, s *server, timing jobs.Timing) *jobs.Client {
	t.Helper()
	certFile, keyFile := s.in.Worker("w-1")
	source, err := tlsconf.Open(tlsconf.Files{Cert: certFile, Key: keyFile, CA: s.in.Bundle(pki.Internal)}, discard())
	if err != nil {
		t.Fatal(err)
	}
	transport := source.RoundTripper(16)
	t.Cleanup(transport.CloseIdleConnections)
	client, err := jobs.NewClient(s.url, transport, timing)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func start(t *testing.T, s *server, r runner, slots int, grace time.Duration) *worker {
	t.Helper()
	return startTimed(t, s, r, slots, grace, fast)
}

func startTimed(t *testing.T, s *server, r runner, slots int, grace time.Duration, timing jobs.Timing) *worker {
	t.Helper()
	w := &worker{t: t, client: newClient(t, s, timing), log: &lines{}, seen: newObserver(), ended: make(chan struct{})}
	w.loop = jobs.NewLoop(w.client, r, w.seen, logging.New(w.log, "worker", slog.LevelDebug), slots, grace)
	var ctx context.Context
	ctx, w.stop = context.WithCancel(context.Background())
	go func() {
		defer close(w.ended)
		if err := w.loop.Run(ctx); err != nil {
			t.Errorf("the loop ended with %v", err)
		}
	}()
	t.Cleanup(func() {
		w.stop()
		w.wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, problem := range s.problems {
			t.Errorf("the protocol was broken: %s", problem)
		}
		if t.Failed() {
			t.Logf("the worker's log:\n%s", w.log)
		}
	})
	return w
}

// wait returns when the loop has ended.
func (w *worker) wait() {
	w.t.Helper()
	select {
	case <-w.ended:
	case <-time.After(30 * time.Second):
		w.t.Error("the loop does not end")
	}
}

// untilEnd waits for an attempt that ended so.
func (w *worker) untilEnd(end string) {
	w.t.Helper()
	late := false
	timer := time.AfterFunc(30*time.Second, func() {
		w.seen.mu.Lock()
		defer w.seen.mu.Unlock()
		late = true
		w.seen.change.Broadcast()
	})
	defer timer.Stop()
	w.seen.mu.Lock()
	defer w.seen.mu.Unlock()
	for w.seen.ends[end] == 0 {
		if late {
			w.t.Fatalf("no attempt ended with %s; ends %v", end, w.seen.ends)
		}
		w.seen.change.Wait()
	}
}

func (w *worker) ends() map[string]int {
	w.seen.mu.Lock()
	defer w.seen.mu.Unlock()
	ends := map[string]int{}
	for end, n := range w.seen.ends {
		ends[end] = n
	}
	return ends
}

// receive takes from c or fails the test.
func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(30 * time.Second):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

var _ io.WriterAt = (*memory)(nil)
