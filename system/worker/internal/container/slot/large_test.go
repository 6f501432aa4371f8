package slot_test

import (
	"crypto/sha256"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/enginetest"
	"glovebox/system/worker/internal/container/slotfs"
	"glovebox/system/worker/internal/container/verdict"
	"glovebox/threat-model/evidence"
)

// Files far beyond the slot's memory go through its disk, and leave this
// process's memory alone.
func TestLargeFilesLieOnDisk(t *testing.T) {
	evidence.Proves(t, "SBX-04", "REL-01")
	const size = 512 << 20
	m := enginetest.Maker(t, enginetest.Podman(t), enginetest.Scripted(t), func(l *container.Limits) {
		l.MaxInputBytes, l.MaxResultBytes, l.Timeout = size+100, size, 2*time.Minute
	})
	if m.FS.Resolve() != slotfs.Loop {
		t.Fatalf("backing is %s", m.FS.Resolve())
	}
	before := residentPeak(t)
	a := attempt(t, m, 0, "copy\n")
	sent := sha256.New()
	source := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{1}), size), sent)
	if _, err := io.Copy(a.Input(), source); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	v := run(t, a)
	if !v.Succeeded() || v.Result.Size != size {
		t.Fatalf("verdict is %+v", v)
	}
	t.Logf("%d MiB through a slot of %d MiB of memory in %s", size>>20, m.Limits.MemoryBytes>>20, time.Since(started).Round(time.Millisecond))
	if !sameSum(t, sent, a.Result()) {
		t.Error("the result is not what was sent")
	}
	if grown := residentPeak(t) - before; grown > 32<<20 {
		t.Errorf("memory grew by %d bytes", grown)
	}
	// Beyond the bound: the core is told, and the slot keeps its size.
	over := attempt(t, m, 1, "copy\n")
	if _, err := io.Copy(over.Input(), io.LimitReader(rand.NewChaCha8([32]byte{2}), size+2)); err != nil {
		t.Fatal(err)
	}
	if v := run(t, over); v.Kind != verdict.Exited || v.ExitCode != 5 || v.Result.Problem != verdict.TooLarge || v.Result.Size != size+1 {
		t.Errorf("verdict is %+v", v)
	}
}

func sameSum(t *testing.T, want hash.Hash, r io.Reader) bool {
	t.Helper()
	got := sha256.New()
	if _, err := io.Copy(got, r); err != nil {
		t.Fatal(err)
	}
	return string(got.Sum(nil)) == string(want.Sum(nil))
}

// residentPeak is this process's highest resident size so far, in bytes.
func residentPeak(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "VmHWM:")
	if !ok {
		t.Fatal("no VmHWM")
	}
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
