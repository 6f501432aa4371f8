package httpapi

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"glovebox/threat-model/evidence"
)

// arrivals is a listener whose connections come from given addresses.
type arrivals struct {
	net.Listener
	from []string
}

type arrival struct {
	net.Conn
	from net.Addr
}

func (a arrival) RemoteAddr() net.Addr { return a.from }
func (a arrival) Close() error         { return nil }

func (a *arrivals) Accept() (net.Conn, error) {
	if len(a.from) == 0 {
		return nil, errors.New("no more arrivals")
	}
	next := netip.MustParseAddrPort(a.from[0])
	a.from = a.from[1:]
	return arrival{from: net.TCPAddrFromAddrPort(next)}, nil
}

// A host has every address of its IPv6 /64: counted one by one, it would have the
// listener to itself.
func TestOnePeerHasOneShareOfTheConnections(t *testing.T) {
	evidence.Proves(t, "API-06", "REL-01")
	proxy := netip.MustParseAddr("2001:db8:0:9::1")
	for name, c := range map[string]struct {
		from []string
		want int // of 2 for each peer, 16 in all
	}{
		"one IPv4 address":           {[]string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3"}, 2},
		"neighbours on IPv4":         {[]string{"192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1"}, 3},
		"one IPv4 address, mapped":   {[]string{"[::ffff:192.0.2.1]:1", "192.0.2.1:2", "[::ffff:192.0.2.1]:3"}, 2},
		"one /64":                    {[]string{"[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8::ffff:1]:1", "[2001:db8::4]:1"}, 2},
		"a link's address and zones": {[]string{"[fe80::1%1]:1", "[fe80::1%2]:1", "[fe80::2%1]:1"}, 2},
		"neighbours on IPv6":         {[]string{"[2001:db8:0:1::1]:1", "[2001:db8:0:2::1]:1", "[2001:db8:0:3::1]:1"}, 3},
		"a trusted proxy":            {[]string{"[2001:db8:0:9::1]:1", "[2001:db8:0:9::1]:2", "[2001:db8:0:9::1]:3"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLimitListener(&arrivals{from: c.from}, 16, 2, 16, func(a netip.Addr) bool { return a == proxy })
			var taken []net.Conn
			for {
				conn, err := l.Accept()
				if err != nil {
					break
				}
				taken = append(taken, conn)
			}
			if len(taken) != c.want {
				t.Errorf("%d connections were taken, want %d", len(taken), c.want)
			}
			for _, conn := range taken {
				_ = conn.Close()
			}
			if len(l.peers.held) != 0 || len(l.unproven.held) != 0 || len(l.slots) != 0 {
				t.Errorf("after the end of all, %d peers, %d unproven and %d places are counted", len(l.peers.held), len(l.unproven.held), len(l.slots))
			}
		})
	}
}

// Where workers of one host may have every connection, a stranger there has its
// share of those that have shown nothing yet.
func TestOnePeerHasOneShareOfTheUnprovenConnections(t *testing.T) {
	evidence.Proves(t, "MTL-01", "REL-01")
	from := []string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3", "192.0.2.1:4"}
	for name, c := range map[string]struct {
		state http.ConnState
		want  int
	}{"silent": {http.StateNew, 2}, "each with a request": {http.StateActive, 4}} {
		l := newLimitListener(&arrivals{from: from}, 16, 16, 2, func(netip.Addr) bool { return false })
		taken := 0
		for {
			conn, err := l.Accept()
			if err != nil {
				break
			}
			taken++
			notice(tls.Server(conn, &tls.Config{}), c.state) //nolint:gosec // no byte is sent
		}
		if taken != c.want {
			t.Errorf("%s: %d connections were taken, want %d", name, taken, c.want)
		}
	}
}
