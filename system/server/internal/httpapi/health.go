package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"glovebox/system/server/internal/httpapi/wire"
	"glovebox/system/server/internal/jobs/domain"
	"glovebox/system/server/internal/platform/httperr"
)

// Check is one thing that must work for the server to be ready.
type Check struct {
	Name string // for the log: callers are not told what stands behind the server
	Run  func(ctx context.Context) error
}

const (
	readyTimeout = 5 * time.Second
	// readyFor is how long an answer counts: anybody may ask, and one look costs a
	// synced write.
	readyFor = time.Second
)

// Health answers /health and /ready.
type Health struct {
	log    *slog.Logger
	errs   httperr.Responder
	checks []Check

	mu    sync.Mutex
	asked time.Time
	err   error
}

// NewHealth returns a Health over checks.
func NewHealth(log *slog.Logger, errs httperr.Responder, checks ...Check) *Health {
	return &Health{log: log, errs: errs, checks: checks}
}

// Alive answers GET /health: the process serves requests.
func (h *Health) Alive(w http.ResponseWriter, r *http.Request) {
	wire.WriteJSON(w, r, http.StatusOK, map[string]string{"status": "ok"})
}

// Ready answers GET /ready: database, storage and migrations are in order.
func (h *Health) Ready(w http.ResponseWriter, r *http.Request) {
	if err := h.look(r.Context()); err != nil {
		refusal := &httperr.Error{Code: httperr.Unavailable, Message: "the server is not ready", Cause: err}
		if told := httperr.Of(err); told.Message == domain.PausedMessage {
			refusal.Message = told.Message // whoever starts a server must not take a pause for a fault
		}
		h.errs.Error(w, r, refusal)
		return
	}
	wire.WriteJSON(w, r, http.StatusOK, map[string]string{"status": "ready"})
}

// look runs the checks, unless somebody has just done so. Callers that come
// together share one look.
func (h *Health) look(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.asked) < readyFor {
		return h.err
	}
	// Detached: a caller that leaves must not make the shared answer "not ready".
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	h.err = nil
	for _, c := range h.checks {
		if err := c.Run(ctx); err != nil {
			h.log.WarnContext(ctx, "not ready", "check", c.Name, "error", err)
			h.err = err
			break
		}
	}
	h.asked = time.Now()
	return h.err
}

// document serves a fixed text with an entity tag.
func document(text []byte) http.HandlerFunc {
	sum := sha256.Sum256(text)
	tag := `"` + hex.EncodeToString(sum[:]) + `"`
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag)
		w.Header().Set("Cache-Control", "no-cache")
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "application/yaml")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(text)
	}
}
