// Package logging makes the one logger of a process: JSON lines on a writer, with
// the component's name, the correlation id of the work at hand, and no secret.
//
// Two guards stand behind each other (REL-02): the secret type prints nothing,
// and any attribute whose key names a credential is redacted whatever its type.
// Text from outside is bounded, so that one request cannot fill a disk with one
// line; JSON encoding keeps it on one line.
package logging

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"glovebox/system/platform/secret"
)

// MaxText bounds the bytes of one string attribute.
const MaxText = 2048

var credentialWords = []string{"password", "passwd", "secret", "authorization", "cookie", "private_key", "bearer", "api_key"}

// fencing_token is a number that orders attempts, not a credential.
var harmless = map[string]bool{"fencing_token": true}

type contextKey struct{}

// New returns a logger for component at level, writing JSON lines to w.
func New(w io.Writer, component string, level slog.Leveler) *slog.Logger {
	h := slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: redact})
	return slog.New(contextHandler{h}).With("component", component)
}

// ParseLevel reads debug, info, warn or error.
func ParseLevel(text string) (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return level, fmt.Errorf("log level %q is not one of debug, info, warn, error", text)
	}
	return level, nil
}

// With returns a context whose log lines carry attrs in addition to those it
// already carries: the correlation id, the job, the attempt.
func With(ctx context.Context, attrs ...slog.Attr) context.Context {
	earlier, _ := ctx.Value(contextKey{}).([]slog.Attr)
	all := make([]slog.Attr, 0, len(earlier)+len(attrs))
	return context.WithValue(ctx, contextKey{}, append(append(all, earlier...), attrs...))
}

type contextHandler struct{ slog.Handler }

func (h contextHandler) Handle(ctx context.Context, r slog.Record) error {
	if attrs, ok := ctx.Value(contextKey{}).([]slog.Attr); ok {
		r.AddAttrs(attrs...)
	}
	if len(r.Message) > MaxText {
		r.Message = bound(r.Message)
	}
	return h.Handler.Handle(ctx, r)
}

func (h contextHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return contextHandler{h.Handler.WithAttrs(attrs)}
}

func (h contextHandler) WithGroup(name string) slog.Handler {
	return contextHandler{h.Handler.WithGroup(name)}
}

func redact(_ []string, a slog.Attr) slog.Attr {
	key := strings.ToLower(a.Key)
	if !harmless[key] {
		if key == "token" || strings.HasSuffix(key, "_token") {
			return slog.String(a.Key, secret.Redacted)
		}
		for _, word := range credentialWords {
			if strings.Contains(key, word) {
				return slog.String(a.Key, secret.Redacted)
			}
		}
	}
	switch v := a.Value.Any().(type) {
	case error:
		return slog.String(a.Key, bound(v.Error()))
	case string:
		if len(v) > MaxText {
			return slog.String(a.Key, bound(v))
		}
	}
	return a
}

func bound(s string) string {
	if len(s) <= MaxText {
		return s
	}
	return strings.ToValidUTF8(s[:MaxText], "") + fmt.Sprintf("... (%d bytes in all)", len(s))
}
