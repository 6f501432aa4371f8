package harness

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"glovebox/attacks/oracle"
	"glovebox/ci/local"
)

// System is what a case attacks: a world of this machine, or a deployed target.
type System struct {
	World string
	// Endpoint tells where a local system's parts lie; it is the zero value for a
	// target, of which nothing is known but its address.
	Endpoint local.Endpoint
	// Processes lets a case stop and start parts of a system this run has started;
	// nil for a target and for an endpoint that was given.
	Processes *local.System

	target   bool
	idles    atomic.Bool // a target that has left a job pending
	publics  []string    // host:port, one a server
	privates []string    // the internal API's, likewise
	roots    *x509.CertPool
	inner    *x509.CertPool

	mu     sync.Mutex
	given  []*User
	lanes  map[int][]*User
	issued []string // tokens to revoke on a target
	rows   *oracle.Database
}

// Public returns the address of server i's public API; i counts round.
func (s *System) Public(i int) string { return s.publics[i%len(s.publics)] }

// Internal returns the address of server i's internal API.
func (s *System) Internal(i int) string { return s.privates[i%len(s.privates)] }

// Servers is how many servers there are.
func (s *System) Servers() int { return len(s.publics) }

// TLS returns a client configuration that trusts the public API's authority.
func (s *System) TLS() *tls.Config {
	return &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12}
}

// InternalTLS returns a client configuration that trusts the internal API's
// authority and shows the named worker's certificate; "" shows none.
func (s *System) InternalTLS(worker string) (*tls.Config, error) {
	c := &tls.Config{RootCAs: s.inner, MinVersion: tls.VersionTLS12}
	if worker == "" {
		return c, nil
	}
	for _, w := range s.Endpoint.Workers {
		if w.ID == worker {
			pair, err := tls.LoadX509KeyPair(w.Cert, w.Key)
			if err != nil {
				return nil, fmt.Errorf("load the certificate of %s: %w", worker, err)
			}
			c.Certificates = []tls.Certificate{pair}
			return c, nil
		}
	}
	return nil, fmt.Errorf("there is no worker %s", worker)
}

// Admin runs glovebox-server as the host's administrator does and returns what it
// prints. input, if any, is its standard input.
func (s *System) Admin(ctx context.Context, input string, args ...string) (string, error) {
	if s.Endpoint.BinDir == "" {
		return "", errors.New("a deployed system is not administered from here")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.Endpoint.BinDir, "glovebox-server"), append(args, "--config", s.Endpoint.AdminConfig)...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("glovebox-server %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return string(out), err
}

// fromEndpoint describes the local system of e.
func fromEndpoint(world string, e local.Endpoint) (*System, error) {
	s := &System{World: world, Endpoint: e, lanes: map[int][]*User{}}
	servers := e.Servers
	if len(servers) == 0 {
		servers = []local.ServerAddress{{PublicURL: e.PublicURL, InternalURL: e.InternalURL}}
	}
	for _, a := range servers {
		public, err := hostPort(a.PublicURL)
		if err != nil {
			return nil, err
		}
		internal, err := hostPort(a.InternalURL)
		if err != nil {
			return nil, err
		}
		s.publics, s.privates = append(s.publics, public), append(s.privates, internal)
	}
	var err error
	if s.roots, err = pool(e.CAFile); err != nil {
		return nil, err
	}
	if s.inner, err = pool(e.InternalCAFile); err != nil {
		return nil, err
	}
	for _, u := range e.Users {
		user, err := readUser(u.Login, u.PasswordFile)
		if err != nil {
			return nil, err
		}
		s.given = append(s.given, user)
	}
	return s, nil
}

// readEndpoint reads an endpoint.json.
func readEndpoint(path string) (local.Endpoint, error) {
	var e local.Endpoint
	content, err := os.ReadFile(path)
	if err != nil {
		return e, fmt.Errorf("read the endpoint of a running system; start one with make up: %w", err)
	}
	if err := json.Unmarshal(content, &e); err != nil {
		return e, fmt.Errorf("%s is not an endpoint.json: %w", path, err)
	}
	return e, nil
}

func hostPort(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" {
		return "", fmt.Errorf("%q is not an address of the form https://host:port", address)
	}
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), "443"), nil
	}
	return u.Host, nil
}

func pool(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil // the host's own authorities
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the authority's certificate: %w", err)
	}
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return p, nil
}

// close lets go of what was opened to look at the system.
func (s *System) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows != nil {
		s.rows.Close()
		s.rows = nil
	}
}
