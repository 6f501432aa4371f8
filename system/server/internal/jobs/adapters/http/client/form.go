package client

import (
	"io"
	"mime"
	"net/http"
	"strings"

	"glovebox/system/server/internal/platform/httperr"
)

const (
	// framingBytes bounds what stands before the file's first byte (preamble and
	// part header), and what stands behind its closing delimiter.
	framingBytes = 16 << 10
	// maxPartHeaders bounds the header lines of the part.
	maxPartHeaders = 8
	maxBoundary    = 70 // RFC 2046
)

// fileForm reads a multipart/form-data body of exactly one part, named file, as
// it streams by. It is written by hand because the standard library's reader
// refuses a hostile file name together with the request, bounds a part's header
// by megabytes, and leaves what follows the last part to the caller.
//
// Read gives the file's bytes. It returns io.EOF only when everything behind them
// has been seen too: the closing delimiter, a bounded epilogue, the end of the
// body. A second part, a missing delimiter, a body that breaks off are errors
// instead, so that no job is ever made from a form that was not whole (API-04).
type fileForm struct {
	window    *window
	delimiter []byte // CRLF "--" boundary
	label     string
	end       error // what Read returns from now on
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
	f := &fileForm{window: newWindow(r.Body), delimiter: []byte("\r\n--" + boundary)}
	if f.label, err = f.open(); err != nil {
		f.window.release()
		return nil, err
	}
	return f, nil
}

// Label is the file's name for display; it is never a path (UPL-05).
func (f *fileForm) Label() string { return f.label }

// Close gives the buffer back; Read must not be called any more.
func (f *fileForm) Close() { f.window.release() }

// open reads preamble, first delimiter and part header.
func (f *fileForm) open() (label string, err error) {
	left := framingBytes
	preamble, err := f.window.until(f.delimiter[2:], &left)
	if err != nil {
		return "", f.fault(err, "the form has no part, or too much stands before it")
	}
	if len(preamble) > 0 && !strings.HasSuffix(preamble, "\r\n") {
		return "", malformed("the form's first delimiter does not begin a line")
	}
	line, err := f.window.until([]byte("\r\n"), &left)
	if err != nil || strings.Trim(line, " \t") != "" {
		return "", f.fault(err, "the form has no part")
	}
	var headers []string
	for {
		line, err := f.window.until([]byte("\r\n"), &left)
		if err != nil {
			return "", f.fault(err, "the part's header is too long or does not end")
		}
		if line == "" {
			return judgePart(headers)
		}
		if headers = append(headers, line); len(headers) > maxPartHeaders {
			return "", malformed("the part has too many header lines")
		}
	}
}

// Read implements io.Reader.
func (f *fileForm) Read(p []byte) (int, error) {
	if f.end != nil || len(p) == 0 {
		return 0, f.end
	}
	for {
		n, found := f.window.before(f.delimiter)
		if n > 0 {
			return f.window.take(p, n), nil
		}
		// The window begins with the delimiter or with what may become it; two more
		// bytes tell which delimiter it is.
		if !found || f.window.len() < len(f.delimiter)+2 {
			if err := f.window.fill(); err != nil {
				f.end = f.fault(err, "the form ends before its closing delimiter")
				return 0, f.end
			}
			continue
		}
		switch next := f.window.peek(len(f.delimiter), 2); {
		case string(next) == "--":
			f.window.drop(len(f.delimiter) + 2)
			f.end = f.epilogue()
			return 0, f.end
		case next[0] == '\r', next[0] == ' ', next[0] == '\t':
			f.end = malformed("the form has more than one part")
			return 0, f.end
		default: // a longer word that begins like the boundary is content
			return f.window.take(p, len(f.delimiter)), nil
		}
	}
}

// epilogue reads what stands behind the closing delimiter. It says nothing; a
// body that breaks off or goes on and on is noticed here.
func (f *fileForm) epilogue() error {
	for left := framingBytes; ; {
		if left -= f.window.len(); left < 0 {
			return malformed("the form goes on behind its closing delimiter")
		}
		f.window.drop(f.window.len())
		if err := f.window.fill(); err == io.EOF {
			return io.EOF
		} else if err != nil {
			return f.fault(err, "the form breaks off behind its closing delimiter")
		}
	}
}

// fault keeps the body's own error, which knows whether it was slow or broke off;
// an end that comes too early is the form's fault.
func (f *fileForm) fault(err error, message string) error {
	if err != nil && err != io.EOF && err != errNotWithin {
		return err
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
func judgePart(headers []string) (label string, err error) {
	disposition, found := "", false
	for _, line := range headers {
		name, value, ok := strings.Cut(line, ":")
		// A bare CR or LF would end the line for another reader of the same form.
		if !ok || name == "" || strings.ContainsAny(name, " \t") || strings.ContainsAny(line, "\r\n") {
			return "", malformed("a header line of the part is malformed")
		}
		switch value = strings.Trim(value, " \t"); strings.ToLower(name) {
		case "content-disposition":
			if found {
				return "", malformed("the part has more than one Content-Disposition")
			}
			disposition, found = value, true
		case "content-transfer-encoding":
			switch strings.ToLower(value) {
			case "binary", "8bit", "7bit":
			default:
				return "", malformed("the part may not be transfer-encoded")
			}
		}
	}
	name, fileName, err := parseDisposition(disposition)
	if err != nil {
		return "", malformed(err.Error())
	}
	if name != "file" {
		return "", malformed("the form may have one part, named file")
	}
	return displayLabel(fileName), nil
}
