package e2e_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"glovebox/ci/bytecode"
	"glovebox/ci/local"
	"glovebox/threat-model/evidence"
)

// mainInputBytes lies above the core's own limit of 10 MiB (core/CONTRACT.md), so
// that both limits can be met.
const mainInputBytes = 12 << 20

// oddInputsTest sends the real core what no person would.
func oddInputsTest(t *testing.T, s *local.System, db *pgx.Conn) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"COR-03", "JOB-09", "JOB-11", "UPL-01", "SBX-12"},
		Tried:        "an empty file, 0xFF, 10,000 deep, one over the core's limit, one over the server's, through the real core",
		Oracle:       "observer's view and count of jobs, the client's exit status, bytecode of a result, files in the storage",
	})
	comment := func(size int) []byte {
		return append([]byte("return 1 -- "), bytes.Repeat([]byte("x"), size-len("return 1 -- "))...)
	}
	deep := 10_000
	cases := []struct {
		name    string
		content []byte
		code    string // "" is completed
	}{
		{"an empty file is an empty program", nil, ""},
		{"0xFF", bytes.Repeat([]byte{0xff}, 64<<10), "invalid_input"},
		{"zero bytes", make([]byte, 64<<10), "invalid_input"},
		{"10,000 parentheses deep", []byte("return " + strings.Repeat("(", deep) + "1" + strings.Repeat(")", deep)), "invalid_input"},
		{"10,000 tables deep", []byte("return " + strings.Repeat("{", deep) + strings.Repeat("}", deep)), "invalid_input"},
		{"10,000 blocks deep", []byte(strings.Repeat("do ", deep) + strings.Repeat("end ", deep)), "invalid_input"},
		{"a string without an end", []byte("return [==[" + strings.Repeat("x", 1<<20)), "invalid_input"},
		{"one that is at the core's limit", comment(10 << 20), ""},
		{"one that is over the core's limit", comment(10<<20 + 1), "invalid_input"},
	}
	p := login(t, s, 0)
	dir := t.TempDir()
	for _, c := range cases {
		in, out := filepath.Join(dir, "in.lua"), filepath.Join(dir, "out.lua")
		if err := os.WriteFile(in, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		id := p.submit(in)
		_, errs, exit := p.run("wait", id)
		j := look(t, db, id)
		if c.code != "" {
			if exit != 4 || j.status != "failed" || j.code != c.code || j.retryable || j.attempt != 1 {
				t.Errorf("%s: exit %d, the row says %+v: %s", c.name, exit, j, errs)
			}
			continue
		}
		if exit != 0 || j.status != "completed" {
			t.Errorf("%s: exit %d, the row says %+v: %s", c.name, exit, j, errs)
			continue
		}
		p.must("fetch", id, "-o", out, "--force")
		if same, err := bytecode.Same(context.Background(), in, out); err != nil || !same {
			t.Errorf("%s: the result is another program (%v)", c.name, err)
		}
	}

	var before, after int
	count := func(n *int) {
		t.Helper()
		if err := db.QueryRow(context.Background(), `SELECT count(*) FROM observe.jobs`).Scan(n); err != nil {
			t.Fatal(err)
		}
	}
	count(&before)
	over := filepath.Join(dir, "over.lua")
	if err := os.WriteFile(over, comment(mainInputBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, exit := p.run("submit", over); exit != 4 {
		t.Errorf("over the server's limit: exit %d: %s", exit, errs)
	}
	c := p.caller(0)
	if a, err := c.upload("over.lua", comment(mainInputBytes+1)); err == nil && (a.status != 413 || a.code() != "too_large") {
		t.Errorf("over the server's limit: %d %s", a.status, a.body)
	}
	if count(&after); after != before {
		t.Errorf("%d jobs were made of files over the limit", after-before)
	}
	clean(t, s)
}
