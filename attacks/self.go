package attacks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"glovebox/attacks/harness"
)

// self turns the suite on itself: what a reviewer relies on must be so.
var self = harness.Family{
	Name: "self", About: "the suite against a deployed system, and against a system that is not as it should be",
	Cases: []harness.Case{
		{
			ID: "self/target", Title: "the suite needs more than an address and two users, or leaves something behind",
			Requirements: []string{"HAR-02"}, Threats: []string{"OPS-E2"},
			Attack:  "this program runs safe cases as another user of the host, with --target, the authority and two passwords alone",
			Control: "with a wrong password it ends with trouble, and says so",
			Oracle:  "its exit code and its lines; the tokens of its users as the operator sees them: all revoked",
			Run:     selfTarget,
		},
		{
			ID: "self/wrong-authority", Title: "the suite attacks whoever answers at the address",
			Requirements: []string{"HAR-02", "API-06"}, Threats: []string{"PUB-S3"},
			Attack:  "this program is given the authority of the internal listener for the public address",
			Control: "with the right authority the same case holds",
			Oracle:  "its exit code; the operator sees no token of its user",
			Run:     selfAuthority,
		},
	},
}

// tester is the uid of somebody who may do nothing on this host.
const tester = 61310

// asTester runs this program in target mode as the tester, with the password in
// place of alice's, and returns its exit code and what it said.
func asTester(e *harness.Env, authority, password string, alice, bob *harness.User, cases ...string) (code int, said string) {
	program, err := os.Executable()
	e.Must(err, "find this program")
	dir, err := os.MkdirTemp("/var/tmp", "gb-tester-")
	e.Must(err, "make a folder")
	e.Cleanup(func(context.Context) error { return os.RemoveAll(dir) })
	for name, from := range map[string]string{"attack": program, "ca.crt": authority} {
		content, err := os.ReadFile(from)
		e.Must(err, "read %s", name)
		e.Must(os.WriteFile(filepath.Join(dir, name), content, 0o755), "write %s", name)
	}
	for name, text := range map[string]string{"alice": password, "bob": bob.Password} {
		file := filepath.Join(dir, name)
		e.Must(errors.Join(os.WriteFile(file, []byte(text+"\n"), 0o600), os.Chown(file, tester, tester)), "write a password")
	}
	e.Must(os.Chown(dir, tester, tester), "give the folder away")
	ctx, cancel := context.WithTimeout(e.Context(), 80*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "attack"), append([]string{
		"run", "--json", "--root", dir, "--target", "https://" + e.Public(0), "--ca", filepath.Join(dir, "ca.crt"), "--user", alice.Login, "--password-file", filepath.Join(dir, "alice"),
		"--second-user", bob.Login, "--second-password-file", filepath.Join(dir, "bob"),
	}, cases...)...)
	cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: tester, Gid: tester}}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		e.Must(err, "run the program")
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

func selfTarget(e *harness.Env) {
	alice, bob := e.NewUser(), e.NewUser()
	cases := []string{"auth/no-token", "tenancy/foreign-status", "tokens/one-of-many", "tokens/kept-answer", "tls/old-versions"}
	code, said := asTester(e, e.Endpoint.CAFile, "wrong-"+harness.RandomHex(8), alice, bob, cases...)
	e.Control(code == 3 && strings.Contains(said, `"verdict":"error"`), "with a wrong password it ends with %d: %s", code, tail(said))
	code, said = asTester(e, e.Endpoint.CAFile, alice.Password, alice, bob, cases...)
	e.Note("it says %s", tail(said))
	held := strings.Count(said, `"verdict":"held"`)
	e.Check(code == 0 && held == len(cases), "it ends with %d, %d of %d held", code, held, len(cases))
	e.Check(!strings.Contains(said, alice.Password) && !strings.Contains(said, "gbx_"), "it shows a secret")
	given := 0
	for _, u := range []*harness.User{alice, bob} {
		list, err := e.Admin(e.Context(), "", "token", "list", "--user", u.Login, "--json")
		e.Must(err, "list the tokens")
		var tokens []struct {
			RevokedAt *time.Time `json:"revoked_at"`
		}
		e.Must(json.Unmarshal([]byte(list), &tokens), "read the tokens")
		given += len(tokens)
		for _, t := range tokens {
			e.Check(t.RevokedAt != nil, "a token of %s is left", u.Login)
		}
	}
	e.Control(given >= 2, "%d tokens were given out", given)
}

func selfAuthority(e *harness.Env) {
	alice, bob := e.NewUser(), e.NewUser()
	code, said := asTester(e, e.Endpoint.InternalCAFile, alice.Password, alice, bob, "tenancy/foreign-status")
	e.Check(code == 3 && strings.Contains(said, "unknown authority"), "it ends with %d: %s", code, tail(said))
	list, err := e.Admin(e.Context(), "", "token", "list", "--user", alice.Login, "--json")
	e.Must(err, "list the tokens")
	e.Check(!strings.Contains(list, "created_at") && !strings.Contains(list, "CreatedAt"), "it has logged in: %s", list)
	code, said = asTester(e, e.Endpoint.CAFile, alice.Password, alice, bob, "tenancy/foreign-status")
	e.Control(code == 0, "with the right authority it ends with %d: %s", code, tail(said))
}
