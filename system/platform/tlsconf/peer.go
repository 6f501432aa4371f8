package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"glovebox/system/platform/pki"
)

// Why an open connection's peer is refused.
var (
	ErrNoPeer      = errors.New("the peer showed no verified certificate")
	ErrPeerExpired = errors.New("the peer's certificate has ended; it must connect again with a renewed one")
	ErrUntrusted   = errors.New("the peer's authority is no longer trusted; it must connect again with a renewed certificate")
)

// CheckPeer asks whether the peer of an open connection would still be let in:
// some chain that the handshake verified is within its time from leaf to root,
// and its root is still in the bundle. It costs no signature check. Call it for
// each request, and close the connection when it returns an error.
func (s *Source) CheckPeer(state *tls.ConnectionState) error {
	if state == nil || len(state.VerifiedChains) == 0 {
		return ErrNoPeer
	}
	m, now := s.material(), s.now()
	err := ErrUntrusted
	for _, chain := range state.VerifiedChains {
		if !m.roots[string(chain[len(chain)-1].Raw)] {
			continue
		}
		if withinTime(chain, now) {
			return nil
		}
		err = ErrPeerExpired
	}
	return err
}

func withinTime(chain []*x509.Certificate, now time.Time) bool {
	for _, cert := range chain {
		if now.Before(cert.NotBefore) || now.After(cert.NotAfter) {
			return false
		}
	}
	return true
}

// WorkerID returns who the peer is, from its verified certificate and nothing
// else (MTL-02): the certificate has exactly one SAN URI, of the form
// spiffe://glovebox/worker/ID or spiffe://glovebox/ingest/ID. ok is false for
// any other, and kind tells the two apart (MTL-06).
func WorkerID(state tls.ConnectionState) (id string, kind pki.Kind, ok bool) {
	if len(state.VerifiedChains) == 0 || len(state.VerifiedChains[0]) == 0 {
		return "", "", false
	}
	return LeafID(state.VerifiedChains[0][0])
}

// LeafID is WorkerID for a certificate at hand, for example this side's own.
func LeafID(leaf *x509.Certificate) (id string, kind pki.Kind, ok bool) {
	if leaf == nil || len(leaf.URIs) != 1 {
		return "", "", false
	}
	kind, id, ok = pki.ParseSAN(leaf.URIs[0].String())
	return id, kind, ok
}
