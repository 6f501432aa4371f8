package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies is the set of addresses whose X-Forwarded-For counts.
type Proxies []netip.Prefix

// ParseProxies reads addresses and prefixes.
func ParseProxies(entries []string) (Proxies, error) {
	var out Proxies
	for _, entry := range entries {
		if addr, err := netip.ParseAddr(entry); err == nil {
			out = append(out, netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(entry)
		if err != nil {
			return nil, fmt.Errorf("trusted proxy %q is neither an address nor a prefix", entry)
		}
		out = append(out, prefix.Masked())
	}
	return out, nil
}

// Contains reports whether addr is one of them.
func (p Proxies) Contains(addr netip.Addr) bool {
	for _, prefix := range p {
		if prefix.Contains(addr.Unmap()) {
			return true
		}
	}
	return false
}

// ClientAddress returns who asks: the peer of the connection, or, where that is a
// trusted proxy, the last address of X-Forwarded-For that is not one. What a
// client wrote into the header itself stands further left and never counts.
func (p Proxies) ClientAddress(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	client := peer.Addr().Unmap()
	if !p.Contains(client) {
		return client
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		addr, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			return client // a hop that cannot be read: trust nothing left of it
		}
		client = addr.Unmap()
		if !p.Contains(client) {
			return client
		}
	}
	return client
}

type addressKey struct{}

// AddressFrom returns the client's address that the middleware found.
func AddressFrom(ctx context.Context) netip.Addr {
	addr, _ := ctx.Value(addressKey{}).(netip.Addr)
	return addr
}
