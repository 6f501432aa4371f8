package worker

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"glovebox/system/protocol"
	"glovebox/system/server/internal/httpapi/wire"
	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/platform/httperr"
)

// Claim answers POST /internal/v1/jobs/claim.
func (h Handlers) Claim(w http.ResponseWriter, r *http.Request) {
	assignment, err := h.claim(r)
	switch {
	case err != nil:
		h.Errors.Error(w, r, err)
	case assignment == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		wire.WriteJSON(w, r, http.StatusOK, assignment)
	}
}

func (h Handlers) claim(r *http.Request) (*protocol.Assignment, error) {
	call := jobs.ClaimCall{WorkerID: workerID(r.Context())}
	values := r.Header.Values(protocol.HeaderRequestID)
	if len(values) != 1 || !wire.ValidUUID(strings.ToLower(values[0])) {
		return nil, httperr.Refuse(httperr.Invalid, "%s must be given once, as a UUID", protocol.HeaderRequestID)
	}
	call.RequestID = strings.ToLower(values[0])
	var err error
	if call.Wait, err = waitOf(r.URL.RawQuery); err != nil {
		return nil, err
	}
	slots, err := readSlots(r)
	if err != nil {
		return nil, err
	}
	call.SlotsFree, call.SlotsTotal = slots.SlotsFree, slots.SlotsTotal

	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stopped := make(chan struct{})
	defer func() { cancel(); <-stopped }()
	go func() {
		defer close(stopped)
		select {
		case <-h.Stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	return h.Service.Claim(ctx, call)
}

// waitOf reads the query: `wait`, a duration from 0s, is the only parameter; a
// longer one than the cap counts as the cap.
func waitOf(query string) (time.Duration, error) {
	bad := httperr.Refuse(httperr.Invalid, "wait must be given at most once, as a duration from 0s to 30s")
	values, err := url.ParseQuery(query)
	if err != nil {
		return 0, bad
	}
	given, ok := values["wait"]
	if !ok {
		return 0, nil
	}
	if len(given) != 1 {
		return 0, bad
	}
	wait, err := time.ParseDuration(given[0])
	if err != nil || wait < 0 {
		return 0, bad
	}
	return min(wait, jobs.MaxClaimWait), nil
}

// slotsBody tells absent from zero.
type slotsBody struct {
	SlotsFree  *int `json:"slots_free"`
	SlotsTotal *int `json:"slots_total"`
}

const maxSlots = 10_000

func readSlots(r *http.Request) (protocol.Saturation, error) {
	var body slotsBody
	if err := wire.ReadJSON(r, &body); err != nil {
		return protocol.Saturation{}, err
	}
	if body.SlotsFree == nil || body.SlotsTotal == nil || *body.SlotsFree < 0 || *body.SlotsTotal > maxSlots || *body.SlotsFree > *body.SlotsTotal {
		return protocol.Saturation{}, httperr.Refuse(httperr.Invalid, "slots_free and slots_total must be given, with 0 <= free <= total <= %d", maxSlots)
	}
	return protocol.Saturation{SlotsFree: *body.SlotsFree, SlotsTotal: *body.SlotsTotal}, nil
}
