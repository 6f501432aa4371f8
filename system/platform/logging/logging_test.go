package logging_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"glovebox/system/platform/logging"
	"glovebox/threat-model/evidence"
)

func TestLines(t *testing.T) {
	evidence.Proves(t, "REL-02")
	var out bytes.Buffer
	log := logging.New(&out, "server", slog.LevelDebug)
	ctx := logging.With(context.Background(), slog.String("correlation_id", "c-1"))
	ctx = logging.With(ctx, slog.String("job_id", "j-1"))

	log.DebugContext(ctx, "a\nforged line", "password", "canary-1", "Authorization", "Bearer canary-2", "token", "canary-3",
		"upload_token", "canary-4", "fencing_token", 7, "error", errors.New(strings.Repeat("x", 5000)), "name", strings.Repeat("n", 5000))

	text := out.String()
	if strings.Contains(text, "canary") {
		t.Errorf("a credential was logged: %s", text)
	}
	if strings.Count(text, "\n") != 1 {
		t.Errorf("one event made %d lines", strings.Count(text, "\n"))
	}
	if len(text) > 6000 {
		t.Errorf("the line has %d bytes: text from outside is not bounded", len(text))
	}
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"component": "server", "correlation_id": "c-1", "job_id": "j-1", "fencing_token": 7.0, "msg": "a\nforged line"} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
}

func TestParseLevel(t *testing.T) {
	if l, err := logging.ParseLevel("warn"); err != nil || l != slog.LevelWarn {
		t.Errorf("warn: %v, %v", l, err)
	}
	if _, err := logging.ParseLevel("loud"); err == nil || !strings.Contains(err.Error(), "debug, info, warn, error") {
		t.Errorf("loud: %v", err)
	}
}
