package main

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"glovebox/system/platform/pki"
	"glovebox/system/platform/pki/pkitest"
	"glovebox/system/protocol"
	"glovebox/system/server/internal/config"
	"glovebox/threat-model/evidence"
)

// put copies a file over another as a renewal does: written beside it, renamed.
func put(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to+".new", content, 0o600)
	}
	if err == nil {
		err = os.Rename(to+".new", to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestCertificatesAreTakenUpWithoutARestart while a job runs and a connection is open.
func TestCertificatesAreTakenUpWithoutARestart(t *testing.T) {
	evidence.Proves(t, "MTL-05")
	in := install(t)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "public.crt"), filepath.Join(dir, "public.key")
	issue := func() {
		c, k := in.pki.PublicServer()
		put(t, k, key)
		put(t, c, cert)
	}
	issue()
	s := in.start(func(c *config.Config) { c.TLS.PublicCert, c.TLS.PublicKey = cert, key })
	alice, w := s.user("alice"), s.worker("w-1")
	alice.submit([]byte("x"))
	a := w.claim()
	serial := func() string {
		conn, err := tls.Dial("tcp", s.main.PublicAddr().String(), s.tlsPublic())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	old := serial()
	issue()
	eventually(t, 15*time.Second, "new connections see the new certificate", func() bool { return serial() != old })
	alice.get("/api/v1/auth/me").want(http.StatusOK) // the open connection goes on
	w.finish(a, []byte("result")).want(http.StatusOK)
}

// TestAnAuthorityThatLeftTheBundleIsRefusedOnOpenConnections, and only that one:
// during the overlap of a rotation both are good.
func TestAnAuthorityThatLeftTheBundleIsRefusedOnOpenConnections(t *testing.T) {
	evidence.Proves(t, "MTL-01", "MTL-05")
	in := install(t)
	other := pkitest.New(t)
	bundle := filepath.Join(t.TempDir(), "bundle.crt")
	both := func() {
		one, err := os.ReadFile(in.pki.Bundle(pki.Internal))
		if err != nil {
			t.Fatal(err)
		}
		two, err := os.ReadFile(other.Bundle(pki.Internal))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(bundle, append(one, two...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	both()
	s := in.start(func(c *config.Config) { c.TLS.InternalClientCA = bundle })
	oldWorker := s.worker("w-1")
	s.allow("w-2")
	newWorker := s.peer(other.Worker("w-2"))
	oldWorker.tryClaim("0s").want(http.StatusNoContent)
	newWorker.tryClaim("0s").want(http.StatusNoContent)

	put(t, other.Bundle(pki.Internal), bundle)
	var refused *answer
	eventually(t, 15*time.Second, "the open connection of the old authority's worker is refused", func() bool {
		a, err := oldWorker.try("POST", protocol.PathClaim, nil)
		if err == nil && a.StatusCode == http.StatusUnauthorized {
			refused = a
		}
		return refused != nil || err != nil
	})
	if refused != nil {
		refused.refused(http.StatusUnauthorized, "unauthenticated")
	}
	if _, err := s.peer(in.pki.Worker("w-1")).try("POST", protocol.PathClaim, nil); err == nil {
		t.Error("a new connection of the old authority's worker was taken")
	}
	newWorker.tryClaim("0s").want(http.StatusNoContent)
}
