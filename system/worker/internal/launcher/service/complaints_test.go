package service

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"glovebox/threat-model/evidence"
)

func TestAPeerCannotFillTheLog(t *testing.T) {
	evidence.Proves(t, "SBX-16")
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := &complaints{log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 10_000 {
			c.warn("connection refused", "pid", 1)
		}
		if lines := strings.Count(log.String(), "\n"); lines != mostComplaints {
			t.Errorf("10000 complaints at once left %d lines, want %d", lines, mostComplaints)
		}
		log.Reset()
		time.Sleep(complaintSpan)
		c.warn("connection refused", "pid", 1)
		c.warn("connection refused", "pid", 1)
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "held_back=9940") || strings.Contains(lines[1], "held_back") {
			t.Errorf("a minute later: %q", lines)
		}
	})
}
