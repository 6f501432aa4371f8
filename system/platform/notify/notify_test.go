package notify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"glovebox/system/platform/notify"
	"glovebox/system/platform/secret"
	"glovebox/threat-model/evidence"
)

// target answers the next status of a list, the last one for ever, and tells of
// each delivery.
type target struct {
	mu       sync.Mutex
	statuses []int
	posts    chan map[string]any
	*httptest.Server
}

func newTarget(t *testing.T, statuses ...int) *target {
	t.Helper()
	g := &target{statuses: statuses, posts: make(chan map[string]any, 100)}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m map[string]any
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Errorf("the notification is no JSON: %v", err)
		}
		m["method"], m["type"] = r.Method, r.Header.Get("Content-Type")
		g.mu.Lock()
		status := g.statuses[0]
		if len(g.statuses) > 1 {
			g.statuses = g.statuses[1:]
		}
		g.mu.Unlock()
		if status == http.StatusFound {
			w.Header().Set("Location", g.URL+"/elsewhere")
		}
		w.WriteHeader(status)
		g.posts <- m
	}))
	t.Cleanup(g.Close)
	return g
}

func (g *target) next(t *testing.T) map[string]any {
	t.Helper()
	select {
	case m := <-g.posts:
		return m
	case <-time.After(10 * time.Second):
		t.Fatal("no notification came")
		return nil
	}
}

// run starts a Notifier and returns it, its log, and a function that stops it and
// waits until it has sent what was queued.
func run(t *testing.T, o notify.Options) (n *notify.Notifier, log *bytes.Buffer, stop func()) {
	t.Helper()
	log = &bytes.Buffer{}
	o.Component, o.Log, o.Backoff = "server", slog.New(slog.NewJSONHandler(log, nil)), time.Millisecond
	n, err := notify.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return n, log, stop
}

var event = notify.Event{Kind: "failed_logins", Summary: "many", Facts: map[string]string{"failures": "20"}}

func TestANotificationIsTriedUntilItIsTaken(t *testing.T) {
	evidence.Proves(t, "AUT-07")
	g := newTarget(t, 500, 429, 200)
	n, log, stop := run(t, notify.Options{URL: secret.New(g.URL + "/key-4711")})
	n.Notify(t.Context(), event)
	for range 3 {
		m := g.next(t)
		if m["kind"] != "failed_logins" || m["component"] != "server" || m["schema"] != 1.0 || m["method"] != "POST" || m["type"] != "application/json" {
			t.Errorf("notification %v", m)
		}
	}
	stop()
	if !strings.Contains(log.String(), "delivered") || strings.Contains(log.String(), "4711") {
		t.Errorf("log: %s", log)
	}
}

func TestWhatTryingAgainDoesNotChangeIsNotTriedAgain(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusFound} {
		g := newTarget(t, status)
		n, log, stop := run(t, notify.Options{URL: secret.New(g.URL)})
		n.Notify(t.Context(), event)
		g.next(t)
		stop()
		if len(g.posts) != 0 || !strings.Contains(log.String(), "not delivered") {
			t.Errorf("%d: %d more posts, log %s", status, len(g.posts), log)
		}
	}
}

func TestTriesAreBounded(t *testing.T) {
	g := newTarget(t, 500)
	n, log, stop := run(t, notify.Options{URL: secret.New(g.URL), Attempts: 4})
	n.Notify(t.Context(), event)
	for range 4 {
		g.next(t)
	}
	stop()
	if len(g.posts) != 0 || !strings.Contains(log.String(), `"attempts":4`) {
		t.Errorf("%d more posts, log %s", len(g.posts), log)
	}
}

// TestOneKindIsNotifiedAtMostOnceAnInterval: every event is in the log, and the
// next notification tells how many were held back.
func TestOneKindIsNotifiedAtMostOnceAnInterval(t *testing.T) {
	evidence.Proves(t, "AUT-07")
	g := newTarget(t, 200)
	n, log, stop := run(t, notify.Options{URL: secret.New(g.URL), Interval: 200 * time.Millisecond})
	for range 5 {
		n.Notify(t.Context(), event)
	}
	n.Notify(t.Context(), notify.Event{Kind: "another", Summary: "x"})
	kinds := map[any]int{}
	for range 2 {
		kinds[g.next(t)["kind"]]++
	}
	if kinds["failed_logins"] != 1 || kinds["another"] != 1 {
		t.Errorf("kinds %v", kinds)
	}
	interval := time.NewTimer(250 * time.Millisecond)
	<-interval.C
	n.Notify(t.Context(), event)
	if m := g.next(t); m["suppressed"] != 4.0 {
		t.Errorf("notification %v, want 4 suppressed", m)
	}
	stop()
	if got := strings.Count(log.String(), `"msg":"security notification"`); got != 7 {
		t.Errorf("%d log events, want 7", got)
	}
}

// TestADeadTargetBlocksNobody: the queue is bounded and what does not fit is told.
func TestADeadTargetBlocksNobody(t *testing.T) {
	evidence.Proves(t, "AUT-07")
	hang := make(chan struct{})
	g := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer g.Close()
	defer close(hang)
	n, log, _ := run(t, notify.Options{URL: secret.New(g.URL), Client: &http.Client{Transport: failing{}}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			n.Notify(context.Background(), event)
		}
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("Notify blocks")
	}
	if !strings.Contains(log.String(), "queue to the target is full") {
		t.Error("nothing tells that notifications were dropped")
	}
}

// failing never answers while its request lives.
type failing struct{}

func (failing) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, errors.New("gone")
}

func TestTargetsThatAreRefused(t *testing.T) {
	for _, bad := range []string{"http://example.com/key-4711", "ftp://example.com/key-4711", "key-4711", "https://", "http://127.0.0.1.example.com/key-4711"} {
		_, err := notify.New(notify.Options{URL: secret.New(bad), Log: slog.New(slog.DiscardHandler)})
		if err == nil || strings.Contains(err.Error(), "4711") {
			t.Errorf("%s: error is %v", bad, err)
		}
	}
	for _, good := range []string{"https://example.com/x", "http://127.0.0.1:9/x", "http://[::1]/x", "http://localhost/x", ""} {
		if _, err := notify.New(notify.Options{URL: secret.New(good), Log: slog.New(slog.DiscardHandler)}); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}
