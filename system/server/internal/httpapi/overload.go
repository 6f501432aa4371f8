package httpapi

import (
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"glovebox/system/server/internal/platform/httperr"
)

// refusalTime bounds what a refused request may still cost: the writing of its
// answer and the reading of what it sent.
const refusalTime = time.Second

// limitRequests bounds the requests in work, in all and of one peer. Connections
// are bounded too, but one of HTTP/2 carries many requests, and each costs tens of
// kilobytes from its header on, whoever sends it: before any token is looked at, a
// stranger could hold gigabytes. One beyond the bounds is answered 503 at once.
func limitRequests(o ServerOptions, next http.Handler) http.Handler {
	room := make(chan struct{}, o.MaxRequests)
	peers := newShares(o.MaxRequestsPeer)
	// Peers cause these at will: they are counted, and leave no line in the log.
	errs := httperr.Responder{Log: slog.New(slog.DiscardHandler)}
	busy := securityHeaders(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		end := time.Now().Add(refusalTime)
		_, _ = control.SetReadDeadline(end), control.SetWriteDeadline(end)
		// An HTTP/2 connection goes on: its other requests are in work.
		errs.Error(w, r, &httperr.Error{Code: httperr.Overloaded, Message: "too many requests at once; try again", RetryAfter: time.Second, Close: r.ProtoMajor < 2})
		if o.Observe != nil {
			o.Observe("refused", methodName(r), http.StatusServiceUnavailable, 0)
		}
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer := o.Client(r)
		if !peers.take(peer, o.Trusted(peer)) {
			busy.ServeHTTP(w, r)
			return
		}
		defer peers.give(peer)
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
			next.ServeHTTP(w, r)
		default:
			busy.ServeHTTP(w, r)
		}
	})
}

// peerAddress is the address of the connection.
func peerAddress(r *http.Request) netip.Addr { return Proxies(nil).ClientAddress(r) }
