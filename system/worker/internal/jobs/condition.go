package jobs

import (
	"context"
	"log/slog"
	"sync"
)

// condition is something that is well or not, seen by many slots. It logs when
// it changes, and only then.
type condition struct {
	log  *slog.Logger
	name string // "server", "sandbox"

	mu    sync.Mutex
	known bool
	fault string // empty when well
}

// bad notes a fault. kind decides whether it is a new one; err is what is logged.
func (c *condition) bad(ctx context.Context, kind string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known && c.fault == kind {
		return
	}
	c.known, c.fault = true, kind
	c.log.WarnContext(ctx, c.name+" is not available, trying again without end", "kind", kind, "error", err)
}

// good notes that all is well.
func (c *condition) good(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known && c.fault == "" {
		return
	}
	c.known, c.fault = true, ""
	c.log.InfoContext(ctx, c.name+" is available")
}
