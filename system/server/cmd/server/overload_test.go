package main

import (
	"io"
	"net/http"
	"testing"
	"time"

	"glovebox/system/server/internal/config"
	"glovebox/threat-model/evidence"
)

// TestRequestsInWorkAreCapped: requests that a stranger leaves open, before any
// token is asked for, take a bounded part of the server.
func TestRequestsInWorkAreCapped(t *testing.T) {
	evidence.Proves(t, "API-06", "REL-01")
	s := startOne(t, func(c *config.Config) { c.HTTP.MaxConcurrentRequests = 12 }) // 3 of one client
	const open = "POST /api/v1/auth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n"
	var closers []io.Closer
	for range 3 {
		conn := s.raw(t)
		if _, err := io.WriteString(conn, open); err != nil {
			t.Fatal(err)
		}
		closers = append(closers, conn)
	}
	health := func() *answer {
		conn := s.raw(t)
		_, _ = io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
		return readAnswer(t, conn, "GET")
	}
	var refused *answer
	eventually(t, 5*time.Second, "a fourth request is refused", func() bool {
		refused = health()
		return refused.StatusCode != http.StatusOK
	})
	refused.refused(http.StatusServiceUnavailable, "overloaded")
	for _, name := range []string{"Retry-After", "X-Content-Type-Options"} {
		if refused.Header.Get(name) == "" {
			t.Errorf("the refusal has no %s", name)
		}
	}
	// HTTP/2 has the same bound, whatever its streams.
	two, _ := s.http2Caller(s.anonymous())
	two.get("/health").refused(http.StatusServiceUnavailable, "overloaded")
	_ = closers[0].Close()
	eventually(t, 5*time.Second, "there is room again", func() bool { return health().StatusCode == http.StatusOK })
}
