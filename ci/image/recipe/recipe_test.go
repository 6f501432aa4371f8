package recipe_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glovebox/ci/image/recipe"
	"glovebox/threat-model/evidence"
)

func program(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "core")
	if err := os.WriteFile(path, []byte("\x7fELF"+content), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// tree maps every file of a layout to its bytes.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[rel] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestTwiceTheSameBytes(t *testing.T) {
	evidence.Proves(t, "COR-05")
	out := t.TempDir()
	one, err := recipe.Build(program(t, "a"), filepath.Join(out, "one"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := recipe.Build(program(t, "a"), filepath.Join(out, "two"))
	if err != nil {
		t.Fatal(err)
	}
	if one.Digest != two.Digest || one.ImageID != two.ImageID {
		t.Errorf("digests differ: %+v, %+v", one, two)
	}
	a, b := tree(t, one.Layout), tree(t, two.Layout)
	if len(a) < 4 || len(a) != len(b) {
		t.Fatalf("layouts have %d and %d files", len(a), len(b))
	}
	for name, content := range a {
		if b[name] != content {
			t.Errorf("file %s differs", name)
		}
	}
	other, err := recipe.Build(program(t, "b"), filepath.Join(out, "two"))
	if err != nil {
		t.Fatal(err)
	}
	if other.Digest == one.Digest || other.ImageID == one.ImageID {
		t.Error("another program has the same digest")
	}
	if want := "oci:" + filepath.Join(out, "two") + "@" + other.Digest; other.Ref != want {
		t.Errorf("ref is %s, wanted %s", other.Ref, want)
	}
}

func TestRefusals(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := recipe.Build(script, filepath.Join(t.TempDir(), "out")); err == nil || !strings.Contains(err.Error(), "not an ELF file") {
		t.Errorf("a script: %v", err)
	}
	precious := t.TempDir()
	if err := os.WriteFile(filepath.Join(precious, "thesis"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := recipe.Build(program(t, ""), precious); err == nil {
		t.Error("a folder that is no layout was replaced")
	}
	if _, err := os.Stat(filepath.Join(precious, "thesis")); err != nil {
		t.Errorf("the folder's content is gone: %v", err)
	}
}
