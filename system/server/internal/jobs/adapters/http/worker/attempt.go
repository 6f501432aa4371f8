package worker

import (
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unicode"

	"glovebox/system/protocol"
	"glovebox/system/protocol/failure"
	"glovebox/system/server/internal/httpapi/wire"
	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/platform/httperr"
)

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, 128<<10); return &b }}

// Input answers GET /internal/v1/jobs/{id}/input.
func (h Handlers) Input(w http.ResponseWriter, r *http.Request) {
	attempt, err := fence(r)
	if err != nil {
		h.Errors.Error(w, r, err)
		return
	}
	input, err := h.Service.OpenInput(r.Context(), attempt)
	if err != nil {
		h.Errors.Error(w, r, lost(err))
		return
	}
	defer input.Content.Close()
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Length", strconv.FormatInt(input.Size, 10))
	header.Set("Repr-Digest", wire.FormatDigest(input.SHA256))
	w.WriteHeader(http.StatusOK)
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	// onlyWriter hides ReadFrom: each piece goes through the paced Write.
	n, err := io.CopyBuffer(onlyWriter{w}, io.LimitReader(onlyReader{input.Content}, input.Size), *buf)
	if err == nil && n < input.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		h.Errors.Log.WarnContext(r.Context(), "input was not sent to its end", "sent", n, "size", input.Size, "error", err)
		panic(http.ErrAbortHandler)
	}
}

type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

// Heartbeat answers POST /internal/v1/jobs/{id}/heartbeat.
func (h Handlers) Heartbeat(w http.ResponseWriter, r *http.Request) {
	attempt, err := fence(r)
	if err != nil {
		h.Errors.Error(w, r, err)
		return
	}
	slots, err := readSlots(r)
	if err != nil {
		h.Errors.Error(w, r, err)
		return
	}
	lease, err := h.Service.Heartbeat(r.Context(), attempt, slots)
	if err != nil {
		h.Errors.Error(w, r, lost(err))
		return
	}
	wire.WriteJSON(w, r, http.StatusOK, protocol.HeartbeatAnswer{LeaseSeconds: int(lease / time.Second)})
}

// Result answers PUT /internal/v1/jobs/{id}/result.
func (h Handlers) Result(w http.ResponseWriter, r *http.Request) {
	view, err := h.result(r)
	if err != nil {
		h.Errors.Error(w, r, lost(err))
		return
	}
	wire.WriteJSON(w, r, http.StatusOK, protocol.ResultAnswer{
		Status: string(view.Status), SHA256: hex.EncodeToString(view.SHA256[:]), Size: view.Size,
	})
}

func (h Handlers) result(r *http.Request) (jobs.View, error) {
	attempt, err := fence(r)
	if err != nil {
		return jobs.View{}, err
	}
	said, err := provenance(r)
	if err != nil {
		return jobs.View{}, err
	}
	if kind := r.Header.Get("Content-Type"); kind != "" && kind != "application/octet-stream" {
		return jobs.View{}, httperr.Refuse(httperr.UnsupportedMedia, "a result is application/octet-stream")
	}
	digests := r.Header.Values(protocol.HeaderReprDigest)
	if len(digests) != 1 {
		return jobs.View{}, httperr.Refuse(httperr.Invalid, "%s must be given once", protocol.HeaderReprDigest)
	}
	declared, err := wire.ParseDigest(digests[0])
	if err != nil {
		return jobs.View{}, httperr.Refuse(httperr.Invalid, "%s: %v", protocol.HeaderReprDigest, err)
	}
	if r.ContentLength > h.MaxResult {
		return jobs.View{}, &httperr.Error{Code: httperr.TooLarge, Message: "the result is larger than the server takes", Close: true}
	}
	return h.Service.Finish(r.Context(), attempt, declared, said, r.Body)
}

// failBody tells absent from zero.
type failBody struct {
	Code      *failure.Code `json:"code"`
	Retryable *bool         `json:"retryable"`
	Detail    string        `json:"detail"`
}

// Fail answers POST /internal/v1/jobs/{id}/fail.
func (h Handlers) Fail(w http.ResponseWriter, r *http.Request) {
	attempt, err := fence(r)
	if err != nil {
		h.Errors.Error(w, r, err)
		return
	}
	said, err := provenance(r)
	if err != nil {
		h.Errors.Error(w, r, err)
		return
	}
	var body failBody
	if err = wire.ReadJSON(r, &body); err == nil {
		err = judgeReport(body)
	}
	if err != nil {
		h.Errors.Error(w, r, err)
		return
	}
	status, err := h.Service.Fail(r.Context(), attempt, *body.Code, *body.Retryable, body.Detail, said)
	if err != nil {
		h.Errors.Error(w, r, lost(err))
		return
	}
	wire.WriteJSON(w, r, http.StatusOK, protocol.FailureAnswer{Status: string(status)})
}

// judgeReport checks the form; code and retryable are the domain's to judge.
func judgeReport(body failBody) error {
	if body.Code == nil || body.Retryable == nil {
		return httperr.Refuse(httperr.Invalid, "code and retryable must be given")
	}
	if err := printable(body.Detail); err != nil {
		return httperr.Refuse(httperr.Invalid, "%v", err)
	}
	return nil
}

func printable(detail string) error {
	if len(detail) > protocol.MaxDetailBytes {
		return errors.New("detail is longer than the protocol allows")
	}
	for _, c := range detail {
		if !unicode.IsPrint(c) {
			return errors.New("detail holds a character that is not printable")
		}
	}
	return nil
}
