package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"glovebox/migrations"
	"glovebox/system/platform/pki"
	"glovebox/system/protocol"
	"glovebox/system/server/internal/workers"
	"glovebox/system/testdb"
	"glovebox/threat-model/evidence"
)

func TestWorkersAreAdmittedAndRemovedByCommand(t *testing.T) {
	evidence.Proves(t, "MTL-02")
	in := install(t)
	s := in.start(nil)
	w := s.peer(s.pki.Worker("w-1"))
	w.tryClaim("0s").refused(http.StatusForbidden, "worker_not_allowed")
	if _, e, code := in.operate("", "worker", "add", "w-1"); code != exitOK {
		t.Fatal(e)
	}
	w.tryClaim("0s").want(http.StatusNoContent)
	out, e, code := in.operate("", "worker", "list", "--json")
	var list []workers.Worker
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != exitOK || len(list) != 1 || !list[0].Allowed || list[0].LastSeenAt == nil || *list[0].SlotsTotal != twoSlots.SlotsTotal {
		t.Fatalf("list: %s %s %v", out, e, err)
	}
	if _, e, code := in.operate("", "worker", "remove", "w-1"); code != exitOK {
		t.Fatal(e)
	}
	w.tryClaim("0s").refused(http.StatusForbidden, "worker_not_allowed") // on the connection that is open
	if _, e, code := in.operate("", "worker", "remove", "w-1"); code == exitOK || !strings.Contains(e, "worker list") {
		t.Errorf("removing twice: %d, %s", code, e)
	}
	if _, _, code := in.operate("", "worker", "add", "W 1"); code == exitOK {
		t.Error("an id that no certificate carries was added")
	}
}

func TestJobShowTellsTheWholeStory(t *testing.T) {
	evidence.Proves(t, "ARC-08")
	in := install(t)
	s := in.start(nil)
	user, worker := s.user("alice"), s.worker("w-1")
	j := user.submit([]byte("not lua"))
	a := worker.claim()
	const said = `any "words"; the server's to keep`
	worker.json("POST", attemptPath("/internal/v1/jobs/{id}/fail", a.ID), map[string]any{"code": "invalid_input", "retryable": false, "detail": "line 1, column 5"},
		fenced(a.FencingToken), header(protocol.HeaderProvenance, said)).want(http.StatusOK)
	out, e, code := in.operate("", "job", "show", j.ID, "--json")
	var shown jobSummary
	if err := json.Unmarshal([]byte(out), &shown); err != nil || code != exitOK {
		t.Fatalf("show: %s %s %v", out, e, err)
	}
	if shown.Status != "failed" || shown.ErrorCode != "invalid_input" || shown.ErrorDetail != "line 1, column 5" || len(shown.Events) != 3 ||
		shown.Events[1].WorkerID != "w-1" || shown.Events[2].Cause != "failed" || shown.CorrelationID == "" {
		t.Errorf("the story is %+v", shown)
	}
	if shown.Events[1].Provenance != "" || shown.Events[2].Provenance != said {
		t.Errorf("what the worker said of its run is shown as %+v", shown.Events)
	}
	text, _, code := in.operate("", "job", "show", j.ID)
	if code != exitOK || !strings.Contains(text, "is failed, attempt 1 of 3") || !strings.Contains(text, "claimed") {
		t.Errorf("the text is %s", text)
	}
	if !strings.Contains(text, strconv.Quote(said)) {
		t.Errorf("what the worker said is not shown quoted: %s", text)
	}
	if public := user.get("/api/v1/jobs/" + j.ID).want(http.StatusOK); bytes.Contains(public.body, []byte("words")) {
		t.Errorf("the owner is shown %s", public.body)
	}
	if strings.Contains(out+text, "a.lua") {
		t.Error("the file's name is shown")
	}
	if _, e, code := in.operate("", "job", "show", "no-such-job"); code != exitUsage || !strings.Contains(e, "there is no job") {
		t.Errorf("an unknown job: %d, %s", code, e)
	}
}

// check runs `check --json` on the installation with some settings changed and
// returns what it found by name.
func (in *installation) check(t *testing.T, changes ...string) (found map[string]finding, code int) {
	t.Helper()
	publicCert, publicKey := in.pki.PublicServer()
	internalCert, internalKey := in.pki.InternalServer()
	for _, kv := range append([]string{
		"TLS_PUBLIC_CERT=" + publicCert, "TLS_PUBLIC_KEY=" + publicKey, "TLS_INTERNAL_CERT=" + internalCert,
		"TLS_INTERNAL_KEY=" + internalKey, "TLS_INTERNAL_CLIENT_CA=" + in.pki.Bundle(pki.Internal),
		"DATABASE_URL=" + in.db.URL(testdb.ServerRole).Reveal(), "AUTH_TOKEN_SECRET=" + in.secret.Reveal(),
		"STORAGE_ROOT=" + in.storage, "LIMITS_MIN_FREE_BYTES=0", "LISTEN_INTERNAL=127.0.0.1:9443",
	}, changes...) {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv("GLOVEBOX_"+name, value)
	}
	var out, errOut bytes.Buffer
	code = execute(t.Context(), []string{"check", "--json"}, strings.NewReader(""), &out, &errOut)
	var doc struct{ Checks []finding }
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatalf("check printed %s %s: %v", out.String(), errOut.String(), err)
	}
	if strings.Contains(out.String()+errOut.String(), in.secret.Reveal()) {
		t.Error("check shows a secret")
	}
	found = map[string]finding{}
	for _, f := range doc.Checks {
		found[f.Name] = f
	}
	return found, code
}

// TestCheckNamesWhatIsNotInPlace breaks one thing at a time.
func TestCheckNamesWhatIsNotInPlace(t *testing.T) {
	evidence.Proves(t, "REL-03", "MTL-01", "DBS-02", "DBS-04")
	in := install(t)
	found, code := in.check(t)
	if code == exitOK || found["storage"].OK || !strings.Contains(found["storage"].Detail, "serve makes it") {
		t.Errorf("before the first start: %d, %+v", code, found)
	}
	if _, err := os.Stat(in.storage); err == nil {
		t.Error("check made the storage")
	}
	in.start(nil).stop()
	if found, code := in.check(t); code != exitOK {
		t.Fatalf("everything is in place, and check says %+v", found)
	}
	shard := filepath.Join(in.storage, "objects", "7f")
	if err := os.Remove(shard); err != nil {
		t.Fatal(err)
	}
	if found, code := in.check(t); code == exitOK || found["storage"].OK {
		t.Errorf("with a folder of the storage missing: %d, %+v", code, found)
	}
	if _, err := os.Stat(shard); err == nil {
		t.Error("check made a folder of the storage")
	}
	if err := os.Mkdir(shard, 0o700); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ change, name, detail string }{
		{"LISTEN_INTERNAL=0.0.0.0:9443", "configuration", "listen.internal: is every interface"},
		{"AUTH_TOKEN_SECRET=short", "secrets and files", "auth.token_secret: has 5 bytes"},
		{"TLS_PUBLIC_KEY=" + empty, "public certificate", ""},
		{"TLS_INTERNAL_CLIENT_CA=" + empty, "internal certificate", ""},
		{"DATABASE_URL=" + in.db.URL(testdb.Admin).Reveal(), "rights", "is a superuser"},
		{"DATABASE_URL=" + in.db.URL(testdb.Operator).Reveal(), "rights", "can admit workers"},
		{"DATABASE_URL=postgres:///nowhere?host=/nowhere", "database", "reach the database"},
		{"STORAGE_ROOT=" + filepath.Dir(empty), "storage", "not a store yet"},
	} {
		t.Run(c.name+" "+strings.SplitN(c.change, "=", 2)[0], func(t *testing.T) {
			found, code := in.check(t, c.change)
			if f := found[c.name]; code == exitOK || f.OK || !strings.Contains(f.Detail, c.detail) {
				t.Errorf("check says %d, %+v; want %q to fail with %q", code, found, c.name, c.detail)
			}
		})
	}
	if _, err := in.admin.Exec(t.Context(), "DELETE FROM app.schema_versions WHERE version_id = $1", migrations.Latest()); err != nil {
		t.Fatal(err)
	}
	if found, code := in.check(t); code == exitOK || found["migrations"].OK {
		t.Errorf("with a migration missing: %d, %+v", code, found)
	}
}

// TestAnInstallationIsMadeByCommandsAlone goes from an empty database to roles
// that log in by password.
func TestAnInstallationIsMadeByCommandsAlone(t *testing.T) {
	evidence.Proves(t, "DBS-04", "REL-04")
	db := testdb.NewEmpty(t)
	dir := t.TempDir()
	adminFile := filepath.Join(dir, "admin-url")
	if err := os.WriteFile(adminFile, []byte(db.URL(testdb.Admin).Reveal()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(stdin string, args ...string) (string, int) {
		t.Helper()
		var out, errOut bytes.Buffer
		code := execute(t.Context(), args, strings.NewReader(stdin), &out, &errOut)
		return out.String() + errOut.String(), code
	}
	if out, code := run("", "migrate", "status", "--admin-url-file", adminFile); code == exitOK {
		t.Errorf("an empty database is called complete: %s", out)
	}
	if out, code := run("", "migrate", "up", "--admin-url-file", adminFile); code != exitOK || !strings.Contains(out, "schema is at version") {
		t.Fatalf("up: %s", out)
	}
	if out, code := run("", "migrate", "status", "--json", "--admin-url-file", adminFile); code != exitOK || !strings.Contains(out, `"pending":[]`) {
		t.Errorf("status: %s", out)
	}
	// The later upgrades are the migrator's, who needs no administrator.
	t.Setenv("GLOVEBOX_DATABASE_MIGRATOR_URL", db.URL(testdb.Migrator).Reveal())
	if out, code := run("", "migrate", "up"); code != exitOK || !strings.Contains(out, "0 applied now") {
		t.Errorf("up by the migrator: %s", out)
	}
	// The passwords of the roles are the whole cluster's, so only refusals are
	// tried here; testdb itself sets and uses good ones.
	for name, c := range map[string]struct{ stdin, role string }{
		"a short password":        {"short", "glovebox_server"},
		"no password":             {"", "glovebox_server"},
		"a role that is not ours": {"0123456789abcdef0123", "postgres"},
		"a role that is SQL":      {"0123456789abcdef0123", "glovebox_server; DROP TABLE app.jobs"},
	} {
		if out, code := run(c.stdin, "migrate", "set-password", c.role, "--admin-url-file", adminFile); code == exitOK {
			t.Errorf("%s was accepted: %s", name, out)
		}
	}
	if err := os.Chmod(adminFile, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, code := run("", "migrate", "up", "--admin-url-file", adminFile); code != exitUsage || !strings.Contains(out, "accessible to every user") {
		t.Errorf("a readable secret file: %d, %s", code, out)
	}
}

// TestEveryCommandTeaches: each has a short and a long help, and each refuses what
// it does not know.
func TestEveryCommandTeaches(t *testing.T) {
	var walk func(path []string)
	walk = func(path []string) {
		root := newRootCommand()
		cmd, _, err := root.Find(path)
		if err != nil {
			t.Fatal(err)
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%v: its short help is %q", path, cmd.Short)
		}
		var out, errOut bytes.Buffer
		if code := execute(t.Context(), append(path, "--help"), strings.NewReader(""), &out, &errOut); code != exitOK || out.Len() < 60 {
			t.Errorf("%v --help: %d, %q", path, code, out.String())
		}
		if code := execute(t.Context(), append(path, "--no-such-flag"), strings.NewReader(""), &out, &errOut); code != exitUsage {
			t.Errorf("%v --no-such-flag exits %d", path, code)
		}
		for _, sub := range cmd.Commands() {
			if sub.Name() != "help" && sub.Name() != "completion" {
				walk(append(append([]string{}, path...), sub.Name()))
			}
		}
	}
	walk(nil)
}

// TestTheInternalAPIServesOnNoPublicAddress whatever name it was given.
func TestTheInternalAPIServesOnNoPublicAddress(t *testing.T) {
	evidence.Proves(t, "MTL-01")
	in := install(t)
	s := in.start(nil)
	s.stop()
	c := *s.main.Config
	c.Listen.Internal = "0.0.0.0:0" // what a name may lead to; Validate, which knows no names, is not asked here
	m := NewMain(io.Discard)
	m.Config = &c
	err := m.Open(t.Context())
	if closeErr := m.Close(); closeErr != nil {
		t.Error(closeErr)
	}
	if err == nil || !strings.Contains(err.Error(), "listen.internal: ") || !strings.Contains(err.Error(), "neither loopback nor private") {
		t.Errorf("open on every interface: %v", err)
	}
}
