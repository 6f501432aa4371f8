package httpapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"glovebox/threat-model/evidence"
)

func TestRequestsAreLimitedInAllAndOfOnePeer(t *testing.T) {
	evidence.Proves(t, "API-06", "REL-01")
	proxy := netip.MustParseAddr("192.0.2.9")
	var refused []string
	began, release := make(chan struct{}), make(chan struct{})
	handler := limitRequests(ServerOptions{
		MaxRequests: 3, MaxRequestsPeer: 2, Client: peerAddress,
		Trusted: func(a netip.Addr) bool { return a == proxy },
		Observe: func(route, method string, status int, _ time.Duration) {
			refused = append(refused, fmt.Sprint(route, " ", method, " ", status))
		},
	}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		<-release
		if r.URL.Path == "/panic" {
			panic(http.ErrAbortHandler)
		}
	}))
	ended := make(chan int)
	start := func(from, path string) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.RemoteAddr = from
		go func() {
			w := httptest.NewRecorder()
			defer func() { _ = recover(); ended <- w.Code }()
			handler.ServeHTTP(w, r)
		}()
	}
	refuse := func(from string) {
		t.Helper()
		r := httptest.NewRequest("FROBNICATE", "/", nil)
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"code":"overloaded"`) {
			t.Errorf("from %s: %d %v %s", from, w.Code, w.Header(), w.Body)
		}
	}
	for _, from := range []string{"[2001:db8::1]:1", "[2001:db8::2]:1"} {
		start(from, "/panic")
		<-began
	}
	refuse("[2001:db8::3]:1") // the same /64 has its share
	start("192.0.2.1:1", "/")
	<-began
	refuse("192.0.2.2:1") // nobody has room
	for range 3 {
		release <- struct{}{}
		<-ended
	}
	if want := []string{"refused other 503", "refused other 503"}; !slices.Equal(refused, want) {
		t.Errorf("observed %q, want %q", refused, want)
	}
	// What ended, by a panic too, left room, and a proxy has no share of its own.
	for range 3 {
		start("192.0.2.9:1", "/")
		<-began
	}
	refuse("192.0.2.9:1")
	for range 3 {
		release <- struct{}{}
		<-ended
	}
}
