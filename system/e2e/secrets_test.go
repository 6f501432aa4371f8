package e2e_test

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"glovebox/threat-model/evidence"
)

// canary stands in a file's content, in its name and in a core's words to its
// owner; none of these may reach a log.
const canary = "canary-7f3a9c51"

// secretsTest looks for the secrets that this system really uses, in all that it
// wrote at debug level through every part before this one, and in the process
// table.
func secretsTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"REL-02", "REL-04", "UPL-05"},
		Tried:        "all of the edges at debug level, a canary in content, name and diagnostic, control bytes in a name, a wrong password, a token in a path",
		Oracle:       "every log file, PostgreSQL's and the engine's included, and cmdline and environ of every process, searched for the real secrets; control: a planted secret is found",
	})
	if _, err := os.Stat(filepath.Join(w.LogsDir, "server-0.log")); err != nil {
		t.Fatal(err)
	}
	wanted := realSecrets(t, w)
	t.Logf("%d secrets", len(wanted))
	provoke(t, w)

	state := filepath.Dir(w.BinDir)
	logs, err := filepath.Glob(filepath.Join(w.LogsDir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	logs = append(logs, filepath.Join(state, "pg", "log"), filepath.Join(state, "eng", "log"))
	if len(logs) < 9 {
		t.Errorf("only these logs were found: %v", logs)
	}
	for _, log := range logs {
		for _, hit := range search(t, log, wanted) {
			t.Errorf("%s holds %s", filepath.Base(log), hit)
		}
		if control := strayControl(t, log); control != "" {
			t.Errorf("%s holds raw control bytes: %s", filepath.Base(log), control)
		}
	}
	table, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(table) < 10 {
		t.Fatalf("the process table cannot be read: %d processes (%v)", len(table), err)
	}
	for _, dir := range table {
		for _, name := range []string{"cmdline", "environ"} {
			for _, hit := range search(t, filepath.Join(dir, name), wanted) {
				t.Errorf("%s of process %s holds %s", name, filepath.Base(dir), hit)
			}
		}
	}

	// Control: the search finds each secret where it is planted, as it stands and
	// in the forms in which it may be written.
	for name, secret := range wanted {
		planted := filepath.Join(t.TempDir(), "planted.log")
		if err := os.WriteFile(planted, []byte(`{"msg":"x","detail":"`+string(secret)+`"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if hits := search(t, planted, wanted); !slices.Contains(hits, name) {
			t.Errorf("control: a planted %s is not found", name)
		}
	}
}

// realSecrets collects what must not be seen, by name.
func realSecrets(t *testing.T, w *edgeWorld) map[string][]byte {
	t.Helper()
	wanted := map[string][]byte{"the canary": []byte(canary)}
	add := func(name string, secret []byte) {
		if secret = bytes.TrimSpace(secret); len(secret) < 8 {
			t.Fatalf("%s is too short to search for", name)
		}
		wanted[name] = secret
	}
	for _, p := range w.people {
		add("password of "+p.user.Login, mustRead(t, p.user.PasswordFile))
		add("token of "+p.user.Login, []byte(p.token()))
	}
	state := filepath.Dir(w.BinDir)
	add("HMAC secret", mustRead(t, filepath.Join(state, "secrets", "token-secret")))
	urls, err := filepath.Glob(filepath.Join(state, "secrets", "*.url"))
	if err != nil || len(urls) < 4 {
		t.Fatalf("database logins: %v (%v)", urls, err)
	}
	for _, file := range append(urls, "observer") {
		text := w.DatabaseURL
		if file != "observer" {
			text = strings.TrimSpace(string(mustRead(t, file)))
		}
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		password, _ := u.User.Password()
		add("database password in "+filepath.Base(file), []byte(password))
	}
	keys := 0
	for _, dir := range []string{"tls", "pki"} {
		err := filepath.WalkDir(filepath.Join(state, dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || filepath.Ext(path) != ".key" {
				return err
			}
			block, _ := pem.Decode(mustRead(t, path))
			if block == nil {
				return errors.New(path + " is no PEM")
			}
			keys++
			// The middle line of the text holds the private number; the first is the
			// algorithm, which all keys share.
			lines := strings.Split(string(mustRead(t, path)), "\n")
			add("private key "+filepath.Base(path), []byte(lines[2]))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if keys < 7 {
		t.Fatalf("only %d private keys were found", keys)
	}
	return wanted
}

// provoke does what may bring a secret or a file's bytes into a log.
func provoke(t *testing.T, w *edgeWorld) {
	t.Helper()
	p := w.people[0]
	c := p.caller(0)
	name := canary + "\x1b[2J\x07\u202e.lua"
	quoted := strings.NewReplacer("\"", "%22", "\r", "", "\n", "").Replace(name)
	id := c.created(quoted, []byte("#!act exit 3\n"+`{"line":1,"column":2,"message":"near `+canary+`"}`))
	if _, errs, exit := p.run("wait", id); exit != 4 || !strings.Contains(errs, canary) {
		t.Errorf("control: the owner is told %q, exit %d", errs, exit)
	}
	id = c.created(quoted, []byte("content with "+canary))
	w.ended(t, id, "content with "+canary)
	c.created(quoted, []byte("#!act print 100000\n"+canary))
	// A token and a password where they do not belong.
	c.do("GET", "/api/v1/jobs/"+c.token, nil)
	c.do("GET", "/api/v1/auth/me?token="+c.token, nil)
	c.do("GET", "/api/v1/auth/me", nil, "Authorization", "Basic "+c.token)
	password := strings.TrimSpace(string(mustRead(t, p.user.PasswordFile)))
	for _, body := range []string{
		fmt.Sprintf(`{"login":"%s","password":"%s"}`, password, password), // in the wrong field
		fmt.Sprintf(`{"login":"alice","password":"%s"`, password),         // no JSON
		fmt.Sprintf(`{"login":"alice","secret":"%s"}`, password),          // an unknown key
	} {
		if a := c.do("POST", "/api/v1/auth/token", strings.NewReader(body), "Content-Type", "application/json"); a.status < 400 || bytes.Contains(a.body, []byte(password)) {
			t.Errorf("a wrong login got %d %s", a.status, a.body)
		}
	}
}

// search reads a file in pieces and names the secrets that stand in it. A file
// that has gone, or a process that may not be looked at, holds none.
func search(t *testing.T, file string, wanted map[string][]byte) (hits []string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	const overlap = 256 // longer than any secret
	buffer := make([]byte, 0, 1<<20)
	for {
		n, err := f.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		for name, secret := range wanted {
			if bytes.Contains(buffer, secret) && !slices.Contains(hits, name) {
				hits = append(hits, name)
			}
		}
		if n == 0 || err != nil {
			if err != nil && !errors.Is(err, io.EOF) && !strings.HasPrefix(file, "/proc/") {
				t.Errorf("read %s: %v", file, err)
			}
			return hits
		}
		if len(buffer) == cap(buffer) {
			buffer = append(buffer[:0], buffer[len(buffer)-overlap:]...)
		}
	}
}

// strayControl returns the first control byte of a log with its surroundings.
func strayControl(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	at := bytes.IndexFunc(content, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r >= 0x202a && r <= 0x202e })
	if at < 0 {
		return ""
	}
	return fmt.Sprintf("%q", content[max(0, at-60):min(len(content), at+20)])
}
