package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"glovebox/system/platform/pki"
)

// runPKI runs `pki ARGS` as the binary would.
func runPKI(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := newPKICommand()
	var out, errs bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(args)
	err = cmd.Execute()
	return out.String(), errs.String(), err
}

func TestPKICommandFromInitToRotation(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	must := func(args ...string) string {
		t.Helper()
		stdout, stderr, err := runPKI(t, args...)
		if err != nil {
			t.Fatalf("pki %q: %v\n%s", args, err, stderr)
		}
		return stdout
	}
	must("init", "--dir", dir)
	if again := must("init", "--dir", dir); !strings.Contains(again, "nothing to do") {
		t.Errorf("a second init says %q", again)
	}
	var issued []pki.Issued
	if err := json.Unmarshal([]byte(must("issue", "--dir", dir, "server", "main", "--dns", "box.example", "--ip", "10.0.0.7", "--out", out, "--json")), &issued); err != nil {
		t.Fatal(err)
	}
	if len(issued) != 2 || filepath.Base(issued[0].Cert) != "server-main-public.crt" || filepath.Base(issued[1].Cert) != "server-main-internal.crt" {
		t.Fatalf("issued %+v, want a public and an internal pair", issued)
	}
	must("issue", "--dir", dir, "worker", "w-1", "--out", out)
	worker := filepath.Join(out, "worker-w-1.crt")

	must("init", "--dir", dir, "--rotate")
	if nothing := must("renew", "--dir", dir, "--within", "240h", worker); nothing != "" {
		t.Errorf("renewed a fresh certificate: %q", nothing)
	}
	must("renew", "--dir", dir, worker, issued[1].Cert)
	must("init", "--dir", dir, "--finish-rotation")

	var infos []pki.Info
	if err := json.Unmarshal([]byte(must("show", out, "--json")), &infos); err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		if info.File == worker && info.Issuer != "glovebox internal-ca 2" {
			t.Errorf("the renewed worker is signed by %q", info.Issuer)
		}
	}
	if table := must("show", dir, out); !strings.Contains(table, "spiffe://glovebox/worker/w-1") {
		t.Errorf("the table names no worker:\n%s", table)
	}
}

func TestPKICommandRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, _, err := runPKI(t, "init", "--dir", dir); err != nil {
		t.Fatal(err)
	}
	rows := map[string]struct {
		args []string
		says string
	}{
		"no folder":         {[]string{"init"}, "dir"},
		"two verbs":         {[]string{"init", "--dir", dir, "--rotate", "--finish-rotation"}, "none of the others can be"},
		"unknown authority": {[]string{"init", "--dir", dir, "--rotate", "--authority", "x"}, "wanted internal or public"},
		"unknown kind":      {[]string{"issue", "--dir", dir, "root", "a"}, "unknown"},
		"bad address":       {[]string{"issue", "--dir", dir, "server", "a", "--ip", "x"}, "not an address"},
		"unknown listener":  {[]string{"issue", "--dir", dir, "server", "a", "--listener", "x"}, "wanted public, internal or both"},
		"folder without":    {[]string{"issue", "--dir", filepath.Join(dir, "none"), "worker", "a"}, "pki init"},
		"renew nothing":     {[]string{"renew", "--dir", dir, filepath.Join(dir, "none.crt")}, "no such file"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, _, err := runPKI(t, row.args...); err == nil || !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, want an error with %q", err, row.says)
			}
		})
	}
}
