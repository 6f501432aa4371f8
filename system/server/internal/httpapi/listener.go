package httpapi

import (
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// unsentBytes bounds what the kernel holds of a response that was not sent yet
// (TCP_NOTSENT_LOWAT). Without it a slow reader's socket swallows megabytes and
// then shows no progress for minutes, which looks like a stall.
const unsentBytes = 128 << 10

// limitListener bounds the open connections of a listener: in all, and from one
// peer, so that one cannot keep everybody out. A connection over the first bound
// waits in the kernel's queue; one over the second is closed.
type limitListener struct {
	net.Listener
	slots     chan struct{}
	peers     *shares
	trusted   func(netip.Addr) bool // proxies, which speak for many
	done      chan struct{}
	closeOnce sync.Once
}

func newLimitListener(inner net.Listener, most, perPeer int, trusted func(netip.Addr) bool) *limitListener {
	return &limitListener{
		Listener: inner, slots: make(chan struct{}, most), peers: newShares(perPeer), trusted: trusted,
		done: make(chan struct{}),
	}
}

// Accept implements net.Listener.
func (l *limitListener) Accept() (net.Conn, error) {
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.done:
			return nil, net.ErrClosed
		}
		conn, err := l.Listener.Accept()
		if err != nil {
			<-l.slots
			return nil, err
		}
		peer := addressOf(conn.RemoteAddr())
		if !l.peers.take(peer, l.trusted(peer)) {
			_ = conn.Close()
			<-l.slots
			continue
		}
		boundUnsent(conn)
		return &countedConn{Conn: conn, release: func() { l.leave(peer) }}, nil
	}
}

// Close implements net.Listener.
func (l *limitListener) Close() error {
	l.closeOnce.Do(func() { close(l.done) })
	return l.Listener.Close()
}

func (l *limitListener) leave(peer netip.Addr) {
	l.peers.give(peer)
	<-l.slots
}

// countedConn gives its place back when it is closed, once.
type countedConn struct {
	net.Conn
	once    sync.Once
	release func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.release)
	return err
}

func addressOf(addr net.Addr) netip.Addr {
	parsed, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return netip.Addr{}
	}
	return parsed.Addr().Unmap()
}

func boundUnsent(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	// An older kernel may not know the option: the limit on slow readers is then
	// coarser, not absent.
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBytes)
	})
}
