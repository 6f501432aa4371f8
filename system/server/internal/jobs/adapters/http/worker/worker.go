// Package worker is the internal API's side of jobs: what a worker asks over mTLS
// (INTERFACES §2). It translates between HTTP and jobs.Service and decides
// nothing. Who the worker is comes from its certificate alone; what it may ask is
// decided by the service from its fence.
package worker

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"glovebox/system/protocol"
	"glovebox/system/protocol/failure"
	"glovebox/system/server/internal/httpapi/wire"
	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
	"glovebox/system/server/internal/platform/httperr"
)

// Service is what these handlers consume; *jobs.Service is the one there is.
type Service interface {
	Claim(ctx context.Context, call jobs.ClaimCall) (*protocol.Assignment, error)
	OpenInput(ctx context.Context, fence domain.Fence) (*jobs.InputFile, error)
	Heartbeat(ctx context.Context, fence domain.Fence, slots protocol.Saturation) (time.Duration, error)
	Finish(ctx context.Context, fence domain.Fence, declared [32]byte, provenance domain.Provenance, body io.Reader) (jobs.View, error)
	Fail(ctx context.Context, fence domain.Fence, code failure.Code, retryable bool, detail string, provenance domain.Provenance) (domain.Status, error)
}

// Handlers are the routes of jobs in the internal API.
type Handlers struct {
	Service   Service
	Errors    httperr.Responder
	MaxResult int64 // bytes
	// Stopping is closed when the server begins to stop: waiting claims end then
	// with 204, so that a shutdown waits for no long poll (REL-05).
	Stopping <-chan struct{}
}

type workerKey struct{}

// WithWorkerID returns a context that carries the worker's id; the middleware that
// read the certificate calls it.
func WithWorkerID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, workerKey{}, id)
}

// workerID panics without an id: a route that is not behind the certificate check
// must not work at all.
func workerID(ctx context.Context) string {
	id, _ := ctx.Value(workerKey{}).(string)
	if id == "" {
		panic("worker: no worker id in the context: the route is not behind the certificate check")
	}
	return id
}

// fence reads what a worker shows with everything about an attempt: the job from
// the path, itself from the certificate, the token from its header.
func fence(r *http.Request) (domain.Fence, error) {
	token, err := fencingToken(r.Header.Values(protocol.HeaderFencingToken))
	if err != nil {
		return domain.Fence{}, err
	}
	id := chi.URLParam(r, "id")
	if !wire.ValidUUID(id) {
		// Not a job at all is the same to a worker as a job it does not hold.
		return domain.Fence{}, domain.LeaseLost()
	}
	return domain.Fence{JobID: id, WorkerID: workerID(r.Context()), FencingToken: token}, nil
}

// fencingToken holds to [1-9][0-9]* within int64, exactly one.
func fencingToken(values []string) (int64, error) {
	bad := httperr.Refuse(httperr.Invalid, "%s must be given once, as a whole number from 1", protocol.HeaderFencingToken)
	if len(values) != 1 || values[0] == "" || values[0][0] < '1' || values[0][0] > '9' {
		return 0, bad
	}
	token, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil {
		return 0, bad
	}
	return token, nil
}

// provenance reads what the worker says of its run, "" where it says nothing. Only
// its form is judged: what it means is between the worker and who reads the history.
func provenance(r *http.Request) (domain.Provenance, error) {
	values := r.Header.Values(protocol.HeaderProvenance)
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 || values[0] == "" || len(values[0]) > protocol.MaxProvenanceBytes || !printableASCII(values[0]) {
		return "", httperr.Refuse(httperr.Invalid, "%s must be given at most once, as 1 to %d printable ASCII characters", protocol.HeaderProvenance, protocol.MaxProvenanceBytes)
	}
	return domain.Provenance(values[0]), nil
}

func printableASCII(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// lost makes the answer about a job that is not there the same as about one that
// is another's: a worker learns nothing of jobs it does not hold.
func lost(err error) error {
	if domain.CodeOf(err) == domain.CodeNotFound {
		return domain.LeaseLost()
	}
	return err
}
