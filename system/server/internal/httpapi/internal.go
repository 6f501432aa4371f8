package httpapi

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"glovebox/system/platform/logging"
	"glovebox/system/platform/pki"
	"glovebox/system/platform/tlsconf"
	"glovebox/system/protocol"
	"glovebox/system/server/internal/httpapi/wire"
	"glovebox/system/server/internal/jobs/adapters/http/worker"
	"glovebox/system/server/internal/platform/httperr"
)

// The two halves of the internal API; neither kind of certificate opens the
// other's (MTL-06).
const (
	workerRoutes = "/internal/v1/jobs"
	ingestRoutes = "/internal/v1/ingest"
)

// InternalParts are what the internal API is made of.
type InternalParts struct {
	Log     *slog.Logger
	Errors  httperr.Responder
	Observe Observe
	Jobs    worker.Handlers
	// CheckPeer asks whether the certificate of an open connection still counts;
	// it is tlsconf.Source.CheckPeer of the listener.
	CheckPeer func(*tls.ConnectionState) error
	// Allowed reports whether a worker is on the allow-list. It is asked with every
	// request, so that a removal acts on open connections too (MTL-02).
	Allowed func(ctx context.Context, workerID string) (bool, error)
}

// Internal returns the internal API (INTERFACES §2) and its router, for the
// contract test.
func Internal(p InternalParts) (http.Handler, chi.Routes) {
	router := newRouter(p.Errors)
	router.Post(protocol.PathClaim, p.Jobs.Claim)
	router.Get(protocol.PathInput, p.Jobs.Input)
	router.Post(protocol.PathHeartbeat, p.Jobs.Heartbeat)
	router.Put(protocol.PathResult, p.Jobs.Result)
	router.Post(protocol.PathFail, p.Jobs.Fail)
	return base(p.Log, p.Errors, nil, p.Observe)(identified(p, router)), router
}

// identified lets only peers through whose certificate counts now, and gives the
// handlers their worker's id. It stands before the routing, so that a peer learns
// nothing of routes that are not its own.
func identified(p InternalParts, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := p.CheckPeer(r.TLS); err != nil {
			// The handshake was good once; the peer must make a new connection.
			p.Errors.Error(w, r, &httperr.Error{Code: httperr.Unauthenticated, Message: "the certificate no longer counts; connect again with a renewed one", Cause: err, Close: true})
			return
		}
		id, kind, ok := tlsconf.WorkerID(*r.TLS)
		if !ok {
			p.Errors.Error(w, r, notAllowed("the certificate names neither a worker nor an ingest"))
			return
		}
		ctx := logging.With(r.Context(), slog.String("peer", string(kind)+"/"+id))
		notePeer(ctx, string(kind)+"/"+id)
		r = r.WithContext(ctx)
		if belongs(r.URL.Path, ingestRoutes) && kind != pki.Ingest || belongs(r.URL.Path, workerRoutes) && kind != pki.Worker {
			p.Errors.Error(w, r, wire.NotFound())
			return
		}
		if kind == pki.Worker {
			allowed, err := p.Allowed(ctx, id)
			if err != nil { // no answer is not a yes
				p.Errors.Error(w, r, &httperr.Error{Code: httperr.Unavailable, Cause: err})
				return
			}
			if !allowed {
				p.Errors.Error(w, r, notAllowed("the worker is not on the allow-list"))
				return
			}
			ctx = worker.WithWorkerID(ctx, id)
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func notAllowed(message string) error {
	return &httperr.Error{Code: protocol.CodeWorkerNotAllowed, Message: message, Close: true}
}

func belongs(path, routes string) bool {
	return path == routes || strings.HasPrefix(path, routes+"/")
}
