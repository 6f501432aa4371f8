package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

const (
	pemCertificate = "CERTIFICATE"
	pemKey         = "PRIVATE KEY"
)

// pair is a certificate with its key.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority makes a self-signed authority that may sign leaves only.
func newAuthority(name Authority, generation int, now time.Time) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("make a key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return pair{}, err
	}
	keyID, err := subjectKeyID(key)
	if err != nil {
		return pair{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		// The generation makes the subjects of two generations differ, so that
		// verifiers which look issuers up by name find the right one at once.
		Subject:               pkix.Name{CommonName: fmt.Sprintf("glovebox %s %d", name, generation)},
		NotBefore:             now.Add(-BackDate),
		NotAfter:              now.Add(AuthorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLen:            0,
		MaxPathLenZero:        true,
		SubjectKeyId:          keyID,
	}
	return create(template, template, key, key)
}

// sign makes a new key and a leaf for id, signed by the authority.
func sign(authority pair, id identity, now time.Time) (pair, error) {
	if !now.Before(authority.cert.NotAfter) {
		return pair{}, fmt.Errorf("the %s ended on %s; make a new one with pki init --rotate", id.signer, authority.cert.NotAfter.UTC().Format(time.DateOnly))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("make a key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return pair{}, err
	}
	keyID, err := subjectKeyID(key)
	if err != nil {
		return pair{}, err
	}
	usage := x509.ExtKeyUsageClientAuth
	if id.kind == Server {
		usage = x509.ExtKeyUsageServerAuth
	}
	end := now.Add(id.life)
	if end.After(authority.cert.NotAfter) {
		end = authority.cert.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: id.common},
		NotBefore:             now.Add(-BackDate),
		NotAfter:              end,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{usage},
		BasicConstraintsValid: true,
		SubjectKeyId:          keyID,
		DNSNames:              id.dns,
		IPAddresses:           id.ips,
		URIs:                  id.uris,
	}
	return create(template, authority.cert, key, authority.key)
}

func create(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) (pair, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return pair{}, fmt.Errorf("sign the certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return pair{}, fmt.Errorf("read back the certificate: %w", err)
	}
	return pair{cert: cert, key: key}, nil
}

// newSerial returns 128 random bits, never zero.
func newSerial() (*big.Int, error) {
	limit := new(big.Int).Lsh(big.NewInt(1), 128)
	for {
		serial, err := rand.Int(rand.Reader, limit)
		if err != nil {
			return nil, fmt.Errorf("make a serial number: %w", err)
		}
		if serial.Sign() > 0 {
			return serial, nil
		}
	}
}

// subjectKeyID is the key's SHA-256, cut to 160 bits (RFC 7093 method 1).
func subjectKeyID(key *ecdsa.PrivateKey) ([]byte, error) {
	point, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, fmt.Errorf("encode the public key: %w", err)
	}
	sum := sha256.Sum256(point)
	return sum[:20], nil
}

func encodeCertificates(certs ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: c.Raw})...)
	}
	return out
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode the key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der}), nil
}

// ParseCertificates reads every certificate of a PEM text. Blocks of another
// type are refused: a key in a file that is handed out is an accident.
func ParseCertificates(text []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for {
		var block *pem.Block
		block, text = pem.Decode(text)
		if block == nil {
			break
		}
		if block.Type != pemCertificate {
			return nil, fmt.Errorf("found a PEM block of type %q where only certificates belong", block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse certificate %d: %w", len(certs)+1, err)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, errors.New("found no certificate in PEM form")
	}
	return certs, nil
}

func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemKey {
		return nil, errors.New("found no key in PEM form (PKCS #8)")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		// The parser's text may describe the key's bytes: it is not passed on.
		return nil, errors.New("the key cannot be parsed as PKCS #8")
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("the key is not an elliptic curve key")
	}
	return ec, nil
}
