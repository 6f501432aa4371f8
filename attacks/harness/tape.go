package harness

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// tape keeps the last exchanges of a case, so that a breach can be read. Secrets
// are struck out when they are read back: tokens, passwords and whatever else the
// case calls secret never reach a terminal or a file.
type tape struct {
	mu      sync.Mutex
	secrets []string
	last    []string // newest at the end
	marked  []string // as it stood at the first breach
	// given is called with each token that an answer brings; nil on a local system.
	given func(token string)
}

// tokenGiven finds the token in the answer to a login.
var tokenGiven = regexp.MustCompile(`"token":"([^"]+)"`)

const (
	tapeLength = 6       // exchanges
	tapeEntry  = 4 << 10 // bytes of one side of an exchange
)

func (t *tape) secret(values ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, v := range values {
		if len(v) >= 4 && !slices.Contains(t.secrets, v) {
			t.secrets = append(t.secrets, v)
		}
	}
}

func (t *tape) record(entry string) {
	if t.given != nil && strings.HasPrefix(entry, "< ") {
		for _, found := range tokenGiven.FindAllStringSubmatch(entry, -1) {
			t.given(found[1])
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last = append(t.last, entry); len(t.last) > tapeLength {
		t.last = t.last[1:]
	}
}

// mark keeps what led to the first breach.
func (t *tape) mark() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.marked == nil {
		t.marked = slices.Clone(t.last)
	}
}

func (t *tape) excerpt() []string {
	t.mu.Lock()
	entries := t.marked
	if entries == nil {
		entries = slices.Clone(t.last)
	}
	t.mu.Unlock()
	out := make([]string, len(entries))
	for i, entry := range entries {
		out[i] = t.redact(entry)
	}
	return out
}

// redact strikes out secrets and makes control characters visible.
func (t *tape) redact(text string) string {
	t.mu.Lock()
	secrets := slices.Clone(t.secrets)
	t.mu.Unlock()
	// The longest first: one secret may hold another.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "[redacted]")
	}
	return visible(text)
}

// visible lets nothing of a peer's choosing act on a terminal.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r == '\r': // every line of HTTP ends with it
		case r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0xfffd || r >= 0x200b && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069:
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", text[:most], len(text))
}
