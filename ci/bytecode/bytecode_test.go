package bytecode_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"glovebox/ci/bytecode"
)

func TestSame(t *testing.T) {
	dir := t.TempDir()
	write := func(name, source string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	original := write("a.lua", "-- sum\nlocal first, second = 1, 2\n\nlocal function add(x, y)\n  return x + y\nend\nprint(add(first, second) .. \"\\065\")\n")
	tests := map[string]struct {
		source string
		same   bool
	}{
		"renamed, on one line": {"local a,b=1,2 local function c(d,e)return d+e end print(c(a,b)..\"A\")", true},
		"locals swapped":       {"local a,b=1,2 local function c(d,e)return e+d end print(c(a,b)..\"A\")", false},
		"operator":             {"local a,b=1,2 local function c(d,e)return d-e end print(c(a,b)..\"A\")", false},
		"global for local":     {"local a,b=1,2 function c(d,e)return d+e end print(c(a,b)..\"A\")", false},
		"string":               {"local a,b=1,2 local function c(d,e)return d+e end print(c(a,b)..\"B\")", false},
		"float for integer":    {"local a,b=1.0,2 local function c(d,e)return d+e end print(c(a,b)..\"A\")", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			same, err := bytecode.Same(context.Background(), original, write("b.lua", tc.source))
			if err != nil || same != tc.same {
				t.Fatalf("same %v, %v", same, err)
			}
		})
	}
	if _, err := bytecode.Same(context.Background(), original, write("c.lua", "local = 1")); !errors.Is(err, bytecode.ErrNotLua) {
		t.Errorf("got %v", err)
	}
}
