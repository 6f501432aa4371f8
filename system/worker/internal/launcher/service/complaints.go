package service

import (
	"log/slog"
	"sync"
	"time"
)

// Lines about peers in one span of time.
const (
	complaintSpan  = time.Minute
	mostComplaints = 60
)

// complaints writes the lines that a peer can cause at will: so many in a minute,
// and then the number of those that were held back. A worker that was taken over
// can connect thousands of times a second and must not fill the host's disk
// (SBX-16).
type complaints struct {
	log *slog.Logger

	mu    sync.Mutex
	began time.Time
	lines int
	held  int
}

func (c *complaints) warn(message string, args ...any) {
	c.mu.Lock()
	if now := time.Now(); now.Sub(c.began) >= complaintSpan {
		c.began, c.lines = now, 0
	}
	c.lines++
	if c.lines > mostComplaints {
		c.held++
		c.mu.Unlock()
		return
	}
	held := c.held
	c.held = 0
	c.mu.Unlock()
	if held > 0 {
		args = append(args, "held_back", held)
	}
	c.log.Warn(message, args...)
}
