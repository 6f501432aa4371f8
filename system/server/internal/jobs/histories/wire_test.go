package histories

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// wire dials the database, and treats badly what it dialled: of 10,000 messages
// sent, cut are lost in one of three ways, and slow are held up, so that what one
// statement has read grows old before the next one acts on it.
type wire struct {
	cut, slow atomic.Int64
	cuts      atomic.Int64
	mu        sync.Mutex
	random    *rand.Rand
}

var errCut = errors.New("the connection was cut")

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &cutConn{Conn: conn, wire: w}, nil
}

// fate of one message to the server.
type fate int

const (
	delivered fate = iota
	unsent         // the server never sees it
	unawaited      // the server works on it after the caller was told of the failure
	unread         // the server has answered, and the caller does not see it
)

// held bounds how long a message is held up.
const held = 12 * time.Millisecond

func (w *wire) fate() (f fate, delay time.Duration) {
	cut, slow := w.cut.Load(), w.slow.Load()
	if cut+slow == 0 {
		return delivered, 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch pick := w.random.Int64N(10_000); {
	case pick < cut:
		w.cuts.Add(1)
		return unsent + fate(w.random.IntN(3)), 0
	case pick < cut+slow:
		return delivered, time.Duration(w.random.Int64N(int64(held)))
	}
	return delivered, 0
}

type cutConn struct {
	net.Conn
	wire *wire
	lose atomic.Bool // the next answer
}

func (c *cutConn) Write(p []byte) (int, error) {
	f, delay := c.wire.fate()
	if delay > 0 {
		<-time.After(delay)
	}
	switch f {
	case unsent:
		return 0, errors.Join(errCut, c.Close())
	case unawaited:
		_, err := c.Conn.Write(p)
		return 0, errors.Join(errCut, err, c.Close())
	case unread:
		c.lose.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.lose.Load() && err == nil {
		return 0, errors.Join(errCut, c.Close())
	}
	return n, err
}
