// Package pace cuts off peers that are too slow, and only those.
//
// There is no total timeout: a large file over a slow line may take an hour. Each
// single read or write has a deadline instead, and each direction of a request
// has a budget of time that shrinks while the server waits for the peer and grows
// with every byte that moves, at the least rate. A peer that stops is cut off
// after Stall; one that trickles is cut off when its budget is used up; one that
// stays above the rate never is (API-06). Time that the server itself spends
// between two reads costs the peer nothing.
//
// Deadlines are set right before an operation and cleared right after it: under
// HTTP/2 they are timers that would fire in between, and under HTTP/1 a read
// deadline that is left standing cancels the request's context once its body has
// been read.
package pace

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"glovebox/system/server/internal/platform/httperr"
)

// Limits say what is too slow.
type Limits struct {
	Stall   time.Duration // no byte at all for so long
	Window  time.Duration // the most budget a peer can save up
	MinRate int64         // bytes a second
	// Drain bounds the reading of a body that the handler left unread.
	Drain time.Duration
}

// Handler puts every body of next under limits.
func Handler(limits Limits, next http.Handler) http.Handler {
	if limits.Drain <= 0 {
		limits.Drain = min(limits.Stall, 5*time.Second)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		out := &writer{ResponseWriter: w, control: control, budget: newBudget(limits)}
		var in *reader
		if r.Body != nil && r.Body != http.NoBody {
			in = &reader{body: r.Body, control: control, budget: newBudget(limits)}
			r.Body = in
			out.in = in
		}
		// The server's own work after the handler: it reads what is left of the
		// body, up to a bound, and flushes. Neither may hang.
		defer func() {
			now := time.Now()
			if in != nil && !in.ended {
				_ = control.SetReadDeadline(now.Add(limits.Drain))
			}
			_ = control.SetWriteDeadline(now.Add(limits.Drain + limits.Stall))
		}()
		next.ServeHTTP(out, r)
	})
}

// budget is the time a peer may still keep the server waiting.
type budget struct {
	limits Limits
	left   time.Duration
}

func newBudget(limits Limits) budget { return budget{limits: limits, left: limits.Window} }

// start returns the deadline of an operation that begins now.
func (b *budget) start(now time.Time) time.Time { return now.Add(min(b.limits.Stall, max(b.left, 0))) }

// spend accounts for an operation that took took and moved n bytes.
func (b *budget) spend(took time.Duration, n int) {
	earned := time.Duration(float64(n) / float64(b.limits.MinRate) * float64(time.Second))
	b.left = min(b.left-took+earned, b.limits.Window)
}

// reader is a request's body.
type reader struct {
	body    io.ReadCloser
	control *http.ResponseController
	budget  budget
	started bool
	ended   bool
}

// Read implements io.Reader. Its errors say whose fault they are: a body that is
// too slow is request_timeout, one that breaks off is invalid_request.
func (r *reader) Read(p []byte) (int, error) {
	began := time.Now()
	deadline := r.budget.start(began)
	if err := r.control.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	if !r.started {
		// The first read may have to write "100 Continue".
		r.started = true
		_ = r.control.SetWriteDeadline(began.Add(r.budget.limits.Stall))
		defer func() { _ = r.control.SetWriteDeadline(time.Time{}) }()
	}
	n, err := r.body.Read(p)
	r.budget.spend(time.Since(began), n)
	if clearErr := r.control.SetReadDeadline(time.Time{}); clearErr != nil && err == nil {
		err = clearErr
	}
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF:
		r.ended = true
		return n, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, &httperr.Error{Code: httperr.RequestTimeout, Message: "the request's body came too slowly", Cause: err, Close: true}
	default:
		return n, &httperr.Error{Code: httperr.Invalid, Message: "the request's body broke off or its framing is wrong", Cause: err, Close: true}
	}
}

// Close implements io.Closer.
func (r *reader) Close() error { return r.body.Close() }

// writer is a response.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
	budget  budget
	in      *reader
}

// Unwrap lets http.ResponseController find the server's own writer.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	_ = w.timed(func() (int, error) { w.ResponseWriter.WriteHeader(status); return 0, nil })
}

// Bounds of one piece of a write.
const (
	minPiece = 4 << 10
	maxPiece = 64 << 10
)

// Write implements io.Writer. It writes pieces, so that a large write is judged by
// its progress and not as a whole: a peer at the least rate takes half of Stall
// for one.
func (w *writer) Write(p []byte) (total int, err error) {
	piece := int(w.budget.limits.Stall.Seconds() * float64(w.budget.limits.MinRate) / 2)
	piece = max(minPiece, min(piece, maxPiece))
	for first := true; first || len(p) > 0; first = false {
		part := p[:min(len(p), piece)]
		var n int
		err := w.timed(func() (int, error) {
			var err error
			n, err = w.ResponseWriter.Write(part)
			return n, err
		})
		total += n
		if err != nil {
			return total, err
		}
		p = p[len(part):]
	}
	return total, nil
}

// FlushError is what http.ResponseController calls to flush.
func (w *writer) FlushError() error {
	return w.timed(func() (int, error) { return 0, w.control.Flush() })
}

func (w *writer) timed(operation func() (int, error)) error {
	began := time.Now()
	deadline := w.budget.start(began)
	// The first write of a response makes an HTTP/1 server read what is left of
	// the request's body: the write's own time begins after that.
	drains := w.in != nil && !w.in.ended
	if drains {
		_ = w.control.SetReadDeadline(began.Add(w.budget.limits.Drain))
		deadline = deadline.Add(w.budget.limits.Drain)
	}
	_ = w.control.SetWriteDeadline(deadline)
	n, err := operation()
	w.budget.spend(time.Since(began), n)
	if drains {
		_ = w.control.SetReadDeadline(time.Time{})
	}
	_ = w.control.SetWriteDeadline(time.Time{})
	return err
}
