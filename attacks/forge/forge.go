// Package forge makes certificates that no honest authority would: for a wrong
// use, out of their time, with names that are almost a worker's. It signs with an
// authority's stolen key, or with one of its own making.
package forge

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Authority signs certificates.
type Authority struct {
	Cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Stolen reads an authority's pair from PEM files: what an intruder on the
// operator's machine would have.
func Stolen(certFile, keyFile string) (*Authority, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("read the authority's pair: %w", err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("the authority's key is not an elliptic curve key")
	}
	return &Authority{pair.Leaf, key}, nil
}

// StolenFrom reads the newest generation of an authority ("internal-ca",
// "public-ca") in a folder of authorities.
func StolenFrom(dir, authority string) (*Authority, error) {
	certs, err := filepath.Glob(filepath.Join(dir, authority+"-[0-9]*.crt"))
	if err != nil || len(certs) == 0 {
		return nil, fmt.Errorf("no %s lies in the folder of authorities (%v)", authority, err)
	}
	slices.Sort(certs)
	newest := certs[len(certs)-1]
	return Stolen(newest, newest[:len(newest)-len("crt")]+"key")
}

// NewAuthority makes one of its own with the given name: signed by itself, or by
// parent as an intermediate.
func NewAuthority(name string, parent *Authority) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true,
	}
	signer, by := template, key
	if parent != nil {
		signer, by = parent.Cert, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer, &key.PublicKey, by)
	if err != nil {
		return nil, fmt.Errorf("sign an authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{cert, key}, err
}

// Leaf says what a certificate claims. The zero value has no name and no use.
type Leaf struct {
	Common   string
	URIs     []string
	DNS      []string
	IPs      []net.IP
	Use      []x509.ExtKeyUsage
	From, To time.Time // zero: an hour ago, in an hour
	IsCA     bool
	// Change is applied last, for what has no field here.
	Change func(*x509.Certificate)
}

// Client is a leaf for clients with the given SAN URIs.
func Client(uris ...string) Leaf {
	return Leaf{Common: "forged", URIs: uris, Use: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
}

// Sign makes a key and a leaf that the authority vouches for. chain is sent with
// it: intermediates, as a peer would.
func (a *Authority) Sign(leaf Leaf, chain ...*Authority) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template, err := leaf.template()
	if err != nil {
		return tls.Certificate{}, err
	}
	parent, by := template, key // signed by itself
	if a != nil {
		parent, by = a.Cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("sign a leaf: %w", err)
	}
	pair := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	for _, between := range chain {
		pair.Certificate = append(pair.Certificate, between.Cert.Raw)
	}
	return pair, nil
}

// SelfSigned makes a leaf that vouches for itself.
func SelfSigned(leaf Leaf) (tls.Certificate, error) { return (*Authority)(nil).Sign(leaf) }

func (l Leaf) template() (*x509.Certificate, error) {
	if l.From.IsZero() {
		l.From = time.Now().Add(-time.Hour)
	}
	if l.To.IsZero() {
		l.To = time.Now().Add(time.Hour)
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: l.Common}, NotBefore: l.From, NotAfter: l.To,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: l.Use, BasicConstraintsValid: true, IsCA: l.IsCA, DNSNames: l.DNS, IPAddresses: l.IPs,
	}
	if l.IsCA {
		template.KeyUsage |= x509.KeyUsageCertSign
	}
	for _, text := range l.URIs {
		u, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("a forged name: %w", err)
		}
		template.URIs = append(template.URIs, u)
	}
	if l.Change != nil {
		l.Change(template)
	}
	return template, nil
}

// WriteFiles puts a pair into dir as name.crt and name.key.
func WriteFiles(pair tls.Certificate, dir, name string) (certFile, keyFile string, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return "", "", err
	}
	var text []byte
	for _, c := range pair.Certificate {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c})...)
	}
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	return certFile, keyFile, errors.Join(
		os.WriteFile(certFile, text, 0o644),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
}

func serial() *big.Int {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	return new(big.Int).SetBytes(raw[:])
}
