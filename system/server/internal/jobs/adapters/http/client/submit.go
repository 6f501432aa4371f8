package client

import (
	"net/http"

	"glovebox/system/server/internal/auth"
	"glovebox/system/server/internal/httpapi/wire"
	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/platform/httperr"
)

// maxKeyBytes bounds an Idempotency-Key.
const maxKeyBytes = 255

// Submit answers POST /api/v1/jobs.
func (h Handlers) Submit(w http.ResponseWriter, r *http.Request) {
	receipt, err := h.submit(r)
	if err != nil {
		h.Errors.Error(w, r, err)
		return
	}
	w.Header().Set("Location", "/api/v1/jobs/"+receipt.View.ID)
	status := http.StatusCreated
	if receipt.Replayed {
		w.Header().Set("Idempotency-Replayed", "true")
		status = http.StatusOK
	}
	wire.WriteJSON(w, r, status, viewOf(receipt.View))
}

func (h Handlers) submit(r *http.Request) (jobs.Receipt, error) {
	s := jobs.Submission{UserID: auth.PrincipalFrom(r.Context()).UserID, CorrelationID: wire.CorrelationID(r.Context())}
	var err error
	if s.IdempotencyKey, err = idempotencyKey(r); err != nil {
		return jobs.Receipt{}, err
	}
	if s.Declared, err = declaredDigest(r); err != nil {
		return jobs.Receipt{}, err
	}
	// A length that cannot be right is refused before a byte is read; one that
	// lies is found out by counting (UPL-01).
	if r.ContentLength > h.MaxInput+2*framingBytes {
		return jobs.Receipt{}, &httperr.Error{Code: httperr.TooLarge, Message: "the file is larger than the server takes", Close: true}
	}
	form, err := openFileForm(r)
	if err != nil {
		return jobs.Receipt{}, err
	}
	defer form.Close()
	s.FileName = form.Label()
	return h.Service.Submit(r.Context(), s, form)
}

// idempotencyKey returns the key, "" without one. It is 1 to 255 visible ASCII
// characters.
func idempotencyKey(r *http.Request) (string, error) {
	values := r.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	for i := range len(key) {
		if key[i] < 0x21 || key[i] > 0x7e {
			return "", httperr.Refuse(httperr.Invalid, "the Idempotency-Key may hold visible ASCII only")
		}
	}
	if key == "" || len(key) > maxKeyBytes {
		return "", httperr.Refuse(httperr.Invalid, "the Idempotency-Key has 1 to %d characters", maxKeyBytes)
	}
	return key, nil
}

func declaredDigest(r *http.Request) (*[32]byte, error) {
	values := r.Header.Values("Glovebox-File-Digest")
	if len(values) == 0 {
		return nil, nil
	}
	sum, err := wire.ParseDigest(values[0])
	if err != nil {
		return nil, httperr.Refuse(httperr.Invalid, "Glovebox-File-Digest: %v", err)
	}
	return &sum, nil
}
