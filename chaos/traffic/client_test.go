package traffic

import (
	"context"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"glovebox/chaos/history"
	"glovebox/threat-model/evidence"
)

// told serves one answer to everything and returns a client of it.
func told(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	trust := x509.NewCertPool()
	trust.AddCert(server.Certificate())
	c := NewClient("alice-0", "alice", []string{server.URL}, trust, NewRecorder())
	t.Cleanup(c.Close)
	return c
}

func saying(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func refusal(code string) string { return `{"error":{"code":"` + code + `","message":"x"}}` }

// cut announces more than it sends.
func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	fmt.Fprint(w, "half")
}

func gone(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// TestWhatAnAnswerMeans: a lost answer is maybe, a clear no is a refusal, and what a
// friendly user must never be told is a surprise.
func TestWhatAnAnswerMeans(t *testing.T) {
	evidence.Proves(t, "HAR-06")
	submit := func(c *Client) history.Event {
		return c.Submit(context.Background(), 0, SizedFile(rand.New(rand.NewPCG(1, 1)), "x", 10), "key")
	}
	status := func(c *Client) history.Event { return c.Status(context.Background(), 0, "j") }
	download := func(c *Client) history.Event { return c.Download(context.Background(), 0, "j", "want") }
	for _, row := range []struct {
		name     string
		answer   http.HandlerFunc
		ask      func(*Client) history.Event
		outcome  history.Outcome
		surprise bool
	}{
		{"created", saying(201, `{"id":"j","status":"pending"}`), submit, history.OK, false},
		{"created without an id", saying(201, `{}`), submit, history.OK, true},
		{"the connection broke", gone, submit, history.Maybe, false},
		{"the answer broke", cut, submit, history.Maybe, false},
		{"unavailable", saying(503, refusal("unavailable")), submit, history.Maybe, false},
		{"internal", saying(500, refusal("internal")), submit, history.Maybe, false},
		{"a proxy's own error", saying(502, "bad gateway"), submit, history.Maybe, false},
		{"overloaded", saying(503, refusal("overloaded")), submit, history.Refused, false},
		{"in flight", saying(409, refusal("idempotency_in_flight")), submit, history.Refused, false},
		{"a full disk", saying(507, refusal("insufficient_storage")), submit, history.Refused, false},
		{"other bytes, says the server", saying(422, refusal("idempotency_mismatch")), submit, history.Refused, true},
		{"no token, says the server", saying(401, refusal("unauthenticated")), submit, history.Refused, true},
		{"status", saying(200, `{"id":"j","status":"completed"}`), status, history.OK, false},
		{"the status of another job", saying(200, `{"id":"k","status":"completed"}`), status, history.OK, true},
		{"a job that is gone", saying(404, refusal("not_found")), status, history.Refused, true},
		{"a result", saying(200, "bytes"), download, history.OK, false},
		{"half a result", cut, download, history.Maybe, false},
		{"damaged in storage", saying(500, refusal("internal")), download, history.Maybe, false},
		{"expired", saying(410, refusal("result_expired")), download, history.Refused, false},
		{"another user's, says the server", saying(404, refusal("not_found")), download, history.Refused, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := told(t, row.answer)
			e := row.ask(c)
			if e.Outcome != row.outcome || (e.Return == 0) != (row.outcome == history.Maybe) {
				t.Errorf("got %s, returned at %d, want %s", e, e.Return, row.outcome)
			}
			if surprised := len(c.Recorder.Surprises()) > 0; surprised != row.surprise {
				t.Errorf("surprises: %v", c.Recorder.Surprises())
			}
			if events := c.Recorder.Events(); len(events) != 1 || events[0] != e {
				t.Errorf("recorded %v", events)
			}
		})
	}
}

// A key that is not acknowledged is sent again as it is, until it is.
func TestDeliverRepeatsItsKey(t *testing.T) {
	evidence.Proves(t, "HAR-06", "API-04")
	var keys []string
	c := told(t, func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		if len(keys) < 3 {
			gone(w, r)
		}
		saying(201, `{"id":"j","status":"pending"}`)(w, r)
	})
	// A seed that does not draw the repetition after an acknowledgement.
	sent, ok := c.Deliver(context.Background(), rand.New(rand.NewPCG(1, 1)), SizedFile(rand.New(rand.NewPCG(2, 2)), "x", 10))
	if !ok || sent.Job != "j" || len(keys) < 3 {
		t.Fatalf("%+v %v after %d requests", sent, ok, len(keys))
	}
	for _, key := range keys {
		if key != sent.Key || !strings.HasPrefix(key, "x-") {
			t.Errorf("keys: %v", keys)
		}
	}
}

// Files differ, and what must come back is what follows the first line.
func TestFiles(t *testing.T) {
	evidence.Proves(t, "HAR-06")
	random := rand.New(rand.NewPCG(3, 3))
	seen := map[string]bool{}
	waits := 0
	for range 200 {
		f := NewFile(random, "same")
		if seen[f.Sent] || f.Sent != hexSum(f.Content) {
			t.Fatal("two files are one, or a digest is another")
		}
		seen[f.Sent] = true
		body := f.Content
		if line, rest, ok := strings.Cut(string(f.Content), "\n"); ok && strings.HasPrefix(line, "#!act sleep ") {
			body = []byte(rest)
			waits++
		}
		if f.Want != hexSum(body) {
			t.Fatal("the digest of the result is another")
		}
	}
	if waits == 0 || waits == 200 {
		t.Errorf("%d of 200 files wait", waits)
	}
}
