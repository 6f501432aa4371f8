package rig

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Links are the connections between the parts, each through a proxy in this
// process that can be cut, slowed, or made deaf in one direction. A link is named
// by who calls whom: "worker-0>server-1".
type Links struct {
	server *toxiproxy.ApiServer // never listens; proxies want one

	mu      sync.Mutex
	proxies map[string]*toxiproxy.Proxy
}

func newLinks() *Links {
	return &Links{server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), proxies: map[string]*toxiproxy.Proxy{}}
}

// Between puts a proxy before address and returns the proxy's own.
func (l *Links) Between(from, to, address string) (string, error) {
	proxy := toxiproxy.NewProxy(l.server, from+">"+to, "127.0.0.1:0", address)
	if err := proxy.Start(); err != nil {
		return "", fmt.Errorf("start the proxy %s: %w", proxy.Name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, twice := l.proxies[proxy.Name]; twice {
		proxy.Stop()
		return "", fmt.Errorf("the link %s stands twice", proxy.Name)
	}
	l.proxies[proxy.Name] = proxy
	return proxy.Listen, nil
}

// Names lists the links in a fixed order.
func (l *Links) Names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for name := range l.proxies {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (l *Links) proxy(name string) (*toxiproxy.Proxy, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	proxy, ok := l.proxies[name]
	if !ok {
		return nil, fmt.Errorf("there is no link %s", name)
	}
	return proxy, nil
}

// Cut ends every connection of the link and refuses new ones.
func (l *Links) Cut(name string) error {
	proxy, err := l.proxy(name)
	if err != nil {
		return err
	}
	proxy.Stop()
	return nil
}

// Direction of the bytes of a link.
type Direction string

// Up is from the caller to the called, Down the way back.
const (
	Up   Direction = "upstream"
	Down Direction = "downstream"
)

// Silence drops what goes in one direction and leaves the connections open: the
// request arrives and the answer does not, or the request never does.
func (l *Links) Silence(name string, d Direction) error {
	return l.add(name, d, "timeout", `{"timeout": 0}`)
}

// Slow delays every piece of both directions by latencyMS, more or less a half of it.
func (l *Links) Slow(name string, latencyMS int) error {
	for _, d := range []Direction{Up, Down} {
		if err := l.add(name, d, "latency", fmt.Sprintf(`{"latency": %d, "jitter": %d}`, latencyMS, latencyMS/2)); err != nil {
			return err
		}
	}
	return nil
}

// CutAfter ends each connection after so many bytes of the direction.
func (l *Links) CutAfter(name string, d Direction, bytes int) error {
	return l.add(name, d, "limit_data", fmt.Sprintf(`{"bytes": %d}`, bytes))
}

func (l *Links) add(name string, d Direction, kind, attributes string) error {
	proxy, err := l.proxy(name)
	if err != nil {
		return err
	}
	text := fmt.Sprintf(`{"type": %q, "stream": %q, "toxicity": 1, "attributes": %s}`, kind, d, attributes)
	if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(text)); err != nil {
		return fmt.Errorf("spoil the link %s: %w", name, err)
	}
	return nil
}

// Mend makes the link whole. Connections that were spoilt end, as they would when
// a network comes back and finds a peer's state gone.
func (l *Links) Mend(name string) error {
	proxy, err := l.proxy(name)
	if err != nil {
		return err
	}
	proxy.Stop()
	// What spoils a link is not taken off again: the library then waits for each
	// connection's pipe to drain, and one whose reader has gone never does.
	whole := toxiproxy.NewProxy(l.server, proxy.Name, proxy.Listen, proxy.Upstream)
	if err := whole.Start(); err != nil {
		return fmt.Errorf("start the proxy %s again: %w", name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proxies[name] = whole
	return nil
}

// Close ends all proxies.
func (l *Links) Close() {
	for _, name := range l.Names() {
		if proxy, err := l.proxy(name); err == nil {
			proxy.Stop()
		}
	}
}

// hostPort strips the scheme of a base URL.
func hostPort(base string) (string, error) {
	address := strings.TrimPrefix(base, "https://")
	_, _, err := net.SplitHostPort(address)
	return address, err
}
