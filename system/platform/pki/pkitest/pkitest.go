// Package pkitest gives tests a real installation's keys and certificates: both
// authorities in a temporary folder, and leaves from them.
package pkitest

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
	"time"

	"glovebox/system/platform/pki"
)

// Installation is a Store in a folder that goes with the test.
type Installation struct {
	pki.Store
	t testing.TB
}

// New makes both authorities.
func New(t testing.TB) *Installation {
	t.Helper()
	in := &Installation{Store: pki.Store{Dir: t.TempDir()}, t: t}
	if _, err := in.Init(); err != nil {
		t.Fatalf("make the authorities: %v", err)
	}
	return in
}

// At returns the same installation under another clock, for certificates that
// are not valid yet or no more.
func (in *Installation) At(now time.Time) *Installation {
	return &Installation{Store: pki.Store{Dir: in.Dir, Now: func() time.Time { return now }}, t: in.t}
}

// Leaf issues what req asks for and returns its two files.
func (in *Installation) Leaf(req pki.Request) (certFile, keyFile string) {
	in.t.Helper()
	issued, err := in.Issue(req, in.t.TempDir())
	if err != nil {
		in.t.Fatalf("issue: %v", err)
	}
	return issued.Cert, issued.Key
}

// Worker issues a worker's certificate.
func (in *Installation) Worker(id string) (certFile, keyFile string) {
	in.t.Helper()
	return in.Leaf(pki.Request{Kind: pki.Worker, ID: id})
}

// Ingest issues an ingest certificate.
func (in *Installation) Ingest(id string) (certFile, keyFile string) {
	in.t.Helper()
	return in.Leaf(pki.Request{Kind: pki.Ingest, ID: id})
}

// PublicServer issues a certificate for the public listener on loopback.
func (in *Installation) PublicServer() (certFile, keyFile string) {
	in.t.Helper()
	return in.Leaf(pki.Request{Kind: pki.Server, Signer: pki.Public, ID: "test"})
}

// InternalServer issues a certificate for the internal listener on loopback.
func (in *Installation) InternalServer() (certFile, keyFile string) {
	in.t.Helper()
	return in.Leaf(pki.Request{Kind: pki.Server, Signer: pki.Internal, ID: "test"})
}

// Pool returns the certificates that peers of authority trust.
func (in *Installation) Pool(authority pki.Authority) *x509.CertPool {
	in.t.Helper()
	text, err := os.ReadFile(in.Bundle(authority))
	if err != nil {
		in.t.Fatalf("read the bundle: %v", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		in.t.Fatalf("the bundle of %s holds no certificate", authority)
	}
	return pool
}

// Pair loads a pair of files for a plain tls.Config.
func (in *Installation) Pair(certFile, keyFile string) tls.Certificate {
	in.t.Helper()
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		in.t.Fatalf("load the pair: %v", err)
	}
	return pair
}
