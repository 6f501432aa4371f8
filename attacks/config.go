package attacks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pelletier/go-toml/v2"

	"glovebox/attacks/forge"
	"glovebox/attacks/harness"
)

// config attacks by a mistake in the configuration: what is wrong, missing or
// contradictory must keep a program from starting, and never open a door.
var config = harness.Family{
	Name: "config", About: "configuration that would fail open",
	Cases: join(configKeys, configFiles, configDoors),
}

// attempt is one start of a program with a configuration of the case's making.
type attempt struct {
	program string         // "server", "sweeper", "worker", "launcher"
	set     map[string]any // "section.key" → value; nil removes the key
	raw     string         // in place of the whole file
	env     []string
	file    string // in place of the path of the file
}

// came is what became of it.
type came struct {
	began  bool // it said that it serves
	exited bool
	code   int
	text   string // standard error and output
}

// subcommands are how each program begins its work.
var subcommands = map[string]struct {
	binary string
	args   []string
	began  string
}{
	"server": {"glovebox-server", []string{"serve"}, `"msg":"serving"`}, "sweeper": {"glovebox-server", []string{"sweep"}, `"level":"INFO"`},
	"worker": {"glovebox-worker", []string{"serve"}, `"level":"INFO"`}, "launcher": {"glovebox-launcher", []string{"serve"}, `"msg":"serving"`},
}

// configOf is the configuration of the running system's program, with ports of
// its own.
func configOf(e *harness.Env, program string) map[string]map[string]any {
	file := map[string]string{"server": e.Endpoint.Configs.Server, "sweeper": e.Endpoint.Configs.Server, "worker": e.Endpoint.Configs.Worker, "launcher": e.Endpoint.Configs.Launcher}[program]
	content, err := os.ReadFile(file)
	e.Must(err, "read the configuration of %s", program)
	tree := map[string]map[string]any{}
	e.Must(toml.Unmarshal(content, &tree), "decode it")
	for _, place := range []struct{ section, key string }{{"listen", "public"}, {"listen", "internal"}, {"metrics", "listen"}} {
		if _, ok := tree[place.section][place.key]; ok {
			tree[place.section][place.key] = "127.0.0.1:0"
		}
	}
	return tree
}

// start runs the program until it has begun, has ended, or ten seconds are over.
func start(e *harness.Env, a attempt) came {
	tree := configOf(e, a.program)
	for name, value := range a.set {
		section, key, _ := strings.Cut(name, ".")
		if tree[section] == nil {
			tree[section] = map[string]any{}
		}
		if value == nil {
			delete(tree[section], key)
			continue
		}
		tree[section][key] = value
	}
	content, err := toml.Marshal(tree)
	e.Must(err, "encode a configuration")
	if a.raw != "" {
		content = []byte(a.raw)
	}
	file := a.file
	if file == "" {
		file = filepath.Join(openFolder(e), "c.toml")
		e.Must(os.WriteFile(file, content, 0o644), "write a configuration")
	}
	how := subcommands[a.program]
	cmd := exec.CommandContext(e.Context(), filepath.Join(e.Endpoint.BinDir, how.binary), append(slices.Clone(how.args), "--config", file)...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, a.env...)
	if a.program != "launcher" {
		who := user(e, a.program)
		groups := make([]uint32, len(who.Groups))
		for i, g := range who.Groups {
			groups[i] = uint32(g)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(who.UID), Gid: uint32(who.GID), Groups: groups}}
	}
	pipe, err := cmd.StderrPipe()
	e.Must(err, "catch what it says")
	cmd.Stdout = io.Discard
	e.Must(cmd.Start(), "start %s", a.program)
	var c came
	heard := make(chan []byte, 64)
	go func() {
		defer close(heard)
		buffer := make([]byte, 64<<10)
		for {
			n, err := pipe.Read(buffer)
			if n > 0 {
				heard <- bytes.Clone(buffer[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	for open := true; open && !c.began; {
		select {
		case part, ok := <-heard:
			open = ok
			c.text += string(part)
			c.began = strings.Contains(c.text, how.began)
		case <-limit.C:
			open = false
		}
	}
	if c.began {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	} else if !limitOver(limit) {
		c.exited = true
	} else {
		_ = cmd.Process.Kill()
	}
	go func() {
		for range heard { // nothing is to block it while it ends
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(15 * time.Second):
		_ = cmd.Process.Kill()
		<-ended
	}
	c.code = cmd.ProcessState.ExitCode()
	return c
}

// limitOver reports whether the timer has fired; a fired one was received or waits.
func limitOver(t *time.Timer) bool { return !t.Stop() }

// openFolder is a folder that every user may enter.
func openFolder(e *harness.Env) string {
	dir, err := os.MkdirTemp("/var/tmp", "gb-config-")
	e.Must(errors.Join(err, os.Chmod(dir, 0o755)), "make a folder")
	e.Cleanup(func(context.Context) error { return os.RemoveAll(dir) })
	return dir
}

// starts is the control: with the configuration as it is, and ports of its own,
// the program begins.
func starts(e *harness.Env, program string) {
	c := start(e, attempt{program: program})
	e.Control(c.began, "with a good configuration %s does not begin: %d %.300s", program, c.code, c.text)
}

// refuses checks that the program ends before it has begun, names the key, and
// says nothing of a secret.
func refuses(e *harness.Env, what, key string, a attempt) {
	e.Input("%s: %s", a.program, what)
	c := start(e, a)
	e.Check(c.exited && !c.began && c.code != 0, "it began or hung: began %v, exited %v with %d: %.200s", c.began, c.exited, c.code, c.text)
	e.Check(key == "" || strings.Contains(c.text, key), "it does not name %s: %.300s", key, c.text)
	for name, secret := range systemSecrets(e) {
		e.Check(!strings.Contains(c.text, string(secret)), "it shows the %s", name)
	}
}

// refusal is a case of keys that are wrong, each in one way.
func refusal(name, title, attack string, requirements []string, threat string, program string, inputs []wrong) harness.Case {
	return harness.Case{
		ID: "config/" + name, Title: title, World: harness.Quiet,
		Requirements: requirements, Threats: []string{threat},
		Attack:  fmt.Sprintf("%s (%d starts of %s)", attack, len(inputs), program),
		Control: "with the configuration of the running system the program begins",
		Oracle:  "exit status, and what the program says: the key is named, and no secret of the system stands in it",
		Run: func(e *harness.Env) {
			if program != "launcher" { // its lock and its self-test are the running one's
				starts(e, program)
			} else {
				e.Control(len(e.Endpoint.PIDs.Launcher) > 0, "no launcher was started")
			}
			for _, in := range inputs {
				refuses(e, fmt.Sprintf("%s = %v", in.key, in.value), in.key, attempt{program: program, set: map[string]any{in.key: in.value}})
			}
		},
	}
}

// wrong is a key with a value that must be refused; nil is no value.
type wrong struct {
	key   string
	value any
}

// each gives one key several wrong values.
func each(key string, values ...any) []wrong {
	all := make([]wrong, len(values))
	for i, v := range values {
		all[i] = wrong{key, v}
	}
	return all
}

var configKeys = []harness.Case{
	refusal("server-missing", "a server serves without a key that it needs", "each key that has no default is left out", []string{"REL-03"}, "OPS-E1", "server",
		[]wrong{{"storage.root", nil}, {"tls.public_cert", nil}, {"tls.public_key", nil}, {"tls.internal_cert", nil}, {"tls.internal_key", nil}, {"tls.internal_client_ca", nil}, {"database.url_file", nil}, {"auth.token_secret_file", nil}}),
	refusal("server-addresses", "the workers' API or the figures are opened to the network by a mistake", "every interface, public addresses and addresses that are none", []string{"MTL-01", "REL-03"}, "OPS-E1", "server",
		slices.Concat(each("listen.internal", ":9443", "0.0.0.0:9443", "[::]:9443", "8.8.8.8:9443", "[2001:db8::1]:9443", "9443", "", "[::ffff:203.0.113.5]:9443"), each("metrics.listen", "0.0.0.0:9464", ":9464", "10.0.0.1:9464", "[::]:9464"), each("listen.public", "8443", ":x", "", "127.0.0.1:99999"))),
	refusal("server-limits", "a limit that is none, or an impossible one, is taken", "zero, negative, huge and non-numeric limits", []string{"REL-03", "UPL-01", "UPL-03"}, "OPS-E1", "server",
		slices.Concat(each("limits.max_input_bytes", 0, -1, "many"), each("limits.max_result_bytes", 0, "1 GB"), each("limits.uploads_per_user", 0, -1), each("limits.active_jobs_per_user", 0, "all"), each("limits.stored_bytes_per_user", 0, 1), each("limits.min_free_bytes", -1), each("http.max_connections", 0), each("http.max_concurrent_requests", 0), each("http.max_concurrent_streams", 0, 100000), each("http.max_header_bytes", 0, "1GiB"), each("http.stall_timeout", "0s", "-1s", "1h"), each("http.read_header_timeout", "0s"), each("http.min_bytes_per_second", 0))),
	refusal("server-times", "times that contradict each other are taken", "leases shorter than heartbeats need, no attempts, no retention, times without a unit", []string{"REL-03", "JOB-06"}, "OPS-E1", "server",
		slices.Concat(each("lease.duration", "2s", "0s", "-30s", "30", "1ms", "3.5s", "900h"), each("lease.heartbeat", "0s", "500ms", "10s", "1h"), each("jobs.max_attempts", 0, -1, 1000), each("jobs.timeout", "0s", "-1s"), each("retention.duration", "0s", "-1h", "week"), each("sweeper.orphan_age", "0s"), each("sweeper.staged_age", "1s"), each("auth.token_lifetime", "0s", "-1s"))),
	refusal("server-passwords", "passwords are kept weakly, or guessed without a limit", "argon2 below its least cost, no bound on hashing, on attempts or failures, no window", []string{"AUT-02", "AUT-05", "REL-03"}, "OPS-E1", "server",
		slices.Concat(each("auth.argon2_memory", "1MiB", 0, -1), each("auth.argon2_time", 0), each("auth.argon2_threads", 0), each("auth.hash_concurrency", 0, 100000), each("auth.login_attempts_per_address", 0, -1), each("auth.login_failures_per_login", 0, -1), each("auth.login_window", "0s", "-1s"))),
	refusal("server-proxies", "everybody's word on his own address is taken", "the whole internet as a proxy, names, prefixes that are none", []string{"AUT-05", "REL-03"}, "OPS-E1", "server",
		each("http.trusted_proxies", []string{"0.0.0.0/0"}, []string{"::/0"}, []string{"example.org"}, []string{"10.0.0.1", "0.0.0.0/0"}, []string{"10.0.0.0/99"}, "10.0.0.1", []string{"*"})),
	refusal("sweeper-keys", "what deletes runs with a key that is missing or wrong", "no database, no storage, no age, pages of nothing", []string{"REL-03", "STO-03"}, "OPS-E1", "sweeper",
		slices.Concat([]wrong{{"database.sweeper_url_file", nil}, {"storage.root", nil}}, each("sweeper.interval", "0s", "-1s"), each("sweeper.orphan_age", "0s", "-1h"), each("sweeper.page", 0, -1), each("retention.duration", "0s"))),
	refusal("worker-keys", "a worker works without TLS, or with a key that is missing or wrong", "plain HTTP, user names in the address, no certificates, no launcher, no slots, figures on the network", []string{"REL-03", "API-06", "ARC-01"}, "OPS-E1", "worker",
		slices.Concat(each("server.url", nil, "http://127.0.0.1:9443", "127.0.0.1:9443", "https://", "https://user:pass@127.0.0.1:9443", "https://127.0.0.1:9443/path", "ftp://127.0.0.1"), []wrong{{"tls.cert_file", nil}, {"tls.key_file", nil}, {"tls.ca_file", nil}, {"launcher.socket", nil}}, each("worker.slots", 0, -1, 100000), each("worker.grace", "-1s"), each("metrics.listen", "0.0.0.0:9465", ":9465"), each("log.level", "loud"))),
	refusal("launcher-keys", "a launcher runs an image by its name, without limits, or on the host's own users", "images by tag and by nothing, limits below and beyond sense, slots none, user ids of the host, an engine that is none", []string{"REL-03", "SBX-08", "SBX-04"}, "OPS-E1", "launcher",
		slices.Concat(each("sandbox.image", nil, "", "docker.io/library/alpine:latest", "oci:/x", "oci:relative@sha256:"+strings.Repeat("0", 64), "oci:/x@sha256:short"), each("selftest.image", nil, "alpine"), each("sandbox.slots", 0, -1, 100000), each("sandbox.memory_bytes", 0, 1024), each("sandbox.threads", 0, -1, 1000000), each("sandbox.cpu_percent", 0), each("sandbox.timeout", "0s", "-1s", "1000h"), each("slots.uid_base", 0, 1000, 2147483647), each("slots.root", nil, "/", "relative"), each("slots.backing", "disk"), each("listen.socket", nil, "/"+strings.Repeat("x", 200)), each("engine.socket", nil), each("metrics.listen", "0.0.0.0:9467"), each("limits.max_input_bytes", 0, -1))),
	{
		ID: "config/unknown-keys", Title: "a key that is misspelt is passed over, and its default holds", World: harness.Quiet,
		Requirements: []string{"REL-03"}, Threats: []string{"OPS-E1"},
		Attack:  "one unknown key or section in each program's file, values of a wrong type, files that are no TOML, keys twice",
		Control: "with the configuration of the running system each program begins",
		Oracle:  "exit status, and what the program says",
		Run: func(e *harness.Env) {
			for _, program := range []string{"server", "worker"} {
				starts(e, program)
			}
			for program, known := range map[string]string{"server": "lease", "sweeper": "lease", "worker": "worker", "launcher": "sandbox"} {
				refuses(e, "a misspelt key", known+".duratoin", attempt{program: program, set: map[string]any{known + ".duratoin": "30s"}})
				refuses(e, "an unknown section", "limitz", attempt{program: program, set: map[string]any{"limitz.max_input_bytes": 1}})
				refuses(e, "a key in other letters", "", attempt{program: program, set: map[string]any{"Log.LEVEL": "info"}})
				refuses(e, "a number for a text", "log", attempt{program: program, set: map[string]any{"log.level": 3}})
				refuses(e, "no TOML", "", attempt{program: program, raw: "{\"log\": {}}"})
				refuses(e, "a key twice", "", attempt{program: program, raw: "[log]\nlevel = \"info\"\nlevel = \"debug\"\n"})
				refuses(e, "NUL bytes", "", attempt{program: program, raw: "[log]\x00\nlevel = \"info\"\n"})
			}
		},
	},
	{
		ID: "config/environment", Title: "a value in the environment is wrong and passed over", World: harness.Quiet,
		Requirements: []string{"REL-03"}, Threats: []string{"OPS-E1"},
		Attack:  "overrides of the wrong type or beyond their bounds in the environment of each program",
		Control: "a good override begins",
		Oracle:  "exit status, and what the program says",
		Run: func(e *harness.Env) {
			c := start(e, attempt{program: "server", env: []string{"GLOVEBOX_LEASE_DURATION=9s"}})
			e.Control(c.began, "a good override: %.200s", c.text)
			for _, in := range []struct{ program, env, key string }{
				{"server", "GLOVEBOX_LEASE_DURATION=forever", "lease.duration"}, {"server", "GLOVEBOX_LEASE_DURATION=", "lease.duration"}, {"server", "GLOVEBOX_LIMITS_MAX_INPUT_BYTES=0x10", "limits.max_input_bytes"}, {"server", "GLOVEBOX_LISTEN_INTERNAL=0.0.0.0:0", "listen.internal"}, {"server", "GLOVEBOX_LISTEN_INTERNAL_WILDCARD=yes please", "listen.internal_wildcard"},
				{"server", "GLOVEBOX_AUTH_TOKEN_SECRET=short", "auth.token_secret"}, {"server", "GLOVEBOX_HTTP_TRUSTED_PROXIES=0.0.0.0/0", "http.trusted_proxies"}, {"server", "GLOVEBOX_JOBS_MAX_ATTEMPTS=1e3", "jobs.max_attempts"}, {"worker", "GLOVEBOX_SERVER_URL=http://127.0.0.1:1", "server.url"}, {"worker", "GLOVEBOX_WORKER_SLOTS=-1", "worker.slots"},
				{"launcher", "GLOVEBOX_SANDBOX_IMAGE=alpine:latest", "sandbox.image"}, {"launcher", "GLOVEBOX_SANDBOX_MEMORY_BYTES=0", "sandbox.memory_bytes"}, {"launcher", "GLOVEBOX_LISTEN_PEER_UID=-1", "listen.peer_uid"},
			} {
				refuses(e, in.env, in.key, attempt{program: in.program, env: []string{in.env}})
			}
		},
	},
}

// secretFile copies a secret into a file of the given mode that belongs to who.
func secretFile(e *harness.Env, content string, mode os.FileMode, owner int) string {
	path := filepath.Join(openFolder(e), "secret")
	e.Must(errors.Join(os.WriteFile(path, []byte(content+"\n"), mode), os.Chmod(path, mode), os.Chown(path, owner, owner)), "write a secret")
	return path
}

var configFiles = []harness.Case{
	{
		ID: "config/open-secret-files", Title: "a secret that everybody can read is used", World: harness.Quiet,
		Requirements: []string{"REL-03", "REL-04"}, Threats: []string{"OPS-I1", "OPS-E1"},
		Attack:  "each file of a secret or a key, of server, sweeper and worker, with rights for everybody: to read, to write, to run",
		Control: "the same file with rights for its owner alone is used",
		Oracle:  "exit status, and what the program says",
		Run: func(e *harness.Env) {
			for _, in := range []struct{ program, key, file string }{
				{"server", "database.url_file", "secrets/server.url"}, {"server", "auth.token_secret_file", "secrets/token-secret"}, {"server", "tls.public_key", "tls/server/server-main-public.key"}, {"server", "tls.internal_key", "tls/server/server-main-internal.key"},
				{"sweeper", "database.sweeper_url_file", "secrets/sweeper.url"}, {"worker", "tls.key_file", "tls/worker/worker-w1.key"},
			} {
				owner := e.Endpoint.UIDs[in.program]
				good := start(e, attempt{program: in.program, set: map[string]any{in.key: secretFile(e, readState(e, in.file), 0o600, owner)}})
				e.Control(good.began, "%s of its owner: %d %.300s", in.key, good.code, good.text)
				for _, mode := range []os.FileMode{0o644, 0o604, 0o602, 0o601, 0o666, 0o777} {
					refuses(e, fmt.Sprintf("%s of mode %04o", in.key, mode), "", attempt{program: in.program, set: map[string]any{in.key: secretFile(e, readState(e, in.file), mode, owner)}})
				}
			}
		},
	},
	{
		ID: "config/inline-secrets", Title: "a secret stands in the file that everybody reads", World: harness.Quiet,
		Requirements: []string{"REL-03", "REL-04"}, Threats: []string{"OPS-I1"},
		Attack:  "database logins, the HMAC secret and the notification's address in the TOML file itself, alone and beside the file that should hold them",
		Control: "the same secret from the environment is taken",
		Oracle:  "exit status, and what the program says: the key, and not the secret",
		Run: func(e *harness.Env) {
			secret := strings.Repeat("inline-secret-", 4)
			c := start(e, attempt{program: "server", set: map[string]any{"auth.token_secret_file": nil}, env: []string{"GLOVEBOX_AUTH_TOKEN_SECRET=" + secret}})
			e.Control(c.began, "from the environment: %.200s", c.text)
			for _, key := range []string{"auth.token_secret", "database.url", "database.operator_url", "database.migrator_url", "database.sweeper_url", "security_notification.url"} {
				for _, beside := range []bool{true, false} {
					set := map[string]any{key: secret}
					if !beside {
						set[key+"_file"] = nil
					}
					e.Input("%s, file beside it %v", key, beside)
					c := start(e, attempt{program: "server", set: set})
					e.Check(c.exited && !c.began && strings.Contains(c.text, key) && !strings.Contains(c.text, secret), "began %v: %.200s", c.began, c.text)
				}
			}
		},
	},
	{
		ID: "config/weak-secrets", Title: "tokens are made with a secret that can be guessed", World: harness.Quiet,
		Requirements: []string{"AUT-04", "REL-03"}, Threats: []string{"PUB-S1", "OPS-E1"},
		Attack:  "HMAC secrets that are empty, blank, short by one byte, a line break; a file that is missing, a folder, too large; both sources at once",
		Control: "a secret of the least length begins",
		Oracle:  "exit status, and what the program says",
		Run: func(e *harness.Env) {
			owner := e.Endpoint.UIDs["server"]
			give := func(text string) map[string]any {
				return map[string]any{"auth.token_secret_file": secretFile(e, text, 0o600, owner)}
			}
			c := start(e, attempt{program: "server", set: give(strings.Repeat("k", 32))})
			e.Control(c.began, "32 bytes: %.200s", c.text)
			for what, set := range map[string]map[string]any{
				"empty": give(""), "31 bytes": give(strings.Repeat("k", 31)), "a line break": give("\n"), "too large": give(strings.Repeat("k", 70_000)),
				"a folder": {"auth.token_secret_file": openFolder(e)}, "missing": {"auth.token_secret_file": "/nonexistent"}, "none": {"auth.token_secret_file": nil},
			} {
				refuses(e, what, "auth.token_secret", attempt{program: "server", set: set})
			}
			refuses(e, "both sources", "auth.token_secret", attempt{program: "server", env: []string{"GLOVEBOX_AUTH_TOKEN_SECRET=" + strings.Repeat("k", 40)}})
		},
	},
	{
		ID: "config/broken-tls", Title: "a listener opens without a usable certificate, or trusts what is no authority", World: harness.Quiet, Slow: true,
		Requirements: []string{"REL-03", "MTL-01", "API-06"}, Threats: []string{"OPS-E1", "INT-S1"},
		Attack:  "another's key, no PEM, an empty file, a folder, nothing there; for the authorities: a leaf, a key, both, an empty file",
		Control: "the system's own files begin",
		Oracle:  "exit status, and what the program says",
		Run: func(e *harness.Env) {
			starts(e, "server")
			owner := e.Endpoint.UIDs["server"]
			pair := forged(e, forge.Client(workerName+"x"))
			cert, key, err := forge.WriteFiles(pair, openFolder(e), "leaf")
			e.Must(err, "write a pair")
			e.Must(os.Chown(key, owner, owner), "give the key away")
			keyText, err := os.ReadFile(key)
			e.Must(err, "read the key")
			text := func(content string) string { return secretFile(e, content, 0o600, owner) }
			for _, name := range []string{"public", "internal"} {
				for what, set := range map[string]map[string]any{
					"another's key": {"tls." + name + "_key": key}, "another's certificate": {"tls." + name + "_cert": cert}, "no PEM": {"tls." + name + "_cert": text("x")}, "empty key": {"tls." + name + "_key": text("")},
					"a folder": {"tls." + name + "_cert": openFolder(e)}, "missing": {"tls." + name + "_key": "/nonexistent"}, "key as certificate": {"tls." + name + "_cert": key},
				} {
					refuses(e, name+": "+what, "tls."+name, attempt{program: "server", set: set})
				}
			}
			bundle, err := os.ReadFile(e.Endpoint.InternalCAFile)
			e.Must(err, "read the bundle")
			for what, file := range map[string]string{
				"a leaf": cert, "a key": key, "authorities and a key": text(string(bundle) + string(keyText)), "authorities and a leaf": text(string(bundle) + readFile(e, cert)), "no PEM": text("x"), "empty": text(""), "missing": "/nonexistent", "a folder": openFolder(e),
			} {
				refuses(e, "authorities: "+what, "tls.internal_client_ca", attempt{program: "server", set: map[string]any{"tls.internal_client_ca": file}})
			}
		},
	},
	{
		ID: "config/database-in-the-clear", Title: "the database is reached across a network without a verified certificate", World: harness.Quiet,
		Requirements: []string{"DBS-02", "REL-03"}, Threats: []string{"OPS-E1", "DBS-I1"},
		Attack:  "logins for hosts elsewhere without TLS, with TLS that may fall back, that verifies nothing or not the name; lists of hosts; for server and sweeper",
		Control: "the login over the unix socket begins",
		Oracle:  "exit status, and what the program says: never the password",
		Run: func(e *harness.Env) {
			starts(e, "server")
			for program, key := range map[string]string{"server": "database.url", "sweeper": "database.sweeper_url"} {
				owner := e.Endpoint.UIDs[program]
				for _, url := range []string{
					"postgres://u:hidden-password@db.example/g", "postgres://u:hidden-password@db.example/g?sslmode=disable", "postgres://u:hidden-password@db.example/g?sslmode=prefer", "postgres://u:hidden-password@db.example/g?sslmode=require", "postgres://u:hidden-password@db.example/g?sslmode=verify-ca", "postgres://u:hidden-password@10.0.0.5/g?sslmode=disable",
					"postgres://u:hidden-password@127.0.0.1,db.example/g?sslmode=disable", "postgres://u:hidden-password@127.0.0.1.example/g?sslmode=disable", "host=db.example user=u password=hidden-password sslmode=require", "mysql://u:hidden-password@127.0.0.1/g", "hidden-password",
				} {
					e.Input("%s: %s", program, strings.ReplaceAll(url, "hidden-password", "…"))
					c := start(e, attempt{program: program, set: map[string]any{key + "_file": secretFile(e, url, 0o600, owner)}})
					e.Check(c.exited && !c.began && strings.Contains(c.text, key) && !strings.Contains(c.text, "hidden-password"), "began %v: %.300s", c.began, c.text)
				}
			}
		},
	},
	{
		ID: "config/open-storage", Title: "a server keeps files where everybody can enter", World: harness.Quiet,
		Requirements: []string{"REL-03", "STO-01", "UPL-06"}, Threats: []string{"OPS-E1", "STO-I1", "STO-T1"},
		Attack:  "roots that all may enter, read or write; that are a file, a pipe, missing below nothing; whose folders are links",
		Control: "a closed root begins, and is laid out",
		Oracle:  "exit status; inventory of what the links lead to: empty",
		Run: func(e *harness.Env) {
			owner := e.Endpoint.UIDs["server"]
			root := func(mode os.FileMode) string {
				dir := filepath.Join(openFolder(e), "root")
				e.Must(errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, owner, storageGroup), os.Chmod(dir, mode)), "make a root")
				return dir
			}
			good := root(0o700)
			c := start(e, attempt{program: "server", set: map[string]any{"storage.root": good}})
			e.Control(c.began, "a closed root: %.300s", c.text)
			for _, mode := range []os.FileMode{0o777, 0o755, 0o701, 0o704, 0o702, 0o707} {
				refuses(e, fmt.Sprintf("mode %04o", mode), "storage.root", attempt{program: "server", set: map[string]any{"storage.root": root(mode)}})
			}
			file := secretFile(e, "x", 0o600, owner)
			refuses(e, "a file", "storage.root", attempt{program: "server", set: map[string]any{"storage.root": file}})
			refuses(e, "below nothing", "storage.root", attempt{program: "server", set: map[string]any{"storage.root": "/nonexistent/root"}})
			for _, name := range []string{"tmp", "objects", "objects/00"} {
				out, dir := root(0o700), root(0o700)
				if name == "objects/00" {
					objects := filepath.Join(dir, "objects")
					e.Must(errors.Join(os.Mkdir(objects, 0o700), os.Chown(objects, owner, owner)), "make a folder")
				}
				e.Must(errors.Join(os.Symlink(out, filepath.Join(dir, name)), os.Lchown(filepath.Join(dir, name), owner, owner)), "plant a link")
				refuses(e, name+" is a link", "storage", attempt{program: "server", set: map[string]any{"storage.root": dir}})
				entries, err := os.ReadDir(out)
				e.Check(err == nil && len(entries) == 0, "something was written where the link leads: %v", entries)
			}
		},
	},
}

// readFile reads a file whole.
func readFile(e *harness.Env, path string) string {
	content, err := os.ReadFile(path)
	e.Must(err, "read a file")
	return string(content)
}

var configDoors = []harness.Case{
	{
		ID: "config/check-wildcard", Title: "the check of a configuration finds nothing wrong with the workers' API on every interface", World: harness.Quiet,
		Requirements: []string{"MTL-01", "REL-03"}, Threats: []string{"OPS-E1"},
		Attack:  "glovebox-server check with the internal API on every interface and on public addresses",
		Control: "check of the same file with a loopback address does not complain of that key; with the explicit override it is let pass",
		Oracle:  "exit status and text of check",
		Run: func(e *harness.Env) {
			check := func(address string, override bool) (string, int) {
				tree := configOf(e, "server")
				tree["listen"]["internal"] = address
				if override {
					tree["listen"]["internal_wildcard"] = true
				}
				content, err := toml.Marshal(tree)
				e.Must(err, "encode a configuration")
				file := filepath.Join(openFolder(e), "c.toml")
				e.Must(os.WriteFile(file, content, 0o644), "write a configuration")
				cmd := exec.CommandContext(e.Context(), filepath.Join(e.Endpoint.BinDir, "glovebox-server"), "check", "--config", file)
				cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin"}
				out, _ := cmd.CombinedOutput() // a finding is a status, not a fault
				return string(out), cmd.ProcessState.ExitCode()
			}
			text, _ := check("127.0.0.1:19999", false)
			e.Control(!strings.Contains(text, "listen.internal"), "with a loopback address: %.300s", text)
			text, _ = check("0.0.0.0:19999", true)
			e.Control(!strings.Contains(text, "listen.internal: is"), "with the override: %.300s", text)
			for _, address := range []string{"0.0.0.0:19999", ":19999", "[::]:19999", "8.8.4.4:19999"} {
				text, code := check(address, false)
				e.Check(code != 0 && strings.Contains(text, "listen.internal"), "%s: %d %.300s", address, code, text)
			}
		},
	},
	{
		ID: "config/taken-ports", Title: "a server runs with one of its doors missing", World: harness.Quiet,
		Requirements: []string{"REL-03"}, Threats: []string{"OPS-E1"},
		Attack:  "each listening address is another process's",
		Control: "with free ports the server begins",
		Oracle:  "exit status; the key is named",
		Run: func(e *harness.Env) {
			starts(e, "server")
			for _, key := range []string{"listen.public", "listen.internal", "metrics.listen"} {
				refuses(e, key, key, attempt{program: "server", set: map[string]any{key: e.Public(0)}})
			}
		},
	},
	{
		ID: "config/no-sandbox", Title: "a worker takes jobs although no sandbox stands behind it", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"SBX-10", "REL-03"}, Threats: []string{"BOX-R1", "OPS-E1"},
		Attack:  "the worker's own program, with a good certificate, and a launcher's socket that is missing, a file, or one that nobody listens at",
		Control: "the worker reaches the server: the list has seen it, or it says so",
		Oracle:  "observer's row of a waiting job: pending, never claimed",
		Run: func(e *harness.Env) {
			drain(e)
			job := e.Submit(e.NewUser(), harness.Lua())
			db := observer(e)
			dir := openFolder(e)
			file := filepath.Join(dir, "file")
			e.Must(os.WriteFile(file, nil, 0o666), "make a file")
			for what, socket := range map[string]string{"missing": filepath.Join(dir, "none"), "a file": file} {
				e.Input("%s", what)
				c := start(e, attempt{program: "worker", set: map[string]any{"launcher.socket": socket}})
				e.Control(c.began || c.exited, "the worker did nothing")
				e.Await(2*time.Second, func() bool { return jobRow(e, db, job.ID).Status != "pending" })
				row := jobRow(e, db, job.ID)
				e.Check(row.Status == "pending" && row.FencingToken == 0, "the job is %+v", row)
			}
			e.Input("afterwards")
			w := ownWorker(e)
			a := w.Claim()
			e.Control(a != nil && a.ID == job.ID, "a worker's claim got %+v", a)
			w.Fail(a, "core_error", false)
		},
	},
	{
		ID: "config/hostile-file", Title: "a configuration that is no file hangs a program or takes its memory", World: harness.Quiet,
		Requirements: []string{"REL-03"}, Threats: []string{"OPS-E1", "OPS-D1"},
		Attack:  "a folder, nothing, a file that may not be read, a link to itself, the empty path",
		Control: "a plain file begins",
		Oracle:  "exit status within seconds",
		Run: func(e *harness.Env) {
			starts(e, "server")
			dir := openFolder(e)
			loop, closed := filepath.Join(dir, "loop"), filepath.Join(dir, "closed")
			e.Must(errors.Join(os.Symlink(loop, loop), os.WriteFile(closed, []byte("[log]\n"), 0o000)), "plant")
			for what, file := range map[string]string{"a folder": dir, "nothing": filepath.Join(dir, "none"), "closed": closed, "a link to itself": loop, "no text": "/dev/null/x"} {
				for _, program := range slices.Sorted(maps.Keys(subcommands)) {
					if program == "launcher" && what == "closed" {
						continue // root reads it
					}
					refuses(e, what, "", attempt{program: program, file: file})
				}
			}
		},
	},
}
