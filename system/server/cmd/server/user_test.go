package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glovebox/system/server/internal/users"
	"glovebox/system/testdb"
	"glovebox/threat-model/evidence"
)

// operate runs one command line under the operator's login.
func (in *installation) operate(stdin string, args ...string) (out, errOut string, code int) {
	in.t.Helper()
	in.t.Setenv("GLOVEBOX_DATABASE_OPERATOR_URL", in.db.URL(testdb.Operator).Reveal())
	in.t.Setenv("GLOVEBOX_AUTH_ARGON2_TIME", "1")
	in.t.Setenv("GLOVEBOX_AUTH_ARGON2_MEMORY", "8MiB")
	var o, e bytes.Buffer
	code = execute(in.t.Context(), args, strings.NewReader(stdin), &o, &e)
	return o.String(), e.String(), code
}

func TestUsersAndTokensAreMadeAndEndedByCommand(t *testing.T) {
	evidence.Proves(t, "AUT-03", "REL-04")
	in := install(t)
	s := in.start(nil)

	generated, _, code := in.operate("", "user", "add", "Alice", "--generate")
	if code != exitOK || len(strings.TrimSpace(generated)) < 20 {
		t.Fatalf("add: %d, %q", code, generated)
	}
	login := func(login, pass string) *answer {
		return s.anonymous().json("POST", "/api/v1/auth/token", map[string]string{"login": login, "password": pass})
	}
	login("alice", strings.TrimSpace(generated)).want(http.StatusOK)

	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("a password from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, e, code := in.operate("", "user", "add", "bob", "--password-file", file); code != exitOK {
		t.Fatal(e)
	}
	login("bob", "a password from a file").want(http.StatusOK)
	if _, e, code := in.operate("a password from stdin\r\nmore", "user", "passwd", "bob", "--password-stdin"); code != exitOK {
		t.Fatal(e)
	}
	login("bob", "a password from a file").want(http.StatusUnauthorized)
	login("bob", "a password from stdin").want(http.StatusOK)

	// Tokens go by an id; the newest first.
	out, e, code := in.operate("", "token", "list", "--user", "bob", "--json")
	var tokens []users.Token
	if err := json.Unmarshal([]byte(out), &tokens); err != nil || code != exitOK || len(tokens) != 2 || tokens[0].RevokedAt != nil || tokens[1].RevokedAt == nil || strings.Contains(out, "gbx_") {
		t.Fatalf("tokens: %s %s %v", out, e, err)
	}
	if _, e, code := in.operate("", "token", "revoke", tokens[0].ID); code != exitOK {
		t.Fatal(e)
	}
	alice := s.loginAs(t, "alice", strings.TrimSpace(generated))
	alice.get("/api/v1/auth/me").want(http.StatusOK)
	if _, e, code := in.operate("", "token", "revoke", "--user", "ALICE"); code != exitOK || !strings.Contains(e, "revoked 2 tokens") {
		t.Fatal(e)
	}
	alice.get("/api/v1/auth/me").refused(http.StatusUnauthorized, "unauthenticated")

	if _, e, code := in.operate("", "user", "disable", "bob"); code != exitOK {
		t.Fatal(e)
	}
	login("bob", "a password from stdin").want(http.StatusUnauthorized)
	out, _, _ = in.operate("", "user", "list")
	if !strings.Contains(out, "alice") || !strings.Contains(out, "disabled") || strings.Contains(out, "argon2") {
		t.Errorf("list: %s", out)
	}
	if _, e, code := in.operate("", "user", "enable", "bob"); code != exitOK {
		t.Fatal(e)
	}
	login("bob", "a password from stdin").want(http.StatusOK)

	for _, c := range []struct {
		stdin string
		args  []string
		code  int
		says  string
	}{
		{"", []string{"user", "add", "alice", "--generate"}, exitFailed, "exists"},
		{"short\n", []string{"user", "add", "carol", "--password-stdin"}, exitFailed, "fewer than 12"},
		{"", []string{"user", "add", "carol"}, exitFailed, "password-file"},
		{"", []string{"user", "add", "carol", "--generate", "--password-stdin"}, exitFailed, "password"},
		{"", []string{"user", "add", "Ca rol", "--generate"}, exitFailed, "a login has"},
		{"", []string{"user", "passwd", "nobody", "--generate"}, exitFailed, "no user"},
		{"", []string{"user", "disable", "nobody"}, exitFailed, "no user"},
		{"", []string{"token", "revoke", "not-an-id"}, exitFailed, "no token"},
		{"", []string{"token", "revoke"}, exitUsage, "--user"},
		{"", []string{"token", "revoke", "--user", "nobody"}, exitFailed, "no user"},
	} {
		out, e, code := in.operate(c.stdin, c.args...)
		if code != c.code || !strings.Contains(e, c.says) || strings.Contains(out, "gbx_") {
			t.Errorf("%v: %d %q %q, want %q", c.args, code, out, e, c.says)
		}
	}
}

func (s *server) loginAs(t *testing.T, login, pass string) *caller {
	t.Helper()
	c := s.anonymous()
	var a struct {
		Token     string `json:"token"`
		ExpiresAt string `json:"expires_at"`
	}
	c.json("POST", "/api/v1/auth/token", map[string]string{"login": login, "password": pass}).want(http.StatusOK).decode(&a)
	c.token = a.Token
	return c
}
