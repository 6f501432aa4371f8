package recovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"glovebox/system/platform/secret"
)

// tool returns the path of one of PostgreSQL's programs: from PATH, else the
// newest of Debian's versioned folders. A dump needs a pg_dump that is not older
// than the server.
func tool(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("no %s in PATH or in /usr/lib/postgresql; install the package postgresql-client", name)
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	return slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }), nil
}

// target splits a login into what may stand in a process's arguments and the
// password, which may not: it goes by the environment, that only the same user
// can read.
func target(login secret.Text) (address string, password string, err error) {
	u, err := url.Parse(login.Reveal())
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", "", errors.New("the database URL is not of the form postgres://ROLE:PASSWORD@HOST/NAME, which pg_dump and pg_restore need") // the cause repeats it
	}
	if u.User != nil {
		password, _ = u.User.Password()
		u.User = url.User(u.User.Username())
	}
	query := u.Query()
	if query.Has("password") {
		password = query.Get("password")
		query.Del("password")
		u.RawQuery = query.Encode()
	}
	return u.String(), password, nil
}

// environment returns the variables that PostgreSQL's programs may see: no secret of
// this program is among them.
func environment(password string) []string {
	env := []string{"LC_ALL=C.UTF-8", "PGAPPNAME=" + applicationName}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if name == "PATH" || name == "HOME" || strings.HasPrefix(name, "PG") && name != "PGPASSWORD" && name != "PGAPPNAME" {
			env = append(env, kv)
		}
	}
	if password != "" {
		env = append(env, "PGPASSWORD="+password)
	}
	return env
}

// run runs one of PostgreSQL's programs on the login's database. What it prints
// goes to out.
func run(ctx context.Context, login secret.Text, out io.Writer, name string, args ...string) error {
	address, password, err := target(login)
	if err != nil {
		return err
	}
	return start(ctx, password, out, name, append([]string{"--dbname=" + address, "--no-password"}, args...)...)
}

// runPlain runs one that needs no database.
func runPlain(ctx context.Context, out io.Writer, name string, args ...string) error {
	return start(ctx, "", out, name, args...)
}

// start runs a program to its end. Its complaints, which name roles and hosts but
// no password, go into the error.
func start(ctx context.Context, password string, out io.Writer, name string, args ...string) error {
	path, err := tool(name)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Stdout = environment(password), out
	complaints := &tail{}
	cmd.Stderr = complaints
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %s: %w: %s", name, err, strings.TrimSpace(string(complaints.text)))
	}
	return nil
}

// tail keeps the end of what is written.
type tail struct{ text []byte }

const maxTail = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - maxTail; over > 0 {
		t.text = t.text[over:]
	}
	return len(p), nil
}
