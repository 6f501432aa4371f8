package client

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"

	"glovebox/system/server/internal/platform/httperr"
)

const (
	// framingBytes bounds what stands before the file's first byte (preamble and
	// part header) and what stands behind its last (delimiter and epilogue).
	framingBytes = 16 << 10
	// maxPartHeaders bounds the header lines of the part.
	maxPartHeaders = 8
	maxBoundary    = 70 // RFC 2046
)

// fileForm reads a multipart/form-data body of exactly one part, named file. It
// reads the stream as it comes and keeps nothing.
//
// Read gives the file's bytes. It returns io.EOF only when everything behind them
// has been seen too: the closing delimiter, a bounded epilogue, the end of the
// body. A second part, a missing delimiter, a body that breaks off are errors
// instead, so that no job is ever made from a form that was not whole (API-04).
type fileForm struct {
	body  *bounded
	form  *multipart.Reader
	part  *multipart.Part
	label string
	end   error // what Read returns from now on
}

// openFileForm reads up to the file's first byte.
func openFileForm(r *http.Request) (*fileForm, error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "multipart/form-data" {
		return nil, httperr.Refuse(httperr.UnsupportedMedia, "the body must be multipart/form-data with one part named file")
	}
	boundary := params["boundary"]
	if err != nil || !validBoundary(boundary) {
		return nil, malformed("the boundary in Content-Type is missing or malformed")
	}
	f := &fileForm{body: &bounded{body: r.Body}}
	f.form = multipart.NewReader(f.body, boundary)
	f.body.allow(framingBytes)
	if f.part, err = f.form.NextRawPart(); err != nil {
		return nil, f.fault(err, "the form has no part")
	}
	if f.label, err = judgePart(f.part); err != nil {
		return nil, err
	}
	f.body.allow(-1) // the content is bounded by who stores it
	return f, nil
}

// Label is the file's name for display; it is never a path (UPL-05).
func (f *fileForm) Label() string { return f.label }

// Read implements io.Reader.
func (f *fileForm) Read(p []byte) (int, error) {
	if f.end != nil {
		return 0, f.end
	}
	n, err := f.part.Read(p)
	if err == io.EOF {
		f.end = f.finish()
		if n > 0 && f.end == io.EOF {
			return n, nil // the end comes with the next read
		}
		return n, f.end
	}
	if err != nil {
		f.end = f.fault(err, "the form ends before its closing delimiter")
		return n, f.end
	}
	return n, nil
}

// finish reads what stands behind the file's last byte.
func (f *fileForm) finish() error {
	f.body.allow(framingBytes)
	switch _, err := f.form.NextRawPart(); {
	case err == nil:
		return malformed("the form has more than one part")
	case err != io.EOF:
		return f.fault(err, "the form ends before its closing delimiter")
	}
	// The epilogue says nothing; it is read so that a body which breaks off or is
	// longer than it should be is noticed.
	if _, err := io.Copy(io.Discard, f.body); err != nil {
		return f.fault(err, "the form goes on behind its closing delimiter")
	}
	return io.EOF
}

// fault prefers the body's own error, which knows whether it was slow or broke
// off, to what the form's parser made of it.
func (f *fileForm) fault(err error, message string) error {
	if f.body.err != nil {
		return f.body.err
	}
	return &httperr.Error{Code: httperr.Invalid, Message: message, Cause: err, Close: true}
}

func malformed(message string) error {
	return &httperr.Error{Code: httperr.Invalid, Message: message, Close: true}
}

// validBoundary holds to RFC 2046's characters.
func validBoundary(b string) bool {
	if b == "" || len(b) > maxBoundary || b[len(b)-1] == ' ' {
		return false
	}
	for i := range len(b) {
		c := b[i]
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.IndexByte("'()+_,-./:=? ", c) >= 0) {
			return false
		}
	}
	return true
}

// judgePart requires the part named file and returns its display label. The
// part's own Content-Type is not looked at (UPL-07).
func judgePart(part *multipart.Part) (label string, err error) {
	lines := 0
	for _, values := range part.Header {
		lines += len(values)
	}
	if lines > maxPartHeaders {
		return "", malformed("the part has too many header lines")
	}
	dispositions := part.Header.Values("Content-Disposition")
	if len(dispositions) != 1 {
		return "", malformed("the part needs one Content-Disposition")
	}
	if transfer := part.Header.Get("Content-Transfer-Encoding"); transfer != "" {
		switch strings.ToLower(transfer) {
		case "binary", "8bit", "7bit":
		default:
			return "", malformed("the part may not be transfer-encoded")
		}
	}
	name, fileName, err := parseDisposition(dispositions[0])
	if err != nil {
		return "", malformed(err.Error())
	}
	if name != "file" {
		return "", malformed("the form may have one part, named file")
	}
	return displayLabel(fileName), nil
}

var errFraming = errors.New("too many bytes around the file")

// bounded counts what is taken from the body while framing is read.
type bounded struct {
	body io.Reader
	left int64 // bytes that may still be taken; negative: any number
	err  error // the body's own error, other than its end
}

func (b *bounded) allow(n int64) { b.left = n }

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errFraming
	}
	if b.left > 0 {
		p = p[:min(int64(len(p)), b.left)]
	}
	n, err := b.body.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
	}
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}
