package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
)

// suites are those of TLS 1.2 with forward secrecy and authenticated encryption;
// TLS 1.3 has no others and is chosen wherever the peer has it (API-06).
var suites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// Server returns the settings of a listener that asks for no certificate. The
// Source must have a pair. protocols are the ALPN names in order of preference,
// for example "h2", "http/1.1".
func (s *Source) Server(protocols ...string) *tls.Config {
	return s.listener(func(m *material) *tls.Config {
		return &tls.Config{
			MinVersion: tls.VersionTLS12, CipherSuites: suites, NextProtos: protocols, Time: s.now,
			Certificates: []tls.Certificate{*m.pair},
		}
	})
}

// MutualServer returns the settings of a listener that lets in only peers with a
// client certificate from the bundle (MTL-01). The Source must have a pair and a
// bundle. Sessions are not resumed: each connection shows its certificate.
//
// The handshake answers for the moment of the handshake only: call CheckPeer
// with each request.
func (s *Source) MutualServer(protocols ...string) *tls.Config {
	return s.listener(func(m *material) *tls.Config {
		return &tls.Config{
			MinVersion: tls.VersionTLS12, CipherSuites: suites, NextProtos: protocols, Time: s.now,
			Certificates:           []tls.Certificate{*m.pair},
			ClientAuth:             tls.RequireAndVerifyClientCert,
			ClientCAs:              m.trusted,
			SessionTicketsDisabled: true,
			VerifyConnection: func(state tls.ConnectionState) error {
				return requireUse(state, x509.ExtKeyUsageClientAuth)
			},
		}
	})
}

// listener returns settings that are chosen anew, by build, for each handshake.
func (s *Source) listener(build func(*material) *tls.Config) *tls.Config {
	outer := build(s.material())
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return build(s.material()), nil
	}
	return outer
}

// requireUse refuses a leaf that does not name the use itself: the standard
// library also takes one that names none, or any.
func requireUse(state tls.ConnectionState, use x509.ExtKeyUsage) error {
	if len(state.VerifiedChains) == 0 {
		return errors.New("the peer showed no verified certificate")
	}
	leaf := state.VerifiedChains[0][0]
	if leaf.IsCA || !slices.Contains(leaf.ExtKeyUsage, use) {
		return fmt.Errorf("the certificate of %q is not for this use", leaf.Subject.CommonName)
	}
	return nil
}
