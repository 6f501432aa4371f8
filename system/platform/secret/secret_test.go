package secret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glovebox/system/platform/secret"
	"glovebox/threat-model/evidence"
)

const plain = "s3cr3t-canary-value"

func TestTextNeverPrints(t *testing.T) {
	evidence.Proves(t, "REL-02", "REL-03")
	type holder struct{ Key secret.Text }
	s := secret.New(plain)
	h := holder{Key: s}

	var shown []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		shown = append(shown, fmt.Sprintf(verb, s), fmt.Sprintf(verb, h), fmt.Sprintf(verb, &h))
	}
	b, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	shown = append(shown, string(b))
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", s, "holder", h)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", s, "holder", h)
	shown = append(shown, log.String())

	hexed := fmt.Sprintf("%x", plain)
	for _, text := range shown {
		if strings.Contains(text, plain) || strings.Contains(text, hexed) {
			t.Errorf("secret printed: %s", text)
		}
	}
	// Control: the instrument finds the value when it is revealed.
	if !strings.Contains(fmt.Sprintf("%v", s.Reveal()), plain) {
		t.Fatal("control failed: Reveal does not return the value")
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := map[string]struct {
		path, want, fails string
	}{
		"plain":       {path: write("a", "key\n", 0o600), want: "key"},
		"crlf":        {path: write("b", "key\r\n", 0o640), want: "key"},
		"world":       {path: write("c", "key", 0o644), fails: "chmod"},
		"empty":       {path: write("d", "\n", 0o600), fails: "is empty"},
		"large":       {path: write("e", strings.Repeat("x", 64<<10+1), 0o600), fails: "larger"},
		"missing":     {path: filepath.Join(dir, "none"), fails: "open secret file"},
		"is a folder": {path: dir, fails: "secret file"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := secret.ReadFile(tc.path)
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Fatalf("got %v, want an error with %q", err, tc.fails)
				}
				return
			}
			if err != nil || got.Reveal() != tc.want {
				t.Fatalf("got %q, %v", got.Reveal(), err)
			}
		})
	}
}
