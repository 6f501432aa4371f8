package client

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// windowBytes is much larger than any delimiter, and than framingBytes.
const windowBytes = 64 << 10

var windows = sync.Pool{New: func() any { b := make([]byte, windowBytes); return &b }}

var errNotWithin = errors.New("not within the bound")

// window is a view of a stream that slides over it: what was read and not yet
// taken lies in one buffer of fixed size.
type window struct {
	src        io.Reader
	buf        *[]byte
	start, end int
}

func newWindow(src io.Reader) *window { return &window{src: src, buf: windows.Get().(*[]byte)} }

func (w *window) release() {
	if w.buf != nil {
		windows.Put(w.buf)
		w.buf = nil
	}
}

func (w *window) len() int                { return w.end - w.start }
func (w *window) bytes() []byte           { return (*w.buf)[w.start:w.end] }
func (w *window) drop(n int)              { w.start += n }
func (w *window) peek(from, n int) []byte { return w.bytes()[from : from+n] }

// take moves at most n bytes of the window to p.
func (w *window) take(p []byte, n int) int {
	n = copy(p, w.bytes()[:n])
	w.drop(n)
	return n
}

// fill reads at least one more byte.
func (w *window) fill() error {
	if w.start > 0 && w.end == len(*w.buf) || w.start == w.end {
		w.end = copy(*w.buf, w.bytes())
		w.start = 0
	}
	if w.end == len(*w.buf) {
		return errNotWithin // nobody waits for something longer than the window
	}
	const maxEmptyReads = 100
	for range maxEmptyReads {
		n, err := w.src.Read((*w.buf)[w.end:])
		w.end += n
		if n > 0 {
			return nil // an error comes again with the next read
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// before returns how many bytes of the window certainly lie before the next mark,
// and whether the mark was seen whole.
func (w *window) before(mark []byte) (n int, found bool) {
	if i := bytes.Index(w.bytes(), mark); i >= 0 {
		return i, true
	}
	// The last bytes may be the mark's first.
	b := w.bytes()
	for n = max(len(b)-len(mark)+1, 0); n < len(b); n++ {
		if bytes.HasPrefix(mark, b[n:]) {
			break
		}
	}
	return n, false
}

// until takes everything up to and with the next mark and returns it without the
// mark. It takes at most *left bytes, which it counts down.
func (w *window) until(mark []byte, left *int) (string, error) {
	for {
		i := bytes.Index(w.bytes(), mark)
		if i < 0 && w.len() > *left || i > *left {
			return "", errNotWithin
		}
		if i >= 0 {
			text := string(w.bytes()[:i])
			w.drop(i + len(mark))
			*left -= i + len(mark)
			return text, nil
		}
		if err := w.fill(); err != nil {
			return "", err
		}
	}
}
