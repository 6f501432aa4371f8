package testdb

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"glovebox/system/platform/secret"
)

// Options of a cluster.
type Options struct {
	// Durable keeps fsync, synchronous commit and full page writes on. Without it
	// a power cut may lose everything: for tests that cut no power.
	Durable bool
	// SocketDir holds the unix socket; the cluster's folder when empty. Its path
	// must be short: a socket's whole path has at most 107 bytes.
	SocketDir string
	// Listen is listen_addresses; empty is no TCP at all.
	Listen string
	// Port is the TCP port and the socket's number; 5432 when zero.
	Port int
	// MaxConnections; 300 when zero.
	MaxConnections int
}

// Cluster is a private PostgreSQL made by local binaries. Every login, the
// administrator's too, is by password.
type Cluster struct {
	Dir  string // data/, log, admin-password
	opts Options
	bin  string
	cred *syscall.SysProcAttr
	pass secret.Text
}

const adminRole = "postgres"

// StartCluster makes a cluster in dir (which may hold one already) and starts it
// in the background, where it stays until Stop. When the caller is root the
// cluster runs as the user postgres, because initdb refuses root.
func StartCluster(ctx context.Context, dir string, opts Options) (*Cluster, error) {
	c, err := prepare(ctx, dir, opts)
	if err != nil {
		return nil, err
	}
	return c, c.Start(ctx)
}

// Start starts a stopped cluster and waits until it answers.
func (c *Cluster) Start(ctx context.Context) error {
	return c.run(ctx, "pg_ctl", "-D", c.data(), "-l", c.logFile(), "-w", "-t", "60", "-o", strings.Join(quoteAll(c.settings()), " "), "start")
}

// Stop ends the cluster: fast (sessions are ended, a checkpoint is written), or
// immediate, which is what a crash leaves behind.
func (c *Cluster) Stop(ctx context.Context, immediate bool) error {
	mode := "fast"
	if immediate {
		mode = "immediate"
	}
	return c.run(ctx, "pg_ctl", "-D", c.data(), "-w", "-t", "60", "-m", mode, "stop")
}

// PID returns the postmaster's process id.
func (c *Cluster) PID() (int, error) {
	content, err := os.ReadFile(filepath.Join(c.data(), "postmaster.pid"))
	if err != nil {
		return 0, fmt.Errorf("read the postmaster's pid file: %w", err)
	}
	line, _, _ := strings.Cut(string(content), "\n")
	return strconv.Atoi(line)
}

// URL returns the login of role to database over the unix socket.
func (c *Cluster) URL(role string, password secret.Text, database string) secret.Text {
	return socketURL(c.socketDir(), c.port(), role, password, database)
}

// AdminURL returns the administrator's login to database.
func (c *Cluster) AdminURL(database string) secret.Text { return c.URL(adminRole, c.pass, database) }

func socketURL(dir string, port int, role string, password secret.Text, database string) secret.Text {
	q := url.Values{"host": {dir}, "port": {strconv.Itoa(port)}}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(role, password.Reveal()), Path: "/" + database, RawQuery: q.Encode()}
	return secret.New(u.String())
}

func (c *Cluster) data() string    { return filepath.Join(c.Dir, "data") }
func (c *Cluster) logFile() string { return filepath.Join(c.Dir, "log") }

func (c *Cluster) socketDir() string {
	if c.opts.SocketDir != "" {
		return c.opts.SocketDir
	}
	return c.Dir
}

func (c *Cluster) port() int {
	if c.opts.Port != 0 {
		return c.opts.Port
	}
	return 5432
}

// settings are the command-line settings of postgres.
func (c *Cluster) settings() []string {
	connections := c.opts.MaxConnections
	if connections == 0 {
		connections = 300
	}
	set := []string{
		"-k", c.socketDir(), "-p", strconv.Itoa(c.port()), "-c", "listen_addresses=" + c.opts.Listen,
		"-c", "max_connections=" + strconv.Itoa(connections), "-c", "shared_buffers=64MB", "-c", "timezone=UTC",
		"-c", "password_encryption=scram-sha-256",
	}
	if !c.opts.Durable {
		set = append(set, "-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")
	}
	return set
}

func quoteAll(args []string) []string {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return quoted
}

// prepare finds the binaries, takes over dir and runs initdb where it is empty.
func prepare(ctx context.Context, dir string, opts Options) (*Cluster, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: dir, opts: opts, bin: bin}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the cluster's folder: %w", err)
	}
	if os.Geteuid() == 0 {
		uid, gid, err := postgresUser()
		if err != nil {
			return nil, err
		}
		c.cred = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
		if err := os.Chown(dir, int(uid), int(gid)); err != nil {
			return nil, fmt.Errorf("give the cluster's folder to postgres: %w", err)
		}
	}
	return c, c.init(ctx)
}

func (c *Cluster) init(ctx context.Context) error {
	passFile := filepath.Join(c.Dir, "admin-password")
	if _, err := os.Stat(filepath.Join(c.data(), "PG_VERSION")); err == nil {
		c.pass, err = secret.ReadFile(passFile)
		return err
	}
	c.pass = RandomPassword()
	if err := c.writePassword(passFile); err != nil {
		return fmt.Errorf("write the administrator's password: %w", err)
	}
	return c.run(ctx, "initdb", "-D", c.data(), "-U", adminRole, "-A", "scram-sha-256", "--pwfile", passFile,
		"-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions")
}

// writePassword makes the file and gives it to the cluster's user. The folder is
// that user's already, who could have put a link there: what it leads to must be
// neither written nor given away.
func (c *Cluster) writePassword(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(c.pass.Reveal() + "\n")
	if err == nil && c.cred != nil {
		err = f.Chown(int(c.cred.Credential.Uid), int(c.cred.Credential.Gid))
	}
	return errors.Join(err, f.Close())
}

// run runs one of PostgreSQL's programs. Its output goes to a file: a pipe would
// be inherited by the postmaster, and the wait for its end would never end.
func (c *Cluster) run(ctx context.Context, program string, args ...string) error {
	out, err := os.CreateTemp("", "gbpg-out-")
	if err != nil {
		return fmt.Errorf("make a file for the output of %s: %w", program, err)
	}
	defer os.Remove(out.Name())
	defer out.Close()
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, program), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = c.Dir, out, out, c.cred
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "TZ=UTC"}
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		log, _ := os.ReadFile(c.logFile())
		return fmt.Errorf("run %s: %w: %s %s", program, err, tail(text), tail(log))
	}
	return nil
}

func tail(b []byte) string { return strings.TrimSpace(string(b[max(0, len(b)-2000):])) }

// RandomPassword returns 192 random bits as text.
func RandomPassword() secret.Text {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // crypto/rand does not fail
	return secret.New(hex.EncodeToString(b))
}

var errNoBinaries = errors.New("no initdb in PATH or in /usr/lib/postgresql; install the package postgresql")

// binaries returns the folder of initdb, postgres and pg_ctl: from PATH, else the
// newest of Debian's versioned folders.
func binaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errNoBinaries
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
}

func postgresUser() (uid, gid uint32, err error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		return 0, 0, fmt.Errorf("initdb refuses root, and there is no user postgres to run it as: %w", err)
	}
	uid64, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid64, errGID := strconv.ParseUint(u.Gid, 10, 32)
	return uint32(uid64), uint32(gid64), errors.Join(errUID, errGID)
}
