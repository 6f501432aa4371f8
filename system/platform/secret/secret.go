// Package secret holds values that must never be printed.
//
// A Text redacts itself in every way Go can turn a value into characters: the
// fmt verbs, slog, JSON, TOML and text encoding. The only way to the characters
// is Reveal, so that `grep Reveal` finds every use (REL-02, REL-03).
package secret

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

// Redacted is what a Text shows in place of its characters.
const Redacted = "[redacted]"

// maxFileBytes bounds a secret file; a larger one is a wrong path, not a secret.
const maxFileBytes = 64 << 10

// Text is a secret string. The zero value is the absent secret.
type Text struct{ value string }

// New wraps value. The caller must not keep another printable copy of it.
func New(value string) Text { return Text{value: value} }

// Reveal returns the characters. Call it only where they are consumed: a MAC, a
// password check, a connection.
func (t Text) Reveal() string { return t.value }

// IsZero reports whether there is no secret.
func (t Text) IsZero() bool { return t.value == "" }

// Len returns the number of bytes, which is not itself secret.
func (t Text) Len() int { return len(t.value) }

// Equal compares in constant time for equal lengths.
func (t Text) Equal(other Text) bool {
	return subtle.ConstantTimeCompare([]byte(t.value), []byte(other.value)) == 1
}

// String implements fmt.Stringer.
func (t Text) String() string { return Redacted }

// GoString implements fmt.GoStringer.
func (t Text) GoString() string { return Redacted }

// Format implements fmt.Formatter, so that no verb or flag reaches the field.
func (t Text) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Redacted) }

// MarshalText implements encoding.TextMarshaler (JSON and TOML use it too).
func (t Text) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// LogValue implements slog.LogValuer.
func (t Text) LogValue() slog.Value { return slog.StringValue(Redacted) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Text) UnmarshalText(b []byte) error {
	t.value = string(b)
	return nil
}

// ReadFile reads a secret from a file and drops one trailing line break. It
// refuses an empty file, one larger than 64 KiB, and one that others than its
// owner and group can read.
func ReadFile(path string) (Text, error) {
	f, err := os.Open(path)
	if err != nil {
		return Text{}, fmt.Errorf("open secret file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Text{}, fmt.Errorf("look at secret file: %w", err)
	}
	if info.Mode().Perm()&0o007 != 0 {
		return Text{}, fmt.Errorf("secret file %s is accessible to every user (mode %04o); run chmod o-rwx on it", path, info.Mode().Perm())
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return Text{}, fmt.Errorf("read secret file: %w", err)
	}
	if len(b) > maxFileBytes {
		return Text{}, fmt.Errorf("secret file %s is larger than %d bytes", path, maxFileBytes)
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if value == "" {
		return Text{}, errors.New("secret file " + path + " is empty")
	}
	return New(value), nil
}
