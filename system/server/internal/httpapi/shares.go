package httpapi

import (
	"net/netip"
	"sync"
)

// shares counts what each peer holds of something bounded, so that one cannot
// keep everybody out. A peer is an IPv4 address, or the /64 of an IPv6 one, of
// which a single host has every address. It is safe for concurrent use.
type shares struct {
	most int

	mu   sync.Mutex
	held map[netip.Prefix]int
}

func newShares(most int) *shares { return &shares{most: most, held: map[netip.Prefix]int{}} }

// take counts one more for addr, and refuses beyond the peer's share unless exempt.
func (s *shares) take(addr netip.Addr, exempt bool) bool {
	peer := peerOf(addr)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[peer] >= s.most && !exempt {
		return false
	}
	s.held[peer]++
	return true
}

// give takes back what take counted.
func (s *shares) give(addr netip.Addr) {
	peer := peerOf(addr)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[peer]--; s.held[peer] <= 0 {
		delete(s.held, peer)
	}
}

// peerOf is what one host can hardly change of its address.
func peerOf(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap()
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	prefix, err := addr.WithZone("").Prefix(bits)
	if err != nil { // no address at all: all of these are one peer
		return netip.Prefix{}
	}
	return prefix
}
