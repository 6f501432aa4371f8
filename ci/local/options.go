// Package local runs the whole system on this machine: private PostgreSQL and
// engine, servers, sweeper, launchers and workers, each under its own uid, with
// certificates, users and workers made for it. `make up`, the demo and the
// whole-system tests start the same thing.
//
// Everything lies in one state folder with a short path (a unix socket's path has
// at most 107 bytes) on a disk, traversable by the uids, and is removed by Down.
// Nothing else of the machine is touched.
package local

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// Options say what to start. The zero value is one server and two workers on the
// default ports.
type Options struct {
	Root     string   // the project's folder; binaries, images and out/run lie below it
	Name     string   // tells systems of one project apart; empty for `make up`
	Servers  int      // 1
	Workers  int      // 2, each with its launcher
	Image    string   // configuration value of sandbox.image; the project's core when empty
	Probe    string   // configuration value of selftest.image; the project's probe when empty
	Set      []string // key=value, over the defaults
	PortBase int      // 0: the documented ports
	Storage  string   // "fs"
	LogLevel string   // "info"
	// StorageBytes gives the storage a file system of its own and of that size, so
	// that a test can fill it or make it read-only; 0 is a folder beside the rest.
	StorageBytes int64
	// Programs names other files for programs of out/bin, by their base name.
	Programs map[string]string
	// Via lets a harness stand between two parts: it is told who calls whom
	// ("worker-0" calls "server-1", "server-0" and "sweeper" call "database") and the
	// real address, and returns the address to call. Nil is direct. With it the
	// database listens on loopback too, because what stands between speaks TCP.
	Via func(from, to, address string) (string, error)
	// Progress is told each step; nil is silence.
	Progress func(step string)
}

// uids of the processes. They need no entry in the password file; a host that has
// users with these numbers is one that nobody administers by hand.
var uids = map[string]int{
	"server": 61301, "worker": 61302, "sweeper": 61303, "launcher": 0, "engine": 0,
}

// storageGroup is shared by server and sweeper: the sweeper may list and delete,
// the files' mode keeps it from reading.
const storageGroup = 61300

// ports are what one system listens on.
type ports struct {
	public, internal, webhooks       int
	server, worker, ingest, launcher int // metrics
	database                         int // with Via only
}

// portsOf returns the ports of instance i (a further server or worker on the same
// host is shifted by ten).
func (o Options) portsOf(i int) ports {
	shift := 10 * i
	if o.PortBase == 0 {
		return ports{8443 + shift, 9443 + shift, 8444 + shift, 9464 + shift, 9465 + shift, 9466 + shift, 9467 + shift, 5432}
	}
	b := o.PortBase + shift
	return ports{b, b + 1, b + 2, b + 3, b + 4, b + 5, b + 6, b + 7}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// checkPorts refuses a start that would fail half-way.
func (o Options) checkPorts() error {
	for i := range max(o.Servers, o.Workers) {
		p := o.portsOf(i)
		wanted := map[string]int{}
		if i < o.Servers {
			wanted["listen.public"], wanted["listen.internal"], wanted["metrics.listen of the server"] = p.public, p.internal, p.server
		}
		if i < o.Workers {
			wanted["metrics.listen of the worker"], wanted["metrics.listen of the launcher"] = p.worker, p.launcher
		}
		if i == 0 && o.Via != nil {
			wanted["the database's port"] = p.database
		}
		for key, port := range wanted {
			l, err := net.Listen("tcp", loopback(port))
			if err != nil {
				return fmt.Errorf("%s: %s is taken; free it or shift all ports with make up PORT_BASE=N", key, loopback(port))
			}
			_ = l.Close()
		}
	}
	return nil
}

func (o Options) withDefaults() (Options, error) {
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return o, err
	}
	o.Root = root
	if o.Servers == 0 {
		o.Servers = 1
	}
	if o.Workers == 0 {
		o.Workers = 2
	}
	if o.LogLevel == "" {
		o.LogLevel = "info"
	}
	switch o.Storage {
	case "":
		o.Storage = "fs"
	case "fs":
	default:
		return o, fmt.Errorf("STORAGE=%s is not available; wanted: fs", o.Storage)
	}
	if o.PortBase != 0 && (o.PortBase < 1024 || o.PortBase > 65000) {
		return o, fmt.Errorf("PORT_BASE=%d is not usable; wanted: 1024 to 65000", o.PortBase)
	}
	if o.Servers < 1 || o.Servers > 9 || o.Workers < 1 || o.Workers > 9 {
		return o, fmt.Errorf("SERVERS=%d WORKERS=%d is not usable; wanted: 1 to 9 each", o.Servers, o.Workers)
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o, nil
}

// runFolder is where endpoint.json and the logs of this system lie.
func (o Options) runFolder() string {
	if o.Name == "" {
		return filepath.Join(o.Root, runDir)
	}
	return filepath.Join(o.Root, runDir+"-"+o.Name)
}

// stateFolder is short and the same for the same project and name.
func (o Options) stateFolder() string {
	sum := sha256.Sum256([]byte(o.Root + "\x00" + o.Name))
	return "/var/tmp/gb-" + hex.EncodeToString(sum[:4])
}

// override is one key=value of SET.
type override struct {
	section, key string
	value        any
}

func parseOverrides(set []string) ([]override, error) {
	var all []override
	for _, item := range set {
		for pair := range strings.FieldsSeq(item) {
			name, text, ok := strings.Cut(pair, "=")
			section, key, dotted := strings.Cut(name, ".")
			if !ok || !dotted || section == "" || key == "" {
				return nil, fmt.Errorf("SET: %q is not of the form section.key=value", pair)
			}
			all = append(all, override{section, key, typed(text)})
		}
	}
	return all, nil
}

func typed(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if b, err := strconv.ParseBool(text); err == nil {
		return b
	}
	return text
}
