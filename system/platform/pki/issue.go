package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Issued is a leaf that was written.
type Issued struct {
	Cert string `json:"cert"`
	Key  string `json:"key"`
	Info
}

// Issue signs a leaf and writes it with its key into the folder out (the
// store's own when empty) as KIND-ID.crt and .key, a server's with -public or
// -internal behind the id. It fails with ErrExists rather than overwrite.
func (s Store) Issue(req Request, out string) (Issued, error) {
	id, err := req.identity()
	if err != nil {
		return Issued{}, err
	}
	authority, err := s.signer(id.signer)
	if err != nil {
		return Issued{}, err
	}
	if out == "" {
		out = s.Dir
	}
	if err := os.MkdirAll(out, modeFolder); err != nil {
		return Issued{}, fmt.Errorf("make folder %s: %w", out, err)
	}
	certFile := filepath.Join(out, req.fileName()+".crt")
	keyFile := filepath.Join(out, req.fileName()+".key")
	if _, err := os.Lstat(certFile); !errors.Is(err, fs.ErrNotExist) {
		return Issued{}, fmt.Errorf("write %s: %w; give it a new key and life with pki renew", certFile, ErrExists)
	}
	leaf, err := sign(authority, id, s.now())
	if err != nil {
		return Issued{}, err
	}
	return s.write(leaf, certFile, keyFile, createFile)
}

// Renew signs the identity of the leaf in certFile again, with a new key and
// the same length of life, and puts both in the place of the old. The key
// stands beside the certificate with the suffix .key. A leaf that this folder's
// authorities did not sign is refused with ErrForeign; an expired one is not.
//
// The files belong to the service that uses them, which may have been taken over
// and have put another's certificate there. A leaf whose key is not beside it is
// refused with ErrNotHeld: nobody is given a new key for what it does not hold.
//
// The two files change one after the other. A process that reads between the
// two keeps its old pair (package tlsconf), and a crash there is mended by
// renewing again: the old key is kept with the suffix .old until both are new.
func (s Store) Renew(certFile string) (Issued, error) {
	stem, ok := strings.CutSuffix(certFile, ".crt")
	if !ok {
		return Issued{}, fmt.Errorf("renew %s: wanted a file with the suffix .crt", certFile)
	}
	keyFile := stem + ".key"
	text, err := readFile(certFile)
	if err != nil {
		return Issued{}, fmt.Errorf("renew: %w", err)
	}
	certs, err := ParseCertificates(text)
	if err != nil {
		return Issued{}, fmt.Errorf("renew %s: %w", certFile, err)
	}
	old := certs[0]
	id, err := s.identityOf(old)
	if err != nil {
		return Issued{}, fmt.Errorf("renew %s: %w", certFile, err)
	}
	oldKey, err := keyOf(old, keyFile, keyFile+oldSuffix)
	if err != nil {
		return Issued{}, fmt.Errorf("renew %s: %w", certFile, err)
	}
	authority, err := s.signer(id.signer)
	if err != nil {
		return Issued{}, err
	}
	leaf, err := sign(authority, id, s.now())
	if err != nil {
		return Issued{}, err
	}
	if err := replaceKeepingOwner(keyFile+oldSuffix, oldKey, modeKey); err != nil {
		return Issued{}, err
	}
	issued, err := s.write(leaf, certFile, keyFile, replaceKeepingOwner)
	if err != nil {
		return Issued{}, err
	}
	if err := os.Remove(keyFile + oldSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Issued{}, fmt.Errorf("remove the old key: %w", err)
	}
	return issued, nil
}

// oldSuffix names the key that a renewal is about to replace.
const oldSuffix = ".old"

// keyOf returns the content of the first of files that holds leaf's key.
func keyOf(leaf *x509.Certificate, files ...string) ([]byte, error) {
	for _, file := range files {
		text, err := readFile(file)
		if err != nil {
			continue // it holds no key of ours: the error below says what is wanted
		}
		if key, err := parseKey(text); err == nil && key.PublicKey.Equal(leaf.PublicKey) {
			return text, nil
		}
	}
	return nil, fmt.Errorf("%w: wanted in %s; put it there, or issue a new certificate with pki issue", ErrNotHeld, files[0])
}

// identityOf reads back what Issue put into a leaf.
func (s Store) identityOf(leaf *x509.Certificate) (identity, error) {
	if leaf.IsCA {
		return identity{}, errors.New("this is an authority, not a leaf; rotate it with pki init --rotate")
	}
	signer, err := s.signedBy(leaf)
	if err != nil {
		return identity{}, err
	}
	id := identity{
		signer: signer, kind: Server, common: leaf.Subject.CommonName,
		dns: leaf.DNSNames, ips: leaf.IPAddresses, uris: leaf.URIs,
		life: max(MinLife, min(MaxLife, leaf.NotAfter.Sub(leaf.NotBefore)-BackDate)),
	}
	if slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		if len(leaf.URIs) != 1 {
			return identity{}, errors.New("a client certificate of this installation has exactly one URI")
		}
		kind, _, ok := ParseSAN(leaf.URIs[0].String())
		if !ok {
			return identity{}, fmt.Errorf("the URI %q is no identity of this installation", leaf.URIs[0])
		}
		id.kind = kind
	}
	return id, nil
}

// signedBy tells which authority signed leaf, by signature and not by name.
func (s Store) signedBy(leaf *x509.Certificate) (Authority, error) {
	for _, authority := range []Authority{Public, Internal} {
		complete, _, err := s.generations(authority)
		if err != nil {
			return "", err
		}
		for _, generation := range complete {
			p, err := s.load(authority, generation)
			if err != nil {
				return "", err
			}
			if leaf.CheckSignatureFrom(p.cert) == nil {
				return authority, nil
			}
		}
	}
	return "", fmt.Errorf("%w than those in %s; give --dir the folder that signed it, or issue a new certificate", ErrForeign, s.Dir)
}

func (s Store) write(leaf pair, certFile, keyFile string, put func(string, []byte, fs.FileMode) error) (Issued, error) {
	key, err := encodeKey(leaf.key)
	if err != nil {
		return Issued{}, err
	}
	if err := put(keyFile, key, modeKey); err != nil {
		return Issued{}, err
	}
	if err := put(certFile, encodeCertificates(leaf.cert), modeCert); err != nil {
		return Issued{}, err
	}
	return Issued{Cert: certFile, Key: keyFile, Info: describe(certFile, leaf.cert, s.now())}, nil
}

// Due reports whether the leaf in certFile has less than within left to live.
func (s Store) Due(certFile string, within time.Duration) (bool, error) {
	infos, err := s.Show(certFile)
	if err != nil {
		return false, err
	}
	return infos[0].NotAfter.Before(s.now().Add(within)), nil
}
