package harness

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// H2 is an HTTP/2 connection on which a case sends the frames and header fields it
// chooses, also those that no library would.
type H2 struct {
	*http2.Framer
	conn   *Conn
	buffer bytes.Buffer
	coder  *hpack.Encoder
	next   uint32
	done   map[uint32]*Stream
}

// Stream is what has come back on one stream.
type Stream struct {
	Status string
	Fields [][2]string
	Body   []byte
	Ended  bool
	Reset  *http2.ErrCode
}

// GoneAway tells that the server ended the connection, with its reason.
type GoneAway struct{ Code http2.ErrCode }

func (g GoneAway) Error() string { return "the server sent GOAWAY " + g.Code.String() }

// H2 opens an HTTP/2 connection to the address.
func (e *Env) H2(address string) *H2 {
	config := e.TLS()
	config.NextProtos = []string{"h2"}
	c := e.MustDial(address, config)
	if got := c.ConnectionState().NegotiatedProtocol; got != "h2" {
		e.Fail("the server speaks %q, not h2", got)
	}
	h := &H2{Framer: http2.NewFramer(c, c), conn: c, next: 1, done: map[uint32]*Stream{}}
	h.coder = hpack.NewEncoder(&h.buffer)
	h.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, err := io.WriteString(c, http2.ClientPreface)
	if err == nil {
		err = h.WriteSettings()
	}
	e.Must(err, "begin HTTP/2")
	return h
}

// Fields are the pseudo-headers of an ordinary request, for a case to change.
func Fields(method, authority, path string, more ...[2]string) [][2]string {
	return append([][2]string{{":method", method}, {":scheme", "https"}, {":authority", authority}, {":path", path}}, more...)
}

// Open sends a request's header fields as they stand and returns its stream.
func (h *H2) Open(fields [][2]string, end bool) (uint32, error) {
	h.buffer.Reset()
	for _, f := range fields {
		if err := h.coder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			return 0, err
		}
	}
	id := h.next
	h.next += 2
	h.done[id] = &Stream{}
	h.conn.tape.record(fmt.Sprintf("> h2 stream %d %v", id, fields))
	block := h.buffer.Bytes()
	const piece = 16 << 10
	first := true
	for {
		n := min(piece, len(block))
		last := n == len(block)
		var err error
		if first {
			err = h.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:n], EndStream: end, EndHeaders: last})
		} else {
			err = h.WriteContinuation(id, last, block[:n])
		}
		if err != nil || last {
			return id, err
		}
		block, first = block[n:], false
	}
}

// Await reads frames until the stream has ended, and returns it. Frames of other
// streams are kept for them.
func (h *H2) Await(id uint32, limit time.Duration) (*Stream, error) {
	if err := h.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	for s := h.done[id]; ; {
		if s.Ended || s.Reset != nil {
			h.conn.tape.record(fmt.Sprintf("< h2 stream %d %s %s", id, s.Status, clip(string(s.Body), tapeEntry)))
			return s, nil
		}
		f, err := h.ReadFrame()
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = errNoAnswer
			}
			return s, err
		}
		if err := h.take(f); err != nil {
			return s, err
		}
	}
}

func (h *H2) take(f http2.Frame) error {
	s := h.done[f.Header().StreamID]
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return h.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return h.WritePing(true, f.Data)
		}
	case *http2.GoAwayFrame:
		h.conn.tape.record("< h2 GOAWAY " + f.ErrCode.String())
		if f.ErrCode != http2.ErrCodeNo {
			return GoneAway{f.ErrCode}
		}
	case *http2.MetaHeadersFrame:
		if s == nil {
			return nil
		}
		for _, field := range f.Fields {
			if field.Name == ":status" {
				s.Status = field.Value
			} else {
				s.Fields = append(s.Fields, [2]string{field.Name, field.Value})
			}
		}
		s.Ended = s.Ended || f.StreamEnded() && !strings.HasPrefix(s.Status, "1")
	case *http2.DataFrame:
		if s != nil {
			s.Body = append(s.Body, f.Data()...)
			s.Ended = f.StreamEnded()
		}
		if n := uint32(len(f.Data())); n > 0 && !f.StreamEnded() { //nolint:gosec // a frame is small
			return errors.Join(h.WriteWindowUpdate(0, n), h.WriteWindowUpdate(f.StreamID, n))
		}
	case *http2.RSTStreamFrame:
		if s != nil {
			code := f.ErrCode
			s.Reset = &code
		}
	}
	return nil
}

// Field returns the first value of a header field of the answer.
func (s *Stream) Field(name string) string {
	for _, f := range s.Fields {
		if f[0] == name {
			return f[1]
		}
	}
	return ""
}
