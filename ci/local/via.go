package local

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"

	"glovebox/system/platform/secret"
	"glovebox/system/testdb"
)

// via returns the address at which from calls to.
func (o Options) via(from, to, address string) (string, error) {
	if o.Via == nil {
		return address, nil
	}
	between, err := o.Via(from, to, address)
	if err != nil {
		return "", fmt.Errorf("stand between %s and %s: %w", from, to, err)
	}
	return between, nil
}

func (s *System) databaseOptions() testdb.Options {
	o := testdb.Options{Durable: true, SocketDir: s.path("db")}
	if s.opts.Via != nil {
		o.Listen, o.Port = "127.0.0.1", s.opts.portsOf(0).database
	}
	return o
}

// databaseSecret names the file of server i's login.
func (s *System) databaseSecret(i int) string {
	if s.opts.Via == nil {
		return "server.url"
	}
	return fmt.Sprintf("server-%d.url", i)
}

// writeRoutedURLs writes the logins of those processes that reach the database
// through what stands between; the sweeper's also where nothing does.
func (s *System) writeRoutedURLs(urls map[string]secret.Text) error {
	if s.opts.Via == nil {
		return s.writeSecret("sweeper.url", urls["glovebox_sweeper"].Reveal(), uids["sweeper"])
	}
	sweeper, err := s.routedURL("sweeper", urls["glovebox_sweeper"])
	errs := []error{err, s.writeSecret("sweeper.url", sweeper, uids["sweeper"])}
	for i := range s.opts.Servers {
		routed, err := s.routedURL(fmt.Sprintf("server-%d", i), urls["glovebox_server"])
		errs = append(errs, err, s.writeSecret(s.databaseSecret(i), routed, uids["server"]))
	}
	return errors.Join(errs...)
}

// routedURL is direct, over TCP through what stands between from and the database.
func (s *System) routedURL(from string, direct secret.Text) (string, error) {
	address, err := s.opts.via(from, "database", loopback(s.opts.portsOf(0).database))
	if err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("the address between %s and the database: %w", from, err)
	}
	u, err := url.Parse(direct.Reveal())
	if err != nil {
		return "", errors.New("the database's URL cannot be read") // the cause repeats it
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("the port between %s and the database: %w", from, err)
	}
	u.RawQuery = url.Values{"host": {host}, "port": {port}, "sslmode": {"disable"}}.Encode()
	return u.String(), nil
}

// placeServers decides what address each worker calls.
func (s *System) placeServers() error {
	for i := range s.opts.Workers {
		server := i % s.opts.Servers
		address, err := s.opts.via(fmt.Sprintf("worker-%d", i), fmt.Sprintf("server-%d", server), loopback(s.opts.portsOf(server).internal))
		if err != nil {
			return err
		}
		s.internalAddresses = append(s.internalAddresses, address)
	}
	return nil
}
