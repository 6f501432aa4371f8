package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glovebox/threat-model/evidence"
)

// TestTheAdministratorsLoginCrossesNoNetworkUnverified: whoever answers in the
// database's place would have a superuser's password.
func TestTheAdministratorsLoginCrossesNoNetworkUnverified(t *testing.T) {
	evidence.Proves(t, "DBS-02", "REL-04")
	const password = "canary-of-the-administrator"
	for _, query := range []string{"", "?sslmode=disable", "?sslmode=prefer", "?sslmode=require", "?sslmode=verify-ca"} {
		file := filepath.Join(t.TempDir(), "admin-url")
		// An address for documentation: nobody answers there.
		if err := os.WriteFile(file, []byte("postgres://admin:"+password+"@192.0.2.1/glovebox"+query+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"migrate", "up"}, {"migrate", "status"}, {"migrate", "set-password", "glovebox_server"}} {
			var out, errOut bytes.Buffer
			code := execute(t.Context(), append(args, "--admin-url-file", file), strings.NewReader(strings.Repeat("p", 40)), &out, &errOut)
			if said := out.String() + errOut.String(); code != exitUsage || !strings.Contains(said, "verify-full") || strings.Contains(said, password) {
				t.Errorf("%q %v: status %d, %s", query, args, code, said)
			}
		}
	}
}

// TestASecretIsTakenWholeOrNotAtAll: half of a password that was cut would be set,
// and nobody would know it.
func TestASecretIsTakenWholeOrNotAtAll(t *testing.T) {
	for length, taken := range map[int]bool{0: false, 1: true, 4 << 10: true, 4<<10 + 1: false, 1 << 20: false} {
		for _, end := range []string{"", "\n", "\nmore"} {
			text := strings.Repeat("p", length)
			got, err := readSecretLine(strings.NewReader(text + end))
			if taken != (err == nil) || taken && got.Reveal() != text {
				t.Errorf("%d bytes and %q: %d bytes were taken, %v", length, end, got.Len(), err)
			}
		}
	}
}
