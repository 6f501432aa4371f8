package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// sendTimeout bounds the wait for room in the peer's queue.
const sendTimeout = 10 * time.Second

// Conn sends and receives whole messages.
type Conn struct{ c *net.UnixConn }

// NewConn wraps a connected socket of type "unixpacket".
func NewConn(c *net.UnixConn) *Conn { return &Conn{c} }

// Close ends the connection.
func (c *Conn) Close() error { return c.c.Close() }

// lingerTimeout and lingerPackets bound Finish.
const (
	lingerTimeout = time.Second
	lingerPackets = 64
)

// Finish ends the connection so that the last answer arrives: closing a unix
// socket with unread packets would reset it and take back what was sent.
func (c *Conn) Finish() {
	defer c.c.Close()
	if c.c.CloseWrite() != nil || c.c.SetReadDeadline(time.Now().Add(lingerTimeout)) != nil {
		return
	}
	for range lingerPackets {
		if _, err := c.ReceivePacket(MaxRequest); errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// Raw gives the socket, for its peer's credentials.
func (c *Conn) Raw() *net.UnixConn { return c.c }

// Send writes v as one packet, with descriptors beside it.
func (c *Conn) Send(v any, files ...*os.File) error {
	packet, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	if len(packet) > MaxResponse {
		return fmt.Errorf("encode message: it has %d bytes, the bound is %d", len(packet), MaxResponse)
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	// A peer that takes no answers must not hold its session for ever.
	if err := c.c.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return fmt.Errorf("send message: %w", err)
	}
	if _, _, err := c.c.WriteMsgUnix(packet, rights, nil); err != nil {
		return fmt.Errorf("send message: %w", err)
	}
	return nil
}

// ReceivePacket returns one packet of at most bound bytes and no descriptor: what
// a peer passes unasked is closed and refused. A longer packet is returned cut to
// bound+1 bytes, so that the reader sees that it is too long.
func (c *Conn) ReceivePacket(bound int) ([]byte, error) {
	packet, files, err := c.receive(bound, maxUnasked)
	for _, f := range files {
		f.Close()
	}
	if err == nil && len(files) > 0 {
		return nil, errors.New("receive message: the peer passed descriptors")
	}
	return packet, err
}

// maxUnasked is the room for descriptors where none is wanted: the kernel closes
// those beyond it.
const maxUnasked = 4

func (c *Conn) receive(bound, maxFiles int) ([]byte, []*os.File, error) {
	packet := make([]byte, bound+1)
	control := make([]byte, unix.CmsgSpace(maxFiles*4))
	n, cn, flags, _, err := c.c.ReadMsgUnix(packet, control)
	files, rightsErr := filesOf(control[:cn])
	if err = errors.Join(err, rightsErr); err != nil {
		closeAll(files)
		if errors.Is(err, io.EOF) {
			return nil, nil, io.EOF
		}
		return nil, nil, fmt.Errorf("receive message: %w", err)
	}
	if flags&unix.MSG_CTRUNC != 0 {
		closeAll(files)
		return nil, nil, errors.New("receive message: more descriptors than are taken")
	}
	return packet[:n], files, nil
}

func filesOf(control []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			closeAll(files)
			return nil, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// ReceiveResponse returns the next response and the descriptors passed with it,
// which are exactly want.
func (c *Conn) ReceiveResponse(want int) (Response, []*os.File, error) {
	packet, files, err := c.receive(MaxResponse, 2)
	if err != nil {
		return Response{}, nil, err
	}
	var r Response
	if err := json.Unmarshal(packet, &r); err != nil {
		closeAll(files)
		return Response{}, nil, fmt.Errorf("decode message: %w", err)
	}
	if r.Error != nil {
		want = 0
	}
	if len(files) != want {
		closeAll(files)
		return Response{}, nil, fmt.Errorf("receive message: %d descriptors came with %s, wanted %d", len(files), r.Verb, want)
	}
	return r, files, nil
}
