package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glovebox/threat-model/evidence"
)

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestJoinIsCheckedBothWays(t *testing.T) {
	evidence.Proves(t, "HAR-01")
	libtest := "running 2 tests\ntest a::one ... ok\ntest a::two ... FAILED\ntest result: FAILED. 1 passed; 1 failed\n"
	plain := "ok renames locals\nFAIL keeps parens: got f()\n2 passed, 0 failed\n"

	tests := map[string]struct {
		output, mapping string
		held, breached  int
		fails           string
	}{
		"libtest":           {output: libtest, mapping: "a::one\tSTO-04\n", held: 1, breached: 1},
		"mapped failure":    {output: libtest, mapping: "a::two\tSTO-04\n", breached: 1},
		"plain":             {output: plain, mapping: "renames locals\tCOR-04\n", held: 1, breached: 1},
		"test is gone":      {output: libtest, mapping: "a::three\tSTO-04\n", fails: "did not run"},
		"no results at all": {output: "nothing\n", mapping: "a::one\tSTO-04\n", fails: "no result"},
		"mapping twice":     {output: libtest, mapping: "a::one\tSTO-04\na::one\tSTO-04\n", fails: "each name once"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cases, err := joinRunner("x", write(t, "out", tc.output), write(t, "map", tc.mapping))
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Fatalf("got %v, want an error with %q", err, tc.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			counts := map[evidence.Verdict]int{}
			for _, c := range cases {
				counts[c.Verdict]++
			}
			if counts[evidence.Held] != tc.held || counts[evidence.Breached] != tc.breached {
				t.Fatalf("got %v", counts)
			}
		})
	}
}

func TestOneFailedRunOutweighsTheOthers(t *testing.T) {
	dir := t.TempDir()
	lines := `{"id":"p.TestX","verdict":"held"}
{"id":"p.TestX","verdict":"breached"}
{"id":"p.TestX","verdict":"held"}
`
	if err := os.WriteFile(filepath.Join(dir, "1.jsonl"), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	cases, err := readParts(dir)
	if err != nil || len(cases) != 1 || cases[0].Verdict != evidence.Breached {
		t.Fatalf("got %+v, %v", cases, err)
	}
}
