package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/pelletier/go-toml/v2"
)

// tree is a configuration file before it is written: section -> key -> value.
type tree map[string]map[string]any

func (t tree) set(section, key string, value any) {
	if t[section] == nil {
		t[section] = make(map[string]any)
	}
	t[section][key] = value
}

// sections says which program's file each section of SET goes to. A key that a
// program does not know is refused by that program when it starts.
var sections = map[string][]string{
	"lease": {"server"}, "jobs": {"server"}, "retention": {"server"}, "auth": {"server"}, "http": {"server"},
	"security_notification": {"server"}, "sweeper": {"server"}, "admission": {"server"}, "database": {"server"},
	"limits": {"server", "launcher"}, "sandbox": {"launcher"}, "slots": {"launcher"}, "worker": {"worker"},
	"log": {"server", "launcher", "worker"},
}

// limitsOfLauncher are the keys of [limits] that the launcher has too.
var limitsOfLauncher = []string{"max_input_bytes", "max_result_bytes"}

func (t tree) apply(program string, overrides []override) error {
	for _, o := range overrides {
		programs, ok := sections[o.section]
		if !ok {
			return fmt.Errorf("SET: no program has a section [%s]", o.section)
		}
		if !slices.Contains(programs, program) {
			continue
		}
		if program == "launcher" && o.section == "limits" && !slices.Contains(limitsOfLauncher, o.key) {
			continue
		}
		t.set(o.section, o.key, o.value)
	}
	return nil
}

// write puts the file where every process can read it: secrets are named by
// path in it, never written in it.
func (t tree) write(path string) error {
	content, err := toml.Marshal(map[string]map[string]any(t))
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	return os.WriteFile(path, content, 0o644)
}

// serverConfig is the file of server i; sweeper and admin commands use server 0's.
func (s *System) serverConfig(i int) tree {
	p := s.opts.portsOf(i)
	t := tree{}
	t.set("listen", "public", loopback(p.public))
	t.set("listen", "internal", loopback(p.internal))
	t.set("metrics", "listen", loopback(p.server))
	t.set("tls", "public_cert", s.path("tls/server/server-main-public.crt"))
	t.set("tls", "public_key", s.path("tls/server/server-main-public.key"))
	t.set("tls", "internal_cert", s.path("tls/server/server-main-internal.crt"))
	t.set("tls", "internal_key", s.path("tls/server/server-main-internal.key"))
	t.set("tls", "internal_client_ca", s.path("tls/internal-bundle.crt"))
	t.set("database", "url_file", s.path("secrets/"+s.databaseSecret(i)))
	t.set("database", "operator_url_file", s.path("secrets/operator.url"))
	t.set("database", "backup_url_file", s.path("secrets/backup.url"))
	t.set("database", "migrator_url_file", s.path("secrets/migrator.url"))
	t.set("database", "sweeper_url_file", s.path("secrets/sweeper.url"))
	t.set("auth", "token_secret_file", s.path("secrets/token-secret"))
	t.set("storage", "root", s.path("storage"))
	t.set("limits", "min_free_bytes", "64MiB")
	t.set("log", "level", s.opts.LogLevel)
	return t
}

// launcherConfig is the file of worker i's launcher.
func (s *System) launcherConfig(i int) tree {
	t := tree{}
	t.set("listen", "socket", s.launcherSocket(i))
	t.set("listen", "peer_uid", uids["worker"])
	t.set("engine", "socket", s.engine.Socket)
	t.set("slots", "root", s.path(fmt.Sprintf("slots-%d", i)))
	t.set("slots", "uid_base", slotUIDBase+i*slotUIDsPerLauncher)
	t.set("sandbox", "image", s.opts.Image)
	t.set("selftest", "image", s.opts.Probe)
	t.set("metrics", "listen", loopback(s.opts.portsOf(i).launcher))
	t.set("log", "level", s.opts.LogLevel)
	return t
}

// Slots' user ids: each launcher of this host has a stretch of its own.
const (
	slotUIDBase         = 300000
	slotUIDsPerLauncher = 16 * 65536
)

// workerConfig is the file of worker i.
func (s *System) workerConfig(i int) tree {
	t := tree{}
	t.set("server", "url", "https://"+s.internalAddresses[i])
	t.set("tls", "cert_file", s.path(fmt.Sprintf("tls/worker/worker-%s.crt", workerID(i))))
	t.set("tls", "key_file", s.path(fmt.Sprintf("tls/worker/worker-%s.key", workerID(i))))
	t.set("tls", "ca_file", s.path("tls/internal-bundle.crt"))
	t.set("launcher", "socket", s.launcherSocket(i))
	t.set("metrics", "listen", loopback(s.opts.portsOf(i).worker))
	t.set("log", "level", s.opts.LogLevel)
	return t
}

func workerID(i int) string { return fmt.Sprintf("w%d", i+1) }

func (s *System) launcherSocket(i int) string { return s.path(fmt.Sprintf("run/launcher-%d.sock", i)) }
