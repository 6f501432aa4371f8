package enginetest

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"glovebox/ci/image/recipe"
	"glovebox/system/worker/internal/container/image"
)

//go:embed program/scripted.c
var scriptedSource []byte

// ScriptedSource is the C source of the scripted core.
func ScriptedSource() []byte { return scriptedSource }

// Scripted returns the image of a core that does what its input's first line
// says; scripted.c lists the commands. A missing C compiler fails the test.
func Scripted(t testing.TB) *image.Image {
	t.Helper()
	return ImageOf(t, Compile(t, scriptedSource))
}

// Compile builds source, a C program, as a static binary and keeps it for later
// runs under the hash of its source.
func Compile(t testing.TB, source []byte) string {
	t.Helper()
	sum := sha256.Sum256(source)
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("glovebox-test-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	work := t.TempDir()
	src, out := filepath.Join(work, "p.c"), filepath.Join(work, "p")
	if err := os.WriteFile(src, source, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Wno-infinite-recursion", "-static", "-pthread", "-o", out, src)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compile the test's program: %v; install gcc and libc6-dev\n%s", err, said)
	}
	// Another test process may do the same: a rename puts a whole file in place.
	if said, err := exec.Command("mv", out, binary).CombinedOutput(); err != nil {
		t.Fatalf("keep the test's program: %v\n%s", err, said)
	}
	return binary
}

// ImageOf makes a pinned image of a static program.
func ImageOf(t testing.TB, binary string) *image.Image {
	t.Helper()
	built, err := recipe.Build(binary, filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	ref, err := image.ParseRef(built.Ref)
	if err != nil {
		t.Fatal(err)
	}
	img, err := image.Open(ref)
	if err != nil {
		t.Fatal(err)
	}
	return img
}
