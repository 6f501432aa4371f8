package httpapi

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// unsentBytes bounds what the kernel holds of a response that was not sent yet
// (TCP_NOTSENT_LOWAT). Without it a slow reader's socket swallows megabytes and
// then shows no progress for minutes, which looks like a stall.
const unsentBytes = 128 << 10

// limitListener bounds the open connections of a listener: in all, from one peer,
// so that one cannot keep everybody out, and from one peer before their first
// request: where a peer may have every connection because its certificate says who
// it is, a stranger at the same door has not shown one yet. A connection over the
// first bound waits in the kernel's queue; one over another is closed.
type limitListener struct {
	net.Listener
	slots     chan struct{}
	peers     *shares
	unproven  *shares
	trusted   func(netip.Addr) bool // proxies, which speak for many
	done      chan struct{}
	closeOnce sync.Once
}

func newLimitListener(inner net.Listener, most, perPeer, unproven int, trusted func(netip.Addr) bool) *limitListener {
	return &limitListener{
		Listener: inner, slots: make(chan struct{}, most), peers: newShares(perPeer), unproven: newShares(unproven), trusted: trusted,
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
		trusted := l.trusted(peer)
		if !l.peers.take(peer, trusted) {
			_ = conn.Close()
			<-l.slots
			continue
		}
		if !l.unproven.take(peer, trusted) {
			_ = conn.Close()
			l.leave(peer)
			continue
		}
		boundUnsent(conn)
		return &countedConn{Conn: conn, release: func() { l.leave(peer) }, proven: sync.OnceFunc(func() { l.unproven.give(peer) })}, nil
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
	proven  func() // may be called more than once
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	err := c.Conn.Close()
	c.proven()
	c.once.Do(c.release)
	return err
}

// notice is told of the states of the HTTP server's connections: one that begins a
// request has passed the handshake.
func notice(conn net.Conn, state http.ConnState) {
	if state != http.StateActive {
		return
	}
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	if counted, ok := conn.(*countedConn); ok {
		counted.proven()
	}
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
