package client

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"glovebox/system/server/internal/auth"
	"glovebox/system/server/internal/httpapi/wire"
	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/platform/httperr"
)

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, 128<<10); return &b }}

// Result answers GET and HEAD of /api/v1/jobs/{id}/result.
//
// The representation never changes once it exists, so its SHA-256 is a strong
// entity tag, and a download that broke off can be resumed by If-Range. The body
// is cut off, not shortened, when storage fails in mid-way: a client that sees
// its end has it whole.
func (h Handlers) Result(w http.ResponseWriter, r *http.Request) {
	id, err := jobID(r)
	if err != nil {
		h.Errors.Error(w, r, err)
		return
	}
	result, err := h.Service.OpenResult(r.Context(), auth.PrincipalFrom(r.Context()).UserID, id)
	if err != nil {
		h.Errors.Error(w, r, oneNotFound(err))
		return
	}
	defer result.Content.Close()

	tag := `"` + hex.EncodeToString(result.SHA256[:]) + `"`
	header := w.Header()
	header.Set("ETag", tag)
	header.Set("Cache-Control", "private, no-store")
	if values := r.Header.Values("If-Match"); len(values) > 0 && !matchesETag(strings.Join(values, ","), tag, false) {
		h.Errors.Error(w, r, httperr.Refuse(httperr.PreconditionFailed, "the result is not the one that If-Match names"))
		return
	}
	if values := r.Header.Values("If-None-Match"); len(values) > 0 && matchesETag(strings.Join(values, ","), tag, true) {
		w.WriteHeader(http.StatusNotModified)
		return
	}

	part, status := span{0, result.Size}, http.StatusOK
	switch asked, verdict := requestedRange(r, tag, result.Size); verdict {
	case rangeUnsatisfied:
		header.Set("Content-Range", fmt.Sprintf("bytes */%d", result.Size))
		h.Errors.Error(w, r, httperr.Refuse(httperr.RangeNotSatisfiable, "the result has %d bytes", result.Size))
		return
	case rangePart:
		part, status = asked, http.StatusPartialContent
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.start, part.start+part.length-1, result.Size))
	case rangeWhole:
	}
	if _, err := result.Content.Seek(part.start, io.SeekStart); err != nil {
		h.Errors.Error(w, r, fmt.Errorf("seek in a result: %w", err))
		return
	}
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Length", strconv.FormatInt(part.length, 10))
	header.Set("Accept-Ranges", "bytes")
	header.Set("Repr-Digest", wire.FormatDigest(result.SHA256))
	header.Set("Content-Disposition", attachment(displayLabel(result.FileName)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		h.send(w, r, result, part.length)
	}
}

// requestedRange honours Range on GET, and only while If-Range, where given,
// names this very representation.
func requestedRange(r *http.Request, tag string, size int64) (span, rangeVerdict) {
	header := r.Header.Get("Range")
	if header == "" || r.Method != http.MethodGet {
		return span{}, rangeWhole
	}
	if condition := r.Header.Get("If-Range"); condition != "" && condition != tag {
		return span{}, rangeWhole
	}
	return parseRange(header, size)
}

// send copies n bytes. The response has begun, so a fault of the storage can only
// be shown by breaking the connection off.
func (h Handlers) send(w http.ResponseWriter, r *http.Request, result *jobs.ResultFile, n int64) {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	for n > 0 {
		piece := (*buf)[:min(n, int64(len(*buf)))]
		if _, err := io.ReadFull(result.Content, piece); err != nil {
			h.Errors.Log.ErrorContext(r.Context(), "result cannot be read to its end", "missing", n, "error", err)
			panic(http.ErrAbortHandler)
		}
		written, err := w.Write(piece)
		if err == nil && written < len(piece) {
			err = errors.New("short write")
		}
		if err != nil {
			h.Errors.Log.DebugContext(r.Context(), "download broke off", "missing", n, "error", err)
			panic(http.ErrAbortHandler)
		}
		n -= int64(written)
	}
}

// attachment is a Content-Disposition by RFC 6266: an ASCII name that needs no
// escape, and the whole name in RFC 8187's form where that differs.
func attachment(label string) string {
	var ascii strings.Builder
	for _, r := range label {
		if r < 0x20 || r > 0x7e || strings.ContainsRune(`"\%;`, r) {
			r = '_'
		}
		ascii.WriteRune(r)
	}
	out := `attachment; filename="` + ascii.String() + `"`
	if ascii.String() != label {
		out += "; filename*=UTF-8''" + encodeExtended(label)
	}
	return out
}

// encodeExtended percent-encodes everything that is not an attr-char of RFC 8187.
func encodeExtended(label string) string {
	const hexDigits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(label) {
		c := label[i]
		if '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.IndexByte("!#$&+-.^_`|~", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}
