package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"glovebox/system/platform/logging"
	"glovebox/system/server/internal/httpapi/wire"
	"glovebox/system/server/internal/platform/httperr"
)

// HeaderRequestID names the correlation id of a request, in both directions.
const HeaderRequestID = "X-Request-Id"

// Observe is told of every answered request: the route's pattern (never the
// path), and what became of it.
type Observe func(route, method string, status int, took time.Duration)

// base is what every request of both APIs passes, outermost first: correlation
// id, access log, security headers, recovery, header rules.
func base(log *slog.Logger, errs httperr.Responder, proxies Proxies, observe Observe) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		next = strictHeaders(errs, next)
		next = recovered(log, errs, next)
		next = securityHeaders(next)
		next = accessLog(log, observe, next)
		return correlated(proxies, next)
	}
}

// correlated gives the request its id: the client's own if it is a UUID in
// canonical form, so that nothing else of a client's choosing gets into logs.
func correlated(proxies Proxies, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(HeaderRequestID)
		if len(r.Header.Values(HeaderRequestID)) != 1 || !wire.ValidUUID(id) {
			id = uuid.NewString()
		}
		w.Header().Set(HeaderRequestID, id)
		ctx := wire.WithCorrelationID(r.Context(), id)
		ctx = logging.With(ctx, slog.String("request_id", id))
		ctx = context.WithValue(ctx, addressKey{}, proxies.ClientAddress(r))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// accessLog writes one line for each request: no query, no body, no header, and
// of the path only the route's pattern and the job's id where it is one.
func accessLog(log *slog.Logger, observe Observe, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		seen := &statusWriter{ResponseWriter: w}
		routes := chi.NewRouteContext()
		peer := new(string)
		ctx := context.WithValue(r.Context(), chi.RouteCtxKey, routes)
		r = r.WithContext(context.WithValue(ctx, peerKey{}, peer))
		defer func() {
			took := time.Since(began)
			route := routes.RoutePattern()
			if route == "" || seen.status == http.StatusNotFound && strings.HasSuffix(route, "*") {
				route = "unmatched"
			}
			method := methodName(r)
			attrs := []any{
				"method", method, "route", route, "status", seen.status, "bytes_out", seen.bytes,
				"duration_ms", took.Milliseconds(), "client", AddressFrom(r.Context()).String(), "protocol", r.Proto,
			}
			if *peer != "" {
				attrs = append(attrs, "peer", *peer)
			}
			if id := routes.URLParam("id"); wire.ValidUUID(id) {
				attrs = append(attrs, "job_id", id)
			}
			log.InfoContext(r.Context(), "request", attrs...)
			if observe != nil {
				observe(route, method, seen.status, took)
			}
		}()
		next.ServeHTTP(seen, r)
	})
}

type peerKey struct{}

// notePeer tells the access log who the certificate names.
func notePeer(ctx context.Context, name string) {
	if peer, ok := ctx.Value(peerKey{}).(*string); ok {
		*peer = name
	}
}

var knownMethods = map[string]bool{
	http.MethodGet: true, http.MethodHead: true, http.MethodPost: true, http.MethodPut: true,
	http.MethodDelete: true, http.MethodPatch: true, http.MethodOptions: true,
}

// methodName bounds what a client's method can be called in logs and figures.
func methodName(r *http.Request) string {
	if !knownMethods[r.Method] {
		return "other"
	}
	return r.Method
}

// statusWriter remembers what was answered.
type statusWriter struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// Unwrap lets http.ResponseController find the server's own writer.
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (s *statusWriter) WriteHeader(status int) {
	if s.status == 0 && status >= 200 {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (s *statusWriter) Write(p []byte) (int, error) {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	n, err := s.ResponseWriter.Write(p)
	s.bytes += int64(n)
	return n, err
}

// recovered turns a panic into the one error form; the stack goes to the log. A
// response that had begun is broken off, so that nobody takes it for whole.
func recovered(log *slog.Logger, errs httperr.Responder, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause == http.ErrAbortHandler {
				panic(cause)
			}
			log.ErrorContext(r.Context(), "handler panicked", "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
			if seen, ok := w.(*statusWriter); ok && seen.status != 0 {
				panic(http.ErrAbortHandler)
			}
			errs.Error(w, r, &httperr.Error{Code: httperr.Internal, Cause: fmt.Errorf("panic: %v", cause)})
		}()
		next.ServeHTTP(w, r)
	})
}

// securityHeaders are for the case that a browser is made to look at an answer:
// it must not sniff, frame, run or keep it.
func securityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Strict-Transport-Security", "max-age=31536000")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// single are the headers of which a second one would leave open which counts.
var single = []string{
	"Authorization", "Idempotency-Key", "Glovebox-File-Digest", "Repr-Digest", "Content-Digest", "Digest",
	"Glovebox-Fencing-Token", "Glovebox-Request-Id", "Glovebox-Attempt-Provenance", "Content-Type", "Content-Encoding", "Range", "If-Range",
}

// strictHeaders refuses doubled headers, and bodies in an encoding that nobody
// would undo.
func strictHeaders(errs httperr.Responder, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range single {
			if len(r.Header.Values(name)) > 1 {
				errs.Error(w, r, httperr.Refuse(httperr.Invalid, "the header %s may be given once", name))
				return
			}
		}
		if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
			errs.Error(w, r, httperr.Refuse(httperr.UnsupportedMedia, "the body may not be encoded; send it as it is"))
			return
		}
		next.ServeHTTP(w, r)
	})
}
