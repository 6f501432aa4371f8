package attacks

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"glovebox/attacks/harness"
	"glovebox/attacks/oracle"
)

// secrets looks for the secrets that this very system uses, and for the form of
// secrets, where none may be.
var secrets = harness.Family{
	Name: "secrets", About: "secrets where none may be",
	Cases: []harness.Case{
		{
			ID: "secrets/arguments", Title: "a secret stands in a process's arguments or environment", Lock: "secrets",
			Requirements: []string{"REL-04"}, Threats: []string{"OPS-I1"},
			Attack:  "arguments and environment of every process of the host, while jobs run and users are added",
			Control: "a process that was started with one of the secrets in each is found",
			Oracle:  "process table of the kernel",
			Run: func(e *harness.Env) {
				needles := systemSecrets(e)
				u := e.NewUser()
				needles["a new user's password"], needles["its token"] = []byte(u.Password), []byte(e.Token(u))
				planted := exec.CommandContext(e.Context(), "/bin/sh", "-c", "read x", "planted", u.Password)
				planted.Env = []string{"PLANTED=" + string(needles["HMAC secret"])}
				hold, err := planted.StdinPipe()
				e.Must(err, "hold a process")
				e.Must(planted.Start(), "start a process")
				defer func() { _ = hold.Close(); _ = planted.Wait() }()
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = e.Admin(e.Context(), u.Password+"\n", "user", "passwd", u.Login, "--password-stdin")
				}()
				found := map[string]bool{}
				seen := 0
				for looking := true; looking; {
					select {
					case <-done:
						looking = false
					default:
					}
					all, err := oracle.Processes()
					e.Must(err, "read the process table")
					seen = max(seen, len(all))
					for _, p := range all {
						text := strings.Join(p.Argv, "\x00") + "\x00\x00" + strings.Join(p.Environ, "\x00")
						for name, secret := range needles {
							if !strings.Contains(text, string(secret)) {
								continue
							}
							if p.PID == planted.Process.Pid {
								found[name] = true
								continue
							}
							e.Check(false, "%s (process %d) shows the %s", p.Name, p.PID, name)
						}
					}
				}
				e.Control(found["a new user's password"] && found["HMAC secret"], "the planted process is not found: %v of %d processes", found, seen)
				e.Check(seen > 10, "only %d processes were seen", seen)
			},
		},
		{
			ID: "secrets/environment", Title: "a process is started with more of its caller's environment than it needs",
			Requirements: []string{"REL-04", "ARC-02"}, Threats: []string{"OPS-I1", "OPS-E2"},
			Attack:  "the environment of every process of the system",
			Control: "the path is seen in it",
			Oracle:  "process table of the kernel",
			Run: func(e *harness.Env) {
				pids := e.Endpoint.PIDs
				for _, pid := range slices.Concat(pids.Server, pids.Worker, pids.Launcher, []int{pids.Sweeper}) {
					p, err := oracle.ReadProcess(pid)
					e.Must(err, "look at a process")
					e.Control(len(p.Environ) > 0 && strings.HasPrefix(p.Environ[0], "PATH="), "%s has %v", p.Name, p.Environ)
					e.Check(len(p.Environ) == 1, "%s has %d variables", p.Name, len(p.Environ))
				}
			},
		},
		{
			ID: "secrets/configuration", Title: "a secret stands in a configuration, a certificate or a program that everybody can read",
			Requirements: []string{"REL-04", "REL-03"}, Threats: []string{"OPS-I1"},
			Attack:  "every file of the state folder that others may read, searched for the system's secrets and for private keys",
			Control: "the search finds them in the files that hold them",
			Oracle:  "search of the files' bytes",
			Run: func(e *harness.Env) {
				needles := systemSecrets(e)
				needles["a private key"] = []byte("PRIVATE KEY-----\nM")
				state := filepath.Dir(e.Endpoint.BinDir)
				open, closed := 0, 0
				for _, dir := range []string{"etc", "tls", "bin", "secrets", "users", "pki"} {
					all, err := oracle.Disk(filepath.Join(state, dir), false)
					e.Must(err, "look at %s", dir)
					for _, path := range all.Below("") {
						hits := search(e, filepath.Join(state, dir, path), needles)
						if all[path].Mode.Perm()&0o044 != 0 {
							open++
							if dir == "bin" {
								hits = slices.DeleteFunc(hits, func(h string) bool { return h == "a private key" }) // the word itself, which programs know
							}
							e.Check(len(hits) == 0, "%s/%s holds %v", dir, path, hits)
						} else if len(hits) > 0 {
							closed++
						}
					}
				}
				e.Control(open > 10 && closed > 8, "%d open files, secrets in %d closed ones", open, closed)
			},
		},
		{
			ID: "secrets/repository", Title: "a secret is in the repository",
			Requirements: []string{"REL-04"}, Threats: []string{"OPS-I1"},
			Attack:  "every file that git keeps, and those that lie beside them uncommitted, searched for the system's secrets and for the forms of keys, tokens and passwords",
			Control: "a planted text of each form is found",
			Oracle:  "search of the files' bytes",
			Run: func(e *harness.Env) {
				root := projectRoot(e)
				plantedForms(e)
				out, err := exec.CommandContext(e.Context(), "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
				e.Must(err, "list the repository's files")
				needles := systemSecrets(e)
				n := 0
				for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
					content, err := os.ReadFile(filepath.Join(root, name))
					if err != nil {
						continue // deleted, or a link to nowhere
					}
					n++
					for what, secret := range needles {
						e.Check(!bytes.Contains(content, secret), "%s holds the %s", name, what)
					}
					if form := secretForm(content); form != "" {
						e.Check(false, "%s holds %s", name, form)
					}
				}
				e.Control(n > 300, "only %d files were read", n)
				e.Check(true, "read")
			},
		},
		{
			ID: "secrets/history", Title: "a secret is in what git remembers", Slow: true,
			Requirements: []string{"REL-04"}, Threats: []string{"OPS-I1"},
			Attack:  "every object of every branch, searched for the forms of keys, tokens and passwords and for the system's secrets",
			Control: "a planted text of each form is found; the objects are as many as git counts",
			Oracle:  "search of the objects' bytes",
			Run: func(e *harness.Env) {
				plantedForms(e)
				needles := systemSecrets(e)
				blobs := 0
				e.Must(eachBlob(e.Context(), projectRoot(e), func(id string, content []byte) {
					blobs++
					for what, secret := range needles {
						e.Check(!bytes.Contains(content, secret), "object %s holds the %s", id, what)
					}
					if form := secretForm(content); form != "" {
						e.Check(false, "object %s holds %s", id, form)
					}
				}), "read the objects")
				e.Control(blobs > 500, "only %d objects were read", blobs)
				e.Check(true, "read")
			},
		},
		{
			ID: "secrets/images", Title: "a secret, a shell or a package manager is in the core's image",
			Requirements: []string{"REL-04", "COR-05"}, Threats: []string{"OPS-I1", "BOX-E1"},
			Attack:  "every layer and every configuration of the images that were built, file by file",
			Control: "the core itself is found in its layer",
			Oracle:  "names, modes and bytes of the files in the layers; environment and command in the configuration",
			Run: func(e *harness.Env) {
				layout := filepath.Join(projectRoot(e), "out/images")
				needles := systemSecrets(e)
				core := false
				layers := 0
				e.Must(filepath.WalkDir(layout, func(path string, d fs.DirEntry, err error) error {
					if err != nil || d.IsDir() || !strings.Contains(path, "/blobs/sha256/") {
						return err
					}
					content, err := os.ReadFile(path)
					if err != nil {
						return err
					}
					var image struct {
						Config struct {
							Env []string `json:"Env"`
						} `json:"config"`
					}
					if json.Unmarshal(content, &image) == nil {
						for _, v := range image.Config.Env {
							e.Check(strings.HasPrefix(v, "PATH="), "an image has the variable %s", v)
						}
					}
					return eachFile(content, func(header *tar.Header, content []byte) {
						layers++
						name := "/" + strings.TrimLeft(strings.TrimPrefix(header.Name, "."), "/")
						core = core || name == "/core"
						e.Check(!slices.Contains([]string{"sh", "bash", "dash", "busybox", "apt", "apk", "dpkg", "curl", "wget", "python3", "perl"}, filepath.Base(name)), "an image holds %s", name)
						e.Check(header.Mode&0o6000 == 0, "%s is %o", name, header.Mode)
						for what, secret := range needles {
							e.Check(!bytes.Contains(content, secret), "%s holds the %s", name, what)
						}
						e.Check(!bytes.Contains(content, []byte("PRIVATE KEY-----\nM")), "%s holds a private key", name)
					})
				}), "read the images")
				e.Control(core && layers > 0, "the core is not found among %d files", layers)
			},
		},
		{
			ID: "secrets/client-files", Title: "the client leaves a user's token where others read it",
			Requirements: []string{"REL-04", "ARC-02"}, Threats: []string{"OPS-I1", "PUB-S1"},
			Attack:  "log in with the client under an open umask, then look at all that it wrote and at its arguments",
			Control: "the token is in one of the files",
			Oracle:  "inventory of the client's home: modes and bytes",
			Run: func(e *harness.Env) {
				u := e.NewUser()
				home := openFolder(e)
				script := fmt.Sprintf("umask 000; printf '%%s\\n' '%s' | %s --url https://%s --ca-file %s login %s --password-stdin", u.Password, filepath.Join(e.Endpoint.BinDir, "glovebox"), e.Public(0), e.Endpoint.CAFile, u.Login)
				cmd := exec.CommandContext(e.Context(), "/bin/sh", "-c", script)
				cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + home, "XDG_CONFIG_HOME=" + home + "/config", "XDG_STATE_HOME=" + home + "/state", "XDG_DATA_HOME=" + home + "/data"}
				out, err := cmd.CombinedOutput()
				e.Must(err, "log in with the client: %s", out)
				all, err := oracle.Disk(home, false)
				e.Must(err, "look at the client's home")
				tokens := 0
				for _, path := range all.Below("") {
					content := readFile(e, filepath.Join(home, path))
					e.Check(!strings.Contains(content, u.Password), "%s holds the password", path)
					if len(strings.TrimSpace(content)) >= 40 {
						tokens++
						e.Check(all[path].Mode.Perm()&0o077 == 0, "%s: %s", path, all[path])
					}
				}
				e.Control(tokens > 0, "no token was kept: %v", all)
				e.Check(!strings.Contains(string(out), u.Password), "the client shows the password")
			},
		},
	},
}

// projectRoot is the folder of the repository, two levels above the logs.
func projectRoot(e *harness.Env) string {
	for dir := e.Endpoint.LogsDir; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
	}
	e.Fail("the logs do not lie in a repository")
	return ""
}

// systemSecrets are those that the running system really uses, by name.
func systemSecrets(e *harness.Env) map[string][]byte {
	found := map[string][]byte{"HMAC secret": []byte(readState(e, "secrets/token-secret")), "database superuser's password": []byte(readState(e, "pg/admin-password"))}
	for _, role := range []string{"server", "sweeper", "operator", "migrator", "observer"} {
		u, err := url.Parse(roleURL(e, role))
		e.Must(err, "read a login")
		password, _ := u.User.Password()
		found["database password of "+role] = []byte(password)
	}
	for _, u := range e.Endpoint.Users {
		found["password of "+u.Login] = []byte(strings.TrimSpace(readFile(e, u.PasswordFile)))
	}
	for _, dir := range []string{"pki", "tls/server", "tls/worker", "tls/spare"} {
		keys, err := filepath.Glob(statePath(e, dir+"/*.key"))
		e.Must(err, "list the keys")
		for _, key := range keys {
			// The second line of the text holds the private number; the first is the
			// algorithm, which all keys share.
			if lines := strings.Split(readFile(e, key), "\n"); len(lines) > 2 {
				found["private key "+filepath.Base(key)] = []byte(lines[2])
			}
		}
	}
	return found
}

// forms are how secrets look. A text that only speaks of them has no such form.
var forms = map[string]*regexp.Regexp{
	"a private key":       regexp.MustCompile(`-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\r?\n[A-Za-z0-9+/=\r\n]{60,}`),
	"an OpenSSH key":      regexp.MustCompile(`-----BEGIN OPENSSH PRIVATE KEY-----\r?\nb3Bl`),
	"a cloud key":         regexp.MustCompile(`\bAKIA[0-9A-Z]{16}\b`),
	"a GitHub token":      regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{36}\b`),
	"a GitLab token":      regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{20}\b`),
	"a Slack token":       regexp.MustCompile(`\bxox[baprs]-[0-9]{10,}-[A-Za-z0-9-]{20,}`),
	"a signed web token":  regexp.MustCompile(`\beyJhbGciOi[A-Za-z0-9_-]{20,}\.eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{40,}`),
	"a login with a host": regexp.MustCompile(`postgres(?:ql)?://[a-z_]+:[0-9a-f]{24,}@`),
}

// secretForm names the first form that stands in content.
func secretForm(content []byte) string {
	for name, form := range forms {
		if form.Match(content) {
			return name
		}
	}
	return ""
}

// plantedForms shows that each form is found. The texts are put together here, so
// that this file holds none.
func plantedForms(e *harness.Env) {
	x := strings.Repeat("x1", 40)
	for name, text := range map[string]string{
		"a private key": "-----BEGIN " + "PRIVATE KEY-----\n" + strings.Repeat("A", 64) + "\n", "an OpenSSH key": "-----BEGIN OPENSSH " + "PRIVATE KEY-----\nb3Bl", "a cloud key": "AKI" + "A" + strings.Repeat("7", 16),
		"a GitHub token": "gh" + "p_" + x[:36], "a GitLab token": "glp" + "at-" + x[:20], "a Slack token": "xo" + "xb-1234567890-" + x[:24], "a signed web token": "eyJhbGc" + "iOi" + x[:24] + ".ey" + "J" + x[:24] + "." + x[:44], "a login with a host": "postgres" + "://role:" + strings.Repeat("ab", 16) + "@",
	} {
		e.Control(forms[name].MatchString("before "+text), "a planted text of the form %s is not found", name)
	}
}

// eachBlob gives every file that git's objects hold to see, one after another.
func eachBlob(ctx context.Context, root string, see func(id string, content []byte)) error {
	cmd := exec.CommandContext(ctx, "git", "-C", root, "cat-file", "--batch-all-objects", "--batch", "--buffer")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = readBatch(pipe, see)
	return errors.Join(err, cmd.Wait())
}

// readBatch reads "ID TYPE SIZE\n CONTENT \n" again and again.
func readBatch(r io.Reader, see func(id string, content []byte)) error {
	buffered := newLineReader(r)
	for {
		head, err := buffered.line()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var id, kind string
		var size int
		if _, err := fmt.Sscanf(head, "%s %s %d", &id, &kind, &size); err != nil {
			return fmt.Errorf("read git's answer %q: %w", head, err)
		}
		content, err := buffered.take(size + 1)
		if err != nil {
			return err
		}
		if kind == "blob" || kind == "commit" || kind == "tag" {
			see(id, content[:size])
		}
	}
}

// eachFile gives every file of a layer to see; what is no layer has none.
func eachFile(blob []byte, see func(header *tar.Header, content []byte)) error {
	var r io.Reader = bytes.NewReader(blob)
	if zipped, err := gzip.NewReader(bytes.NewReader(blob)); err == nil {
		r = zipped
	}
	layer := tar.NewReader(r)
	for {
		header, err := layer.Next()
		if err != nil {
			return nil //nolint:nilerr // its end, or no layer at all
		}
		content, err := io.ReadAll(io.LimitReader(layer, 64<<20))
		if err != nil {
			return err
		}
		see(header, content)
	}
}
