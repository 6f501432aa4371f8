package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"glovebox/ci/image/recipe"
	"glovebox/system/worker/internal/container/image"
	"glovebox/threat-model/evidence"
)

// layoutOf writes a layout whose digests are all right, around the given layer
// bytes, and returns its ref.
func layoutOf(t *testing.T, layer []byte, gzipped bool) string {
	t.Helper()
	diff := fmt.Sprintf("sha256:%x", sha256.Sum256(layer))
	if !gzipped {
		return layoutAround(t, layer, "application/vnd.oci.image.layer.v1.tar", diff)
	}
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if _, err := z.Write(layer); err != nil {
		t.Fatal(err)
	}
	z.Close()
	return layoutAround(t, buf.Bytes(), "application/vnd.oci.image.layer.v1.tar+gzip", diff)
}

func layoutAround(t *testing.T, blob []byte, media, diff string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "blobs/sha256"), 0o755); err != nil {
		t.Fatal(err)
	}
	put := func(b []byte) string {
		sum := fmt.Sprintf("%x", sha256.Sum256(b))
		if err := os.WriteFile(filepath.Join(dir, "blobs/sha256", sum), b, 0o644); err != nil {
			t.Fatal(err)
		}
		return "sha256:" + sum
	}
	object := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	config := put(object(map[string]any{"architecture": runtime.GOARCH, "os": "linux", "rootfs": map[string]any{"type": "layers", "diff_ids": []string{diff}}}))
	manifest := put(object(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": map[string]any{"mediaType": "application/vnd.oci.image.config.v1+json", "digest": config},
		"layers": []any{map[string]any{"mediaType": media, "digest": put(blob), "size": len(blob)}},
	}))
	return "oci:" + dir + "@" + manifest
}

type entry struct {
	tar.Header
	content string
}

func archive(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		e.Size = int64(len(e.content))
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	return buf.Bytes()
}

func file(name, content string) entry {
	return entry{tar.Header{Name: name, Mode: 0o4777, Typeflag: tar.TypeReg}, content}
}

func typed(name string, kind byte, link string) entry {
	return entry{tar.Header{Name: name, Mode: 0o777, Typeflag: kind, Linkname: link}, ""}
}

func openRef(t *testing.T, text string) (*image.Image, error) {
	t.Helper()
	ref, err := image.ParseRef(text)
	if err != nil {
		t.Fatal(err)
	}
	return image.Open(ref)
}

func unpack(t *testing.T, img *image.Image) (string, error) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	return dir, img.Unpack(root)
}

func TestBuiltImageUnpacks(t *testing.T) {
	evidence.Proves(t, "COR-05")
	program := filepath.Join(t.TempDir(), "p")
	if err := os.WriteFile(program, []byte("\x7fELF program"), 0o755); err != nil {
		t.Fatal(err)
	}
	built, err := recipe.Build(program, filepath.Join(t.TempDir(), "layout"))
	if err != nil {
		t.Fatal(err)
	}
	img, err := openRef(t, built.Ref)
	if err != nil {
		t.Fatal(err)
	}
	if string(img.Ref.Digest) != built.Digest || string(img.ID) != built.ImageID {
		t.Errorf("image is %s, %s; built was %+v", img.Ref.Digest, img.ID, built)
	}
	dir, err := unpack(t, img)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "core"))
	if err != nil || string(content) != "\x7fELF program" {
		t.Errorf("core is %q, %v", content, err)
	}
	for name, mode := range map[string]os.FileMode{"core": 0o555, "in/input": 0o444, "out/result": 0o444} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
	}
}

func TestSpecialBitsAreDropped(t *testing.T) {
	for _, gzipped := range []bool{false, true} {
		img, err := openRef(t, layoutOf(t, archive(t, file("./core", "x"), file("a/b/c", "y")), gzipped))
		if err != nil {
			t.Fatal(err)
		}
		dir, err := unpack(t, img)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(dir, "core")); err != nil || info.Mode() != 0o555 {
			t.Errorf("mode is %v, %v", info.Mode(), err)
		}
		if img.Files != 4 {
			t.Errorf("%d entries, wanted core, a, a/b and a/b/c", img.Files)
		}
	}
}

func TestHostileLayersAreRefused(t *testing.T) {
	evidence.Proves(t, "COR-05", "SBX-03")
	core := file("core", "x")
	for name, c := range map[string]struct {
		layer []byte
		want  string
	}{
		"absolute":       {archive(t, core, file("/etc/passwd", "x")), "not clean"},
		"climbing":       {archive(t, core, file("a/../../b", "x")), "not clean"},
		"symbolic link":  {archive(t, core, typed("etc", tar.TypeSymlink, "/etc")), "only plain files"},
		"hard link":      {archive(t, core, typed("c", tar.TypeLink, "core")), "only plain files"},
		"device":         {archive(t, core, typed("null", tar.TypeChar, "")), "only plain files"},
		"pipe":           {archive(t, core, typed("p", tar.TypeFifo, "")), "only plain files"},
		"twice":          {archive(t, core, core), "appears twice"},
		"file as folder": {archive(t, core, file("core/x", "x")), "appears twice"},
		"whiteout":       {archive(t, core, file(".wh.core", "")), "flatten"},
		"no core":        {archive(t, file("other", "x")), "no executable file /core"},
		"not an archive": {bytes.Repeat([]byte("x"), 2048), "read archive"},
		"too many files": {archive(t, many(5000)...), "more than 4096 entries"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := openRef(t, layoutOf(t, c.layer, false))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, wanted one with %q", err, c.want)
			}
		})
	}
}

func many(n int) []entry {
	entries := make([]entry, n)
	for i := range entries {
		entries[i] = file(fmt.Sprintf("f%d", i), "")
	}
	return entries
}

func TestSmallLayerOfManyZerosIsRefused(t *testing.T) {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	zeros := make([]byte, 1<<20)
	for range 600 {
		if _, err := z.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	z.Close()
	// The archive's end is two zero blocks; the rest is what follows it.
	ref := layoutAround(t, buf.Bytes(), "application/vnd.oci.image.layer.v1.tar+gzip", "sha256:"+strings.Repeat("00", 32))
	if _, err := openRef(t, ref); err == nil || !strings.Contains(err.Error(), "unpacks to more than") {
		t.Errorf("error is %v", err)
	}
}

func TestEveryBlobIsHeldToItsDigest(t *testing.T) {
	evidence.Proves(t, "COR-05")
	for _, which := range []string{"manifest", "configuration", "layer"} {
		t.Run(which, func(t *testing.T) {
			ref := layoutOf(t, archive(t, file("core", "x"), file("z", "pad")), false)
			img, err := openRef(t, ref)
			if err != nil {
				t.Fatal(err)
			}
			blob := img.Ref.Digest
			switch which {
			case "configuration":
				blob = img.ID
			case "layer":
				blob = layerOf(t, img)
			}
			path := filepath.Join(img.Ref.Layout, "blobs/sha256", blob.Hex())
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			// What is changed still parses, so that only the digest can tell.
			if which == "layer" {
				content = bytes.Replace(content, []byte("pad"), []byte("bad"), 1)
			} else {
				content = append(content, '\n')
			}
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := image.Open(img.Ref); err == nil || !strings.Contains(err.Error(), "does not have its digest") {
				t.Errorf("open after the change: %v", err)
			}
			// The image that was opened before is verified again when it is used.
			if which == "layer" {
				if _, err := unpack(t, img); err == nil || !strings.Contains(err.Error(), "does not have its digest") {
					t.Errorf("unpack after the change: %v", err)
				}
			}
		})
	}
}

func layerOf(t *testing.T, img *image.Image) image.Digest {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(img.Ref.Layout, "blobs/sha256"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		d := image.Digest("sha256:" + e.Name())
		if d != img.ID && d != img.Ref.Digest {
			return d
		}
	}
	t.Fatal("no layer")
	return ""
}

func TestParseRef(t *testing.T) {
	digits := strings.Repeat("0a", 32)
	good := "oci:/srv/a@b/layout@sha256:" + digits
	ref, err := image.ParseRef(good)
	if err != nil || ref.Layout != "/srv/a@b/layout" || ref.String() != good {
		t.Errorf("%+v, %v", ref, err)
	}
	for _, bad := range []string{
		"", "core", "docker:core@sha256:" + digits, "oci:/srv/layout", "oci:relative@sha256:" + digits,
		"oci:/srv@sha256:" + digits[1:], "oci:/srv@sha512:" + digits, "oci:/srv@sha256:" + strings.ToUpper(digits),
	} {
		if ref, err := image.ParseRef(bad); err == nil {
			t.Errorf("%q was taken: %+v", bad, ref)
		}
	}
}
