package tlsconf

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"glovebox/system/platform/pki"
	"glovebox/system/platform/pki/pkitest"
	"glovebox/threat-model/evidence"
)

func TestListenerLetsInOnlyItsOwn(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "MTL-01", "API-06")
	b := setup(t)
	good := func() tls.Certificate { return b.in.Pair(b.in.Worker("w-1")) }
	foreign := pkitest.New(t)
	rows := []struct {
		name   string
		config func(t *testing.T) *tls.Config
		says   string // empty: let in
	}{
		{"own worker", func(*testing.T) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{good()}} }, ""},
		{"own worker by TLS 1.2", func(*testing.T) *tls.Config {
			return &tls.Config{Certificates: []tls.Certificate{good()}, MaxVersion: tls.VersionTLS12}
		}, ""},
		{"no certificate", func(*testing.T) *tls.Config { return &tls.Config{} }, "certificate required"},
		{"no certificate by TLS 1.2", func(*testing.T) *tls.Config { return &tls.Config{MaxVersion: tls.VersionTLS12} }, "handshake failure"},
		{"foreign authority", func(*testing.T) *tls.Config { return forced(foreign.Pair(foreign.Worker("w-1"))) }, "unknown certificate authority"},
		{"the public authority", func(*testing.T) *tls.Config { return forced(b.in.Pair(b.in.PublicServer())) }, "unknown certificate authority"},
		{"expired", func(*testing.T) *tls.Config {
			return forced(b.in.Pair(b.in.At(time.Now().Add(-60 * 24 * time.Hour)).Worker("w-1")))
		}, "expired certificate"},
		{"not valid yet", func(*testing.T) *tls.Config {
			return forced(b.in.Pair(b.in.At(time.Now().Add(24 * time.Hour)).Worker("w-1")))
		}, "expired certificate"},
		{"a server's certificate", func(*testing.T) *tls.Config { return forced(b.in.Pair(b.in.InternalServer())) }, "bad certificate"},
		{"no use named", func(t *testing.T) *tls.Config { return forced(leafOf(t, b.in)) }, "bad certificate"},
		{"TLS 1.1", func(*testing.T) *tls.Config {
			return &tls.Config{Certificates: []tls.Certificate{good()}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
		}, "protocol version"},
		{"CBC suite only", func(*testing.T) *tls.Config {
			return &tls.Config{Certificates: []tls.Certificate{good()}, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}}
		}, "handshake failure"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			config := row.config(t)
			config.RootCAs, config.ServerName = b.in.Pool(pki.Internal), "localhost"
			err := plainDial(t, b.address, config)
			if row.says == "" {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), row.says) {
				t.Fatalf("got %v, want a refusal with %q", err, row.says)
			}
		})
	}
}

// forced shows the certificate whatever the server says it takes.
func forced(pair tls.Certificate) *tls.Config {
	return &tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }}
}

// leafOf makes a leaf of the internal authority with a worker's and a server's
// names and exactly these uses. One that names none is taken for any by the
// standard library.
func leafOf(t *testing.T, in *pkitest.Installation, uses ...x509.ExtKeyUsage) tls.Certificate {
	t.Helper()
	authority := in.Pair(filepath.Join(in.Dir, "internal-ca-1.crt"), filepath.Join(in.Dir, "internal-ca-1.key"))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "made by hand"}, ExtKeyUsage: uses, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, URIs: []*url.URL{{Scheme: "spiffe", Host: "glovebox", Path: "/worker/w-1"}},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.Leaf, &key.PublicKey, authority.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestClientKnowsTheServer(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "ARC-01", "MTL-01")
	in := pkitest.New(t)
	rows := []struct {
		name string
		pair tls.Certificate
		max  uint16
		says string
	}{
		{"own server", in.Pair(in.InternalServer()), 0, ""},
		{"a worker as a server", in.Pair(in.Worker("w-1")), 0, "doesn't contain any IP SANs"},
		{"a client's use with the server's names", leafOf(t, in, x509.ExtKeyUsageClientAuth), 0, "incompatible key usage"},
		{"the public listener's certificate", in.Pair(in.PublicServer()), 0, "unknown authority"},
		{"no use named", leafOf(t, in), 0, "not for this use"},
		{"TLS 1.1", in.Pair(in.InternalServer()), tls.VersionTLS11, "protocol version"},
		{"expired", in.Pair(in.At(time.Now().Add(-60 * 24 * time.Hour)).InternalServer()), 0, "expired"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			server.Config.ErrorLog = slog.NewLogLogger((&lines{}).logger().Handler(), slog.LevelDebug)
			server.TLS = &tls.Config{Certificates: []tls.Certificate{row.pair}, MinVersion: tls.VersionTLS10, MaxVersion: row.max}
			server.StartTLS()
			t.Cleanup(server.Close)
			source, err := Open(Files{CA: in.Bundle(pki.Internal)}, (&lines{}).logger())
			if err != nil {
				t.Fatal(err)
			}
			rt := source.RoundTripper(1)
			t.Cleanup(rt.CloseIdleConnections)
			_, _, err = tryGet(&http.Client{Transport: rt}, server.URL)
			if (err == nil) != (row.says == "") || err != nil && !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, want %q", err, row.says)
			}
		})
	}
}

func TestClientRefusesPlainHTTP(t *testing.T) {
	t.Parallel()
	in := pkitest.New(t)
	source, err := Open(Files{CA: in.Bundle(pki.Internal)}, (&lines{}).logger())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a plain request arrived") }))
	t.Cleanup(server.Close)
	if _, _, err := tryGet(&http.Client{Transport: source.RoundTripper(1)}, server.URL); err == nil || !strings.Contains(err.Error(), "https") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestWorkerIDComesFromOneURI(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "MTL-02", "MTL-06")
	uri := func(texts ...string) (uris []*url.URL) {
		for _, text := range texts {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			uris = append(uris, u)
		}
		return uris
	}
	rows := []struct {
		name string
		uris []*url.URL
		id   string
		kind pki.Kind
	}{
		{"worker", uri("spiffe://glovebox/worker/w-1"), "w-1", pki.Worker},
		{"ingest", uri("spiffe://glovebox/ingest/i-1"), "i-1", pki.Ingest},
		{"none", nil, "", ""},
		{"two", uri("spiffe://glovebox/worker/w-1", "spiffe://glovebox/worker/w-2"), "", ""},
		{"both kinds", uri("spiffe://glovebox/worker/w-1", "spiffe://glovebox/ingest/w-1"), "", ""},
		{"other kind", uri("spiffe://glovebox/server/w-1"), "", ""},
		{"other domain", uri("spiffe://glovebox.example/worker/w-1"), "", ""},
		{"port", uri("spiffe://glovebox:1/worker/w-1"), "", ""},
		{"user", uri("spiffe://a@glovebox/worker/w-1"), "", ""},
		{"deeper", uri("spiffe://glovebox/worker/w-1/x"), "", ""},
		{"empty id", uri("spiffe://glovebox/worker/"), "", ""},
		{"query", uri("spiffe://glovebox/worker/w-1?x=1"), "", ""},
		{"fragment", uri("spiffe://glovebox/worker/w-1#x"), "", ""},
		{"percent", uri("spiffe://glovebox/worker/w%2d1"), "", ""},
		{"dots", uri("spiffe://glovebox/ingest/../worker/w-1"), "", ""},
		{"upper case", uri("spiffe://glovebox/worker/W-1"), "", ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			leaf := &x509.Certificate{URIs: row.uris, Subject: pkix.Name{CommonName: "spiffe://glovebox/worker/by-name"}}
			verified := tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}
			id, kind, ok := WorkerID(verified)
			if id != row.id || kind != row.kind || ok != (row.id != "") {
				t.Errorf("got %q %q %v, want %q %q", id, kind, ok, row.id, row.kind)
			}
			if _, _, ok := WorkerID(tls.ConnectionState{PeerCertificates: verified.PeerCertificates}); ok {
				t.Error("an unverified certificate gave an identity")
			}
		})
	}
}

func TestFilesThatAreRefusedAtStart(t *testing.T) {
	t.Parallel()
	in := pkitest.New(t)
	certFile, keyFile := in.Worker("w-1")
	_, otherKey := in.Worker("w-2")
	open644 := filepath.Join(t.TempDir(), "open.key")
	copyFile(t, keyFile, open644, 0o644)
	withKey := filepath.Join(t.TempDir(), "with-key.crt")
	copyFile(t, keyFile, withKey, 0o644)
	rows := map[string]struct {
		files Files
		says  string
	}{
		"no key named":             {Files{Cert: certFile}, "go together"},
		"no such file":             {Files{Cert: certFile + "x", Key: keyFile}, "no such file"},
		"another's key":            {Files{Cert: certFile, Key: otherKey}, "no usable pair"},
		"key for everyone":         {Files{Cert: certFile, Key: open644}, "chmod"},
		"bundle of leaves":         {Files{CA: certFile}, "no authority"},
		"bundle with a key":        {Files{CA: withKey}, "only certificates belong"},
		"bundle that is a leaflet": {Files{CA: writeFile(t, "hello")}, "no certificate"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Open(row.files, (&lines{}).logger())
			if err == nil || !strings.Contains(err.Error(), row.says) {
				t.Fatalf("got %v, want an error with %q", err, row.says)
			}
			if strings.Contains(err.Error(), "BEGIN") {
				t.Error("the error shows file content")
			}
		})
	}
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, mode); err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
