// Package tlsconf makes the TLS settings of every listener and dialler, from
// files that may change while the process runs.
//
// A Source holds one certificate, its key, and the authorities it trusts. Before
// a handshake, and before a request on a connection that is already open, it
// looks at the files (at most once a second) and takes up what changed. A new
// file that cannot be used changes nothing: the last good material stays, and
// one log line says what is wrong (MTL-05).
//
// A verified handshake is a statement about one moment. A connection that stays
// open is asked again before each request: CheckPeer on the server's side, the
// RoundTripper by itself on the client's. A peer whose certificate has ended, or
// whose authority left the bundle, is refused there without a new signature
// check, since only time and trust can have changed.
package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	wallclock "glovebox/system/platform/clock"
	"glovebox/system/platform/pki"
	"glovebox/system/platform/secret"
)

// lookEvery is how often the files are looked at, at most.
const lookEvery = time.Second

// Files names the PEM files of a Source.
type Files struct {
	// Cert and Key are this side's own pair. A client without one leaves both
	// empty.
	Cert, Key string
	// CA is the bundle of authorities that the other side is checked against.
	// A listener that asks for no certificate leaves it empty.
	CA string
}

// Source is key material that follows its files. Its methods are safe for
// concurrent use.
type Source struct {
	files Files
	log   *slog.Logger
	now   func() time.Time

	current atomic.Pointer[material]
	looked  atomic.Int64 // UnixNano of the last look

	mu        sync.Mutex // held while looking; guards complaint
	complaint string     // the fault last logged, empty when all is well
}

// material is one consistent state of the files.
type material struct {
	generation uint64
	pair       *tls.Certificate // nil without Cert
	trusted    *x509.CertPool   // nil without CA
	roots      map[string]bool  // the trusted certificates by their bytes
	marks      [3]mark
}

// mark tells one content of a file from the next without reading it.
type mark struct {
	device, inode    uint64
	size             int64
	modified, change int64
}

// Open loads the files and returns an error when they cannot be used, naming
// the file and the remedy. log receives one line for each change and fault.
func Open(files Files, log *slog.Logger) (*Source, error) {
	return open(files, log, wallclock.Now)
}

func open(files Files, log *slog.Logger, now func() time.Time) (*Source, error) {
	if (files.Cert == "") != (files.Key == "") {
		return nil, errors.New("a certificate and its key go together; name both files or none")
	}
	s := &Source{files: files, log: log, now: now}
	marks, err := files.marks()
	if err != nil {
		return nil, err
	}
	m, err := files.load(marks)
	if err != nil {
		return nil, err
	}
	m.generation = 1
	s.current.Store(m)
	s.looked.Store(now().UnixNano())
	return s, nil
}

// Reload looks at the files now and says what is wrong with them; the last good
// material stays in use then. It is for a reload by signal and for checks: in
// ordinary use the Source looks by itself.
func (s *Source) Reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.look()
}

// NotAfter is the end of this side's own certificate; zero without one.
func (s *Source) NotAfter() time.Time {
	if pair := s.material().pair; pair != nil {
		return pair.Leaf.NotAfter
	}
	return time.Time{}
}

// Leaf is this side's own certificate; nil without one.
func (s *Source) Leaf() *x509.Certificate {
	if pair := s.material().pair; pair != nil {
		return pair.Leaf
	}
	return nil
}

// material returns what is in force, after a look if one is due.
func (s *Source) material() *material {
	since := s.now().UnixNano() - s.looked.Load()
	// A clock set back makes since negative: look then, rather than never.
	if since < 0 || since >= int64(lookEvery) {
		if s.mu.TryLock() { // one looks, the others go on with what is there
			_ = s.look() // logged there
			s.mu.Unlock()
		}
	}
	return s.current.Load()
}

// look takes up changed files. The caller holds mu.
func (s *Source) look() error {
	s.looked.Store(s.now().UnixNano())
	old := s.current.Load()
	marks, err := s.files.marks()
	if err == nil && marks == old.marks && s.complaint == "" {
		return nil
	}
	var m *material
	if err == nil {
		m, err = s.files.load(marks)
	}
	if err != nil {
		if s.complaint != err.Error() {
			s.complaint = err.Error()
			s.log.Error("changed TLS files cannot be used, the last good ones stay in force", "error", err)
		}
		return err
	}
	s.complaint = ""
	m.generation = old.generation + 1
	s.current.Store(m)
	if m.pair != nil {
		s.log.Info("took up changed TLS files", "cert", s.files.Cert, "serial", fmt.Sprintf("%032x", m.pair.Leaf.SerialNumber), "not_after", m.pair.Leaf.NotAfter)
	} else {
		s.log.Info("took up changed TLS files", "ca", s.files.CA)
	}
	return nil
}

// marks looks at the files. It is called before they are read, so that a change
// in between is seen at the next look.
func (f Files) marks() (marks [3]mark, err error) {
	for i, file := range []string{f.Cert, f.Key, f.CA} {
		if file == "" {
			continue
		}
		info, err := os.Stat(file)
		if err != nil {
			return marks, fmt.Errorf("look at TLS file: %w", err)
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return marks, fmt.Errorf("look at TLS file %s: this system tells no inode", file)
		}
		marks[i] = mark{
			device: st.Dev, inode: st.Ino, size: st.Size,
			modified: st.Mtim.Nano(), change: st.Ctim.Nano(),
		}
	}
	return marks, nil
}

func (f Files) load(marks [3]mark) (*material, error) {
	m := &material{marks: marks}
	if f.Cert != "" {
		cert, err := os.ReadFile(f.Cert)
		if err != nil {
			return nil, fmt.Errorf("read TLS certificate: %w", err)
		}
		key, err := secret.ReadFile(f.Key)
		if err != nil {
			return nil, fmt.Errorf("read TLS key: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, []byte(key.Reveal()))
		if err != nil {
			return nil, fmt.Errorf("%s and %s are no usable pair: %w; issue or renew it with glovebox-server pki", f.Cert, f.Key, err)
		}
		m.pair = &pair
	}
	if f.CA != "" {
		text, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("read bundle of authorities: %w", err)
		}
		certs, err := pki.ParseCertificates(text)
		if err != nil {
			return nil, fmt.Errorf("read bundle of authorities %s: %w", f.CA, err)
		}
		m.trusted, m.roots = x509.NewCertPool(), make(map[string]bool, len(certs))
		for _, cert := range certs {
			if !cert.IsCA {
				return nil, fmt.Errorf("read bundle of authorities %s: %q is no authority; give the file that ends in -bundle.crt", f.CA, cert.Subject.CommonName)
			}
			m.trusted.AddCert(cert)
			m.roots[string(cert.Raw)] = true
		}
	}
	return m, nil
}
