package forge_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"glovebox/attacks/forge"
)

func verify(t *testing.T, pair tls.Certificate, root *forge.Authority, use x509.ExtKeyUsage) error {
	t.Helper()
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(root.Cert)
	for _, der := range pair.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		between.AddCert(c)
	}
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{use}})
	return err
}

// A leaf is bad in the way it was asked to be, and good otherwise.
func TestAForgeryIsBadInTheOneWayThatWasAskedFor(t *testing.T) {
	t.Parallel()
	root, err := forge.NewAuthority("root", nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := forge.NewAuthority("root", nil)
	if err != nil {
		t.Fatal(err)
	}
	between, err := forge.NewAuthority("between", root)
	if err != nil {
		t.Fatal(err)
	}
	good := forge.Client("spiffe://glovebox/worker/w1")
	late, early, wrong := good, good, good
	late.To = time.Now().Add(-time.Minute)
	early.From = time.Now().Add(time.Minute)
	wrong.Use = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, c := range []struct {
		name   string
		signer *forge.Authority
		leaf   forge.Leaf
		ok     bool
	}{{"good", root, good, true}, {"late", root, late, false}, {"early", root, early, false}, {"wrong use", root, wrong, false}, {"other root", other, good, false}} {
		pair, err := c.signer.Sign(c.leaf)
		if err != nil {
			t.Fatal(err)
		}
		if err := verify(t, pair, root, x509.ExtKeyUsageClientAuth); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	chained, err := between.Sign(good, between)
	if err != nil || verify(t, chained, root, x509.ExtKeyUsageClientAuth) != nil {
		t.Errorf("through an intermediate: %v", err)
	}
	self, err := forge.SelfSigned(good)
	if err != nil || verify(t, self, root, x509.ExtKeyUsageClientAuth) == nil {
		t.Errorf("signed by itself: %v", err)
	}
	dir := t.TempDir()
	cert, key, err := forge.WriteFiles(self, dir, "x")
	if _, err2 := tls.LoadX509KeyPair(cert, key); errors.Join(err, err2) != nil {
		t.Errorf("written and read: %v", errors.Join(err, err2))
	}
}
