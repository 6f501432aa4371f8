// Package config is the worker's configuration: its keys, their defaults, and
// what makes a value unusable (REL-03). It holds no identity: the worker's id is
// what its certificate says.
package config

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"glovebox/system/platform/config"
	"glovebox/system/platform/logging"
)

// Config holds every key. The zero value is not usable; start from Defaults.
type Config struct {
	Server   Server   `toml:"server"`
	TLS      TLS      `toml:"tls"`
	Launcher Launcher `toml:"launcher"`
	Worker   Worker   `toml:"worker"`
	Metrics  Metrics  `toml:"metrics"`
	Log      Log      `toml:"log"`
}

// Server names the internal API.
type Server struct {
	URL string `toml:"url"` // https://HOST:PORT
}

// TLS names this worker's pair and the authorities that sign servers. The files
// may change while the worker runs.
type TLS struct {
	CertFile string `toml:"cert_file"`
	KeyFile  string `toml:"key_file"`
	CAFile   string `toml:"ca_file"`
}

// Launcher names the launcher of this host.
type Launcher struct {
	Socket string `toml:"socket"`
}

// Worker says how much it takes on.
type Worker struct {
	Slots int `toml:"slots"` // attempts at once; no more than the launcher's sandbox.slots
	// Grace is how long running attempts may go on after SIGTERM.
	Grace config.Duration `toml:"grace"`
}

// Metrics names the metrics listener; it must be loopback.
type Metrics struct {
	Listen string `toml:"listen"`
}

// Log says how much is written to standard error.
type Log struct {
	Level string `toml:"level"`
}

// Defaults returns the defaults; the files and addresses have none.
func Defaults() *Config {
	return &Config{
		Worker:  Worker{Slots: 2, Grace: config.Duration(30 * time.Second)},
		Metrics: Metrics{Listen: "127.0.0.1:9465"},
		Log:     Log{Level: "info"},
	}
}

// Load reads the file at path, if any, and the environment over the defaults.
func Load(path string, environ []string) (*Config, error) {
	c := Defaults()
	if err := config.Load(path, environ, c); err != nil {
		return nil, err
	}
	return c, nil
}

// Validate implements config.Validator.
func (c *Config) Validate() config.Problems {
	var check config.Check
	u, err := url.Parse(c.Server.URL)
	check.Require(err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil && strings.Trim(u.Path, "/") == "" && u.RawQuery == "" && u.Fragment == "",
		"server.url", "is no https address of a server", "https://HOST:PORT of the server's listen.internal", "set it in the file or in "+config.EnvName("server.url"))
	check.NotEmpty("tls.cert_file", c.TLS.CertFile, "the path of this worker's certificate")
	check.NotEmpty("tls.key_file", c.TLS.KeyFile, "the path of this worker's key")
	check.NotEmpty("tls.ca_file", c.TLS.CAFile, "the path of internal-ca-bundle.crt")
	check.NotEmpty("launcher.socket", c.Launcher.Socket, "the path of the launcher's listen.socket")
	check.Range("worker.slots", int64(c.Worker.Slots), 1, 256, "attempts at once")
	check.Span("worker.grace", c.Worker.Grace, 0, 24*time.Hour)
	c.checkMetrics(&check)
	_, err = logging.ParseLevel(c.Log.Level)
	check.Require(err == nil, "log.level", "is not a level", "debug, info, warn or error", "choose one of these")
	return check.Problems()
}

func (c *Config) checkMetrics(check *config.Check) {
	host, port, err := net.SplitHostPort(c.Metrics.Listen)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		check.Require(false, "metrics.listen", "is not an address", "127.0.0.1:PORT or [::1]:PORT", "correct it")
		return
	}
	addr, err := netip.ParseAddr(host)
	check.Require(host == "localhost" || err == nil && addr.IsLoopback(), "metrics.listen", "is not loopback",
		"127.0.0.1:PORT or [::1]:PORT", "metrics carry no login; put an authenticating proxy before them")
}
