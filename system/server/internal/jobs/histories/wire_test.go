package histories

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
)

// wire dials the database and cuts what it dialled: of 10,000 statements sent,
// chance are lost in one of three ways.
type wire struct {
	chance atomic.Int64
	cuts   atomic.Int64
	mu     sync.Mutex
	random *rand.Rand
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

func (w *wire) fate() fate {
	chance := w.chance.Load()
	if chance == 0 {
		return delivered
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.random.Int64N(10_000) >= chance {
		return delivered
	}
	w.cuts.Add(1)
	return unsent + fate(w.random.IntN(3))
}

type cutConn struct {
	net.Conn
	wire *wire
	lose atomic.Bool // the next answer
}

func (c *cutConn) Write(p []byte) (int, error) {
	switch c.wire.fate() {
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
