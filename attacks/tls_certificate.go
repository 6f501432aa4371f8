package attacks

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"time"

	"glovebox/attacks/harness"
)

// leafOf returns the certificate that a listener shows.
func leafOf(e *harness.Env, address string, config *tls.Config) *x509.Certificate {
	config = config.Clone()
	config.InsecureSkipVerify = true //nolint:gosec // it is judged below
	c, err := e.Dial(address, config)
	e.Must(err, "connect to %s", address)
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0]
}

func tlsCertificate(e *harness.Env) {
	leaves := map[string]*x509.Certificate{}
	for listener, address := range listeners(e) {
		e.Input("%s", listener)
		config := trusting(e, listener)
		_, err := handshake(e, address, config)
		e.Control(err == nil, "its own authority does not accept it: %v", err)
		leaf := leafOf(e, address, config)
		leaves[listener] = leaf
		switch key := leaf.PublicKey.(type) {
		case *ecdsa.PublicKey:
			e.Check(key.Curve.Params().BitSize >= 256, "its key has %d bits", key.Curve.Params().BitSize)
		case *rsa.PublicKey:
			e.Check(key.N.BitLen() >= 2048, "its key has %d bits", key.N.BitLen())
		}
		weak := []x509.SignatureAlgorithm{x509.MD5WithRSA, x509.SHA1WithRSA, x509.ECDSAWithSHA1, x509.DSAWithSHA1, x509.MD2WithRSA}
		e.Check(!slices.Contains(weak, leaf.SignatureAlgorithm), "it is signed by %s", leaf.SignatureAlgorithm)
		e.Check(!leaf.IsCA && slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}), "CA %v, uses %v", leaf.IsCA, leaf.ExtKeyUsage)
		e.Check(len(leaf.DNSNames)+len(leaf.IPAddresses) > 0 && !slices.ContainsFunc(leaf.DNSNames, func(n string) bool { return strings.Contains(n, "*") }), "its names are %v %v", leaf.DNSNames, leaf.IPAddresses)
		e.Check(leaf.NotAfter.Sub(leaf.NotBefore) < 400*24*time.Hour && leaf.NotAfter.After(time.Now()), "it lives from %s to %s", leaf.NotBefore, leaf.NotAfter)
		e.Check(leaf.SerialNumber.BitLen() >= 64, "its serial number has %d bits", leaf.SerialNumber.BitLen())
	}
	e.Input("")
	one, err := x509.MarshalPKIXPublicKey(leaves["public"].PublicKey)
	e.Must(err, "read a key")
	two, err := x509.MarshalPKIXPublicKey(leaves["internal"].PublicKey)
	e.Must(err, "read a key")
	e.Check(!bytes.Equal(one, two), "both listeners have one key")
	// Crosswise: each authority alone.
	crossed := trusting(e, "internal")
	crossed.RootCAs = e.TLS().RootCAs
	_, err = handshake(e, e.Internal(0), crossed)
	e.Check(authorityUnknown(err), "the public authority accepts the internal certificate (%v)", err)
	crossed = e.TLS()
	crossed.RootCAs = trusting(e, "internal").RootCAs
	_, err = handshake(e, e.Public(0), crossed)
	e.Check(authorityUnknown(err), "the internal authority accepts the public certificate (%v)", err)
	for listener, address := range listeners(e) {
		config := trusting(e, listener)
		config.ServerName = "evil.example"
		_, err = handshake(e, address, config)
		var name x509.HostnameError
		e.Check(errors.As(err, &name), "the %s certificate stands for evil.example (%v)", listener, err)
	}
}

func authorityUnknown(err error) bool {
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &unknown)
}

func tlsNames(e *harness.Env) {
	for listener, address := range listeners(e) {
		config := trusting(e, listener)
		config.ServerName = "0.0.0.0" // an address is not sent
		plain := leafOf(e, address, config)
		e.Control(plain != nil, "%s: without SNI", listener)
		for _, name := range []string{"evil.example", "localhost", "glovebox.internal.example", "internal", strings.Repeat("a.", 120) + "b", "x.y.z"} {
			e.Input("%s, %.30q", listener, name)
			config.ServerName = name
			leaf := leafOf(e, address, config)
			e.Check(leaf.Equal(plain), "another certificate is shown: %s", leaf.Subject)
		}
		for name, body := range map[string][]byte{
			"an address": []byte("\x00\x0c\x00\x00\x09127.0.0.1"), "two names": []byte("\x00\x08\x00\x00\x01a\x00\x00\x01b"),
			"empty": []byte("\x00\x03\x00\x00\x00"), "lying length": []byte("\x00\x50\x00\x00\x4fab"),
			"control characters": []byte("\x00\x06\x00\x00\x03a\x00b"), "trailing dot": []byte("\x00\x06\x00\x00\x03ab."),
		} {
			e.Input("%s, %s", listener, name)
			r := askHello(e, address, clientHello{version: 0x0303, suites: suites12, more: extension(0, body)}.record())
			e.Check(r.kind == "alert" || r.kind == "hello", "it is answered with %+v", r)
		}
	}
}
