package httpapi_test

import (
	"net/http/httptest"
	"testing"

	"glovebox/system/server/internal/httpapi"
	"glovebox/threat-model/evidence"
)

func TestClientAddress(t *testing.T) {
	evidence.Proves(t, "AUT-05")
	proxies, err := httpapi.ParseProxies([]string{"10.0.0.0/8", "192.0.2.10", "2001:db8::/32"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		peer      string
		forwarded []string
		want      string
	}{
		{"198.51.100.1:5", nil, "198.51.100.1"},
		{"198.51.100.1:5", []string{"203.0.113.1"}, "198.51.100.1"}, // a stranger's header counts for nothing
		{"10.1.1.1:5", nil, "10.1.1.1"},
		{"10.1.1.1:5", []string{"203.0.113.1"}, "203.0.113.1"},
		{"[::ffff:10.1.1.1]:5", []string{"203.0.113.1"}, "203.0.113.1"},
		{"10.1.1.1:5", []string{"1.1.1.1, 203.0.113.1"}, "203.0.113.1"}, // what the client wrote stands left
		{"10.1.1.1:5", []string{"1.1.1.1", "203.0.113.1"}, "203.0.113.1"},
		{"10.1.1.1:5", []string{"203.0.113.1, 192.0.2.10, 10.2.2.2"}, "203.0.113.1"},
		{"10.1.1.1:5", []string{"203.0.113.1, nonsense, 10.2.2.2"}, "10.2.2.2"},
		{"10.1.1.1:5", []string{"nonsense"}, "10.1.1.1"},
		{"10.1.1.1:5", []string{""}, "10.1.1.1"},
		{"[2001:db8::5]:5", []string{"2a00::1"}, "2a00::1"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.peer
		for _, v := range c.forwarded {
			r.Header.Add("X-Forwarded-For", v)
		}
		if got := proxies.ClientAddress(r).String(); got != c.want {
			t.Errorf("%s %v: %s, want %s", c.peer, c.forwarded, got, c.want)
		}
	}
	for _, bad := range []string{"", "10.0.0.0/33", "example.com", "10.0.0"} {
		if _, err := httpapi.ParseProxies([]string{bad}); err == nil {
			t.Errorf("%q is a proxy", bad)
		}
	}
}
