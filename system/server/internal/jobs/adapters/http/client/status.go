package client

import (
	"encoding/hex"
	"net/http"

	"glovebox/system/server/internal/auth"
	"glovebox/system/server/internal/httpapi/wire"
	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
)

// Status answers GET /api/v1/jobs/{id}.
func (h Handlers) Status(w http.ResponseWriter, r *http.Request) {
	id, err := jobID(r)
	if err != nil {
		h.Errors.Error(w, r, err)
		return
	}
	job, err := h.Service.Status(r.Context(), auth.PrincipalFrom(r.Context()).UserID, id)
	if err != nil {
		h.Errors.Error(w, r, oneNotFound(err))
		return
	}
	wire.WriteJSON(w, r, http.StatusOK, viewOf(job))
}

// oneNotFound makes every "not found" the same bytes, wherever it came from.
func oneNotFound(err error) error {
	if domain.CodeOf(err) == domain.CodeNotFound {
		return wire.NotFound()
	}
	return err
}

func viewOf(j jobs.View) view {
	v := view{
		ID: j.ID, AssetID: j.AssetID, Status: string(j.Status),
		CreatedAt: wire.Time(j.CreatedAt), UpdatedAt: wire.Time(j.UpdatedAt),
		ErrorCode: string(j.ErrorCode), ErrorDetail: j.ErrorDetail,
	}
	if !j.ExpiresAt.IsZero() {
		v.ExpiresAt = wire.Time(j.ExpiresAt)
	}
	if j.Status == domain.Completed {
		v.SHA256, v.Size = hex.EncodeToString(j.SHA256[:]), &j.Size
	}
	return v
}
