// Package client is the public API's side of jobs: it translates between HTTP and
// jobs.Service and decides nothing. Every handler stands behind the bearer check
// and asks the service by id and user together (AUT-06).
package client

import (
	"context"
	"io"
	"net/http"

	"github.com/go-chi/chi/v5"

	"glovebox/system/server/internal/httpapi/wire"
	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/platform/httperr"
)

// Service is what these handlers consume; *jobs.Service is the one there is.
type Service interface {
	Submit(ctx context.Context, s jobs.Submission, body io.Reader) (jobs.Receipt, error)
	Status(ctx context.Context, userID, jobID string) (jobs.View, error)
	OpenResult(ctx context.Context, userID, jobID string) (*jobs.ResultFile, error)
}

// Handlers are the routes of jobs in the public API.
type Handlers struct {
	Service  Service
	Errors   httperr.Responder
	MaxInput int64 // bytes of one file
}

// jobID returns the id of the path, or the answer for what is not there: an id in
// another form than the canonical one belongs to nothing, for its owner too.
func jobID(r *http.Request) (string, error) {
	id := chi.URLParam(r, "id")
	if !wire.ValidUUID(id) {
		return "", wire.NotFound()
	}
	return id, nil
}

// view is a job as its owner sees it (API-05): no path, no worker, no attempt.
type view struct {
	ID          string `json:"id"`
	AssetID     string `json:"asset_id"`
	Status      string `json:"status"`
	CreatedAt   string `json:"created_at"`
	UpdatedAt   string `json:"updated_at"`
	ExpiresAt   string `json:"expires_at,omitempty"`
	ErrorCode   string `json:"error_code,omitempty"`
	ErrorDetail string `json:"error_detail,omitempty"`
	SHA256      string `json:"sha256,omitempty"`
	Size        *int64 `json:"size,omitempty"`
}
