// Package notify is the one channel of Security notifications (AUT-07, ING-07):
// every notification is a log event, and where a target is configured also a POST
// of JSON to it, retried and rate limited.
//
// Notify never blocks and never fails its caller: an attack that causes
// notifications must not slow the service down. What is held back by the rate
// limit is counted and told with the next one of its kind.
package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"glovebox/system/platform/secret"
)

// Event is one notification. No field holds a credential, or text that a stranger
// chose, other than in Facts.
type Event struct {
	Kind    string            // a fixed word, for example "failed_logins"
	Summary string            // one sentence for a person
	Facts   map[string]string // short values
}

// Options are the settings of a Notifier.
type Options struct {
	Component string        // who notifies: "server", "ingest"
	URL       secret.Text   // https, or http to loopback; zero: log events only
	Interval  time.Duration // least time between two notifications of one kind
	// Attempts bounds the tries of one notification; zero means 6.
	Attempts int
	// Backoff is the wait after the first try, doubled after each; zero means 1 s.
	Backoff time.Duration
	Client  *http.Client // nil: a client that verifies, and follows no redirect
	Log     *slog.Logger
}

const (
	queueLength    = 64
	requestTimeout = 10 * time.Second
	maxBackoff     = time.Minute
	// drainTime is how long Run goes on sending what is queued after its end was asked.
	drainTime = 5 * time.Second
)

// Notifier sends notifications. Make one with New and run it with Run.
type Notifier struct {
	options Options
	queue   chan message

	mu   sync.Mutex
	last map[string]*kindState
}

type kindState struct {
	at   time.Time
	held int
}

// message is what the target receives.
type message struct {
	Schema     int               `json:"schema"`
	Component  string            `json:"component"`
	Kind       string            `json:"kind"`
	Summary    string            `json:"summary"`
	Facts      map[string]string `json:"facts,omitempty"`
	At         time.Time         `json:"at"`
	Suppressed int               `json:"suppressed"` // of this kind since the last one sent
}

// New returns a Notifier, or an error that says what is wrong with the target
// without repeating it: the URL may hold a key.
func New(o Options) (*Notifier, error) {
	if !o.URL.IsZero() {
		target, err := url.Parse(o.URL.Reveal())
		if err != nil || target.Host == "" {
			return nil, errors.New("the security notification target is not a URL")
		}
		loopback := target.Hostname() == "127.0.0.1" || target.Hostname() == "::1" || target.Hostname() == "localhost"
		if target.Scheme != "https" && !(target.Scheme == "http" && loopback) {
			return nil, errors.New("the security notification target must be https, or http on loopback")
		}
	}
	if o.Attempts <= 0 {
		o.Attempts = 6
	}
	if o.Backoff <= 0 {
		o.Backoff = time.Second
	}
	if o.Client == nil {
		o.Client = &http.Client{
			Timeout:       requestTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: requestTimeout, DisableKeepAlives: true},
		}
	}
	return &Notifier{options: o, queue: make(chan message, queueLength), last: map[string]*kindState{}}, nil
}

// Notify logs e and queues it for the target unless one of its kind was sent less
// than the interval ago.
func (n *Notifier) Notify(ctx context.Context, e Event) {
	n.options.Log.WarnContext(ctx, "security notification", "kind", e.Kind, "summary", e.Summary, "facts", e.Facts)
	if n.options.URL.IsZero() {
		return
	}
	now := time.Now()
	n.mu.Lock()
	state := n.last[e.Kind]
	if state == nil {
		state = &kindState{}
		n.last[e.Kind] = state
	} else if now.Sub(state.at) < n.options.Interval {
		state.held++
		n.mu.Unlock()
		return
	}
	held := state.held
	state.at, state.held = now, 0
	n.mu.Unlock()

	select {
	case n.queue <- message{1, n.options.Component, e.Kind, e.Summary, e.Facts, now.UTC(), held}:
	default:
		n.options.Log.ErrorContext(ctx, "security notification dropped: the queue to the target is full", "kind", e.Kind)
	}
}

// Run sends what is queued until ctx is done, and then what is still queued for a
// short time.
func (n *Notifier) Run(ctx context.Context) error {
	for {
		select {
		case m := <-n.queue:
			n.deliver(ctx, m)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
			defer cancel()
			for {
				select {
				case m := <-n.queue:
					n.deliver(last, m)
				default:
					return nil
				}
			}
		}
	}
}

// deliver tries until the target takes it, refuses it for good, or the tries are
// used up.
func (n *Notifier) deliver(ctx context.Context, m message) {
	body, err := json.Marshal(m)
	if err != nil {
		n.options.Log.ErrorContext(ctx, "security notification cannot be encoded", "kind", m.Kind, "error", err)
		return
	}
	wait := n.options.Backoff
	for attempt := 1; ; attempt++ {
		again, err := n.post(ctx, body)
		if err == nil {
			n.options.Log.InfoContext(ctx, "security notification delivered", "kind", m.Kind, "attempt", attempt)
			return
		}
		if !again || attempt == n.options.Attempts || ctx.Err() != nil {
			n.options.Log.ErrorContext(ctx, "security notification not delivered", "kind", m.Kind, "attempts", attempt, "error", err)
			return
		}
		timer := time.NewTimer(wait/2 + time.Duration(rand.Int64N(int64(wait/2)+1))) //nolint:gosec // jitter, not a secret
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		wait = min(wait*2, maxBackoff)
	}
}

// post sends once. Its errors never hold the target's URL.
func (n *Notifier) post(ctx context.Context, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.options.URL.Reveal(), bytes.NewReader(body))
	if err != nil {
		return false, errors.New("cannot make a request for the target")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "glovebox-"+n.options.Component)
	res, err := n.options.Client.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // the outer one repeats the URL
		}
		return true, fmt.Errorf("reach the target: %w", err)
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10)
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		return false, nil
	case res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusRequestTimeout, res.StatusCode >= 500:
		return true, fmt.Errorf("the target answered %d", res.StatusCode)
	default:
		return false, fmt.Errorf("the target answered %d, which trying again does not change", res.StatusCode)
	}
}
