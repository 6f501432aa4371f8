// Package recipe builds a core's image: an OCI layout with one layer and nothing
// in it but the program and the places the contract names. No daemon, no base
// image, no clock: the same program gives the same bytes (COR-05).
package recipe

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// maxBinary bounds the program; an image is held in memory while it is built.
const maxBinary = 256 << 20

// epoch is the only time in an image.
var epoch = time.Unix(0, 0).UTC()

// Built names a layout that was written.
type Built struct {
	Layout  string `json:"layout"`   // absolute path
	Digest  string `json:"digest"`   // of the manifest
	ImageID string `json:"image_id"` // of the configuration
	Ref     string `json:"ref"`      // the value of sandbox.image
}

// Build writes the image of the static program at binary into out, in place of
// an earlier one.
func Build(binary, out string) (Built, error) {
	program, err := readProgram(binary)
	if err != nil {
		return Built{}, err
	}
	img, err := image(program)
	if err != nil {
		return Built{}, err
	}
	digest, err := img.Digest()
	if err != nil {
		return Built{}, fmt.Errorf("digest image: %w", err)
	}
	id, err := img.ConfigName()
	if err != nil {
		return Built{}, fmt.Errorf("digest configuration: %w", err)
	}
	abs, err := filepath.Abs(out)
	if err != nil {
		return Built{}, fmt.Errorf("find the layout's place: %w", err)
	}
	if err := write(img, abs); err != nil {
		return Built{}, err
	}
	return Built{Layout: abs, Digest: digest.String(), ImageID: id.String(), Ref: "oci:" + abs + "@" + digest.String()}, nil
}

func readProgram(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open program: %w", err)
	}
	defer f.Close()
	program, err := io.ReadAll(io.LimitReader(f, maxBinary+1))
	if err != nil {
		return nil, fmt.Errorf("read program: %w", err)
	}
	if len(program) > maxBinary {
		return nil, fmt.Errorf("program %s is larger than %d bytes", path, maxBinary)
	}
	if !bytes.HasPrefix(program, []byte("\x7fELF")) {
		return nil, fmt.Errorf("program %s is not an ELF file; link it statically for linux/%s", path, runtime.GOARCH)
	}
	return program, nil
}

// entry is one line of the image's content.
type entry struct {
	name    string
	mode    int64
	content []byte
	folder  bool
}

func image(program []byte) (v1.Image, error) {
	archive, err := archive([]entry{
		{name: "core", mode: 0o555, content: program},
		{name: "in/", mode: 0o555, folder: true},
		{name: "in/input", mode: 0o444},
		{name: "out/", mode: 0o555, folder: true},
		{name: "out/result", mode: 0o444},
	})
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(9))
	if err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "glovebox ci/image"}})
	if err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("make configuration: %w", err)
	}
	config = config.DeepCopy()
	config.Architecture, config.OS = runtime.GOARCH, "linux"
	config.Created = v1.Time{Time: epoch}
	config.Config = v1.Config{Entrypoint: []string{"/core"}, WorkingDir: "/"}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return nil, fmt.Errorf("make configuration: %w", err)
	}
	return img, nil
}

func archive(entries []entry) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Format: tar.FormatUSTAR, Name: e.name, Mode: e.mode, Size: int64(len(e.content)), ModTime: epoch, Typeflag: tar.TypeReg}
		if e.folder {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("write %s: %w", e.name, err)
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, fmt.Errorf("write %s: %w", e.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("end archive: %w", err)
	}
	return buf.Bytes(), nil
}

// write makes the layout beside its place and moves it there.
func write(img v1.Image, out string) error {
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return fmt.Errorf("make layout: %w", err)
	}
	temporary, err := os.MkdirTemp(filepath.Dir(out), ".layout-")
	if err != nil {
		return fmt.Errorf("make layout: %w", err)
	}
	defer os.RemoveAll(temporary)
	if err := os.Chmod(temporary, 0o755); err != nil {
		return fmt.Errorf("make layout: %w", err)
	}
	path, err := layout.Write(temporary, empty.Index)
	if err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	if err := path.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "localhost/core:pinned"})); err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	// A layout that is already there is replaced only if it is one: a mistyped
	// --out must not remove somebody's folder.
	if content, err := os.ReadFile(filepath.Join(out, "oci-layout")); err == nil {
		var marker map[string]string
		if json.Unmarshal(content, &marker) != nil || marker["imageLayoutVersion"] == "" {
			return fmt.Errorf("replace layout: %s/oci-layout is not a layout's marker", out)
		}
		if err := os.RemoveAll(out); err != nil {
			return fmt.Errorf("replace layout: %w", err)
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("replace layout: %w", err)
	}
	if err := os.Rename(temporary, out); err != nil {
		return fmt.Errorf("place layout: %w", err)
	}
	return nil
}
