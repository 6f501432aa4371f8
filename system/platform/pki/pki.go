// Package pki makes the keys and certificates of one installation, without any
// outside service: a public authority of local use for the server's public
// listener, and an internal authority for everything that speaks mTLS.
//
// # The folder
//
// A Store is one folder. An authority has generations, each a pair NAME-N.crt
// and NAME-N.key; the highest complete one signs. NAME-bundle.crt is what peers
// trust and the only file of an authority that is ever handed out. A rotation
// writes the bundle with the new generation before that generation can sign, so
// that no leaf exists which an up-to-date bundle does not verify, and a crash at
// any point leaves a folder that works.
//
// # What a certificate says
//
// P-256 keys, which every TLS stack in use takes. Authorities may sign leaves
// only (path length 0). A leaf names exactly one use: serverAuth, or clientAuth
// with one SAN URI spiffe://glovebox/{worker|ingest}/ID (MTL-01, MTL-02, MTL-06).
// Lives start five minutes early for skewed clocks and never outlast the signer.
package pki

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"

	"glovebox/system/protocol"
)

// Lives of certificates.
const (
	// DefaultLife is a leaf's life where none is asked for.
	DefaultLife = 30 * 24 * time.Hour
	// MaxLife bounds a leaf's life: a stolen key must lose its worth by itself.
	MaxLife = 366 * 24 * time.Hour
	// MinLife bounds it from below.
	MinLife = time.Minute
	// AuthorityLife is an authority's life.
	AuthorityLife = 5 * 365 * 24 * time.Hour
	// BackDate is how much earlier than now a life starts.
	BackDate = 5 * time.Minute
	// WarnBefore is the rest of a life under which Show warns.
	WarnBefore = 7 * 24 * time.Hour
)

// Kind is what a leaf is for.
type Kind string

// The kinds.
const (
	// Server is a listener's certificate, serverAuth only.
	Server Kind = "server"
	// Worker opens the worker's routes of the internal API, clientAuth only.
	Worker Kind = "worker"
	// Ingest opens the ingest routes of the internal API, clientAuth only.
	Ingest Kind = "ingest"
)

// Authority names one of the two authorities.
type Authority string

// The authorities.
const (
	Public   Authority = "public-ca"
	Internal Authority = "internal-ca"
)

// Errors a caller may tell apart.
var (
	// ErrExists: a file would have been overwritten.
	ErrExists = errors.New("exists already")
	// ErrNoAuthority: the folder has no such authority.
	ErrNoAuthority = errors.New("no such authority")
	// ErrForeign: the certificate was not signed by this folder's authorities.
	ErrForeign = errors.New("signed by another authority")
	// ErrRotating: a rotation has not been finished.
	ErrRotating = errors.New("a rotation is not finished")
	// ErrNotHeld: no key of the certificate to be renewed stands beside it.
	ErrNotHeld = errors.New("the certificate's own key is not beside it")
)

var idForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// ValidID reports whether id can name a server, worker or ingest: 1 to 63 of
// a-z, 0-9 and hyphen, not starting with a hyphen.
func ValidID(id string) bool { return idForm.MatchString(id) }

// SAN returns the URI that a client certificate of kind carries for id.
func SAN(kind Kind, id string) (string, error) {
	if !ValidID(id) {
		return "", fmt.Errorf("id %q is not usable; wanted 1 to 63 of a-z, 0-9 and hyphen, not starting with a hyphen", id)
	}
	switch kind {
	case Worker:
		return protocol.SANWorkerPrefix + id, nil
	case Ingest:
		return protocol.SANIngestPrefix + id, nil
	default:
		return "", fmt.Errorf("kind %q carries no identity; wanted %s or %s", kind, Worker, Ingest)
	}
}

// ParseSAN is the reverse of SAN; ok is false for anything SAN cannot return.
func ParseSAN(uri string) (kind Kind, id string, ok bool) {
	if rest, found := strings.CutPrefix(uri, protocol.SANWorkerPrefix); found && ValidID(rest) {
		return Worker, rest, true
	}
	if rest, found := strings.CutPrefix(uri, protocol.SANIngestPrefix); found && ValidID(rest) {
		return Ingest, rest, true
	}
	return "", "", false
}

// Request asks for one leaf.
type Request struct {
	Kind Kind
	// Signer matters for Server alone: which listener the certificate is for.
	// Client certificates always come from the internal authority.
	Signer Authority
	ID     string
	// DNS and IPs are a server's further names; localhost, 127.0.0.1 and ::1
	// are always in.
	DNS []string
	IPs []net.IP
	// Life is zero for DefaultLife, else MinLife to MaxLife.
	Life time.Duration
}

// identity is what renewal keeps.
type identity struct {
	signer Authority
	kind   Kind
	common string
	dns    []string
	ips    []net.IP
	uris   []*url.URL
	life   time.Duration
}

func (r Request) identity() (identity, error) {
	if !ValidID(r.ID) {
		return identity{}, fmt.Errorf("name %q is not usable; wanted 1 to 63 of a-z, 0-9 and hyphen, not starting with a hyphen", r.ID)
	}
	life := r.Life
	if life == 0 {
		life = DefaultLife
	}
	if life < MinLife || life > MaxLife {
		return identity{}, fmt.Errorf("life %s is out of range; wanted %s to %s", life, MinLife, MaxLife)
	}
	id := identity{kind: r.Kind, common: "glovebox " + string(r.Kind) + " " + r.ID, life: life}
	switch r.Kind {
	case Server:
		if r.Signer != Public && r.Signer != Internal {
			return identity{}, fmt.Errorf("listener authority %q is unknown; wanted %s or %s", r.Signer, Public, Internal)
		}
		id.signer = r.Signer
		id.dns = appendNew([]string{"localhost"}, r.DNS)
		id.ips = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
		for _, ip := range r.IPs {
			if !containsIP(id.ips, ip) {
				id.ips = append(id.ips, ip)
			}
		}
		for _, name := range id.dns {
			if !validDNS(name) {
				return identity{}, fmt.Errorf("DNS name %q is not usable; wanted a host name without wildcard", name)
			}
		}
	case Worker, Ingest:
		if len(r.DNS) > 0 || len(r.IPs) > 0 {
			return identity{}, fmt.Errorf("a %s certificate carries no host name; leave out --dns and --ip", r.Kind)
		}
		san, err := SAN(r.Kind, r.ID)
		if err != nil {
			return identity{}, err
		}
		uri, err := url.Parse(san)
		if err != nil {
			return identity{}, fmt.Errorf("form the identity: %w", err)
		}
		id.signer, id.uris = Internal, []*url.URL{uri}
	default:
		return identity{}, fmt.Errorf("kind %q is unknown; wanted %s, %s or %s", r.Kind, Server, Worker, Ingest)
	}
	return id, nil
}

// fileName is the name without suffix under which Issue writes the pair.
func (r Request) fileName() string {
	if r.Kind == Server && r.Signer == Internal {
		return "server-" + r.ID + "-internal"
	}
	if r.Kind == Server {
		return "server-" + r.ID + "-public"
	}
	return string(r.Kind) + "-" + r.ID
}

var dnsLabel = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

func validDNS(name string) bool {
	if len(name) == 0 || len(name) > 253 || net.ParseIP(name) != nil {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if !dnsLabel.MatchString(label) {
			return false
		}
	}
	return true
}

func appendNew(to, from []string) []string {
	for _, item := range from {
		found := false
		for _, have := range to {
			found = found || strings.EqualFold(have, item)
		}
		if !found {
			to = append(to, item)
		}
	}
	return to
}

func containsIP(ips []net.IP, ip net.IP) bool {
	for _, have := range ips {
		if have.Equal(ip) {
			return true
		}
	}
	return false
}
