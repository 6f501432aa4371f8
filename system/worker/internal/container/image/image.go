// Package image reads the core's image from an OCI layout on disk and unpacks it
// into a slot.
//
// Everything is verified against the pinned manifest digest each time it is
// read: manifest, configuration and layers by their digests, the layers once more
// by the configuration's. So a copy that is used is one that was verified, and no
// cache of verified files exists that could change afterwards (COR-05).
//
// Layers are hostile until proven harmless: only plain files and folders with
// clean relative names, each name once, within bounds of count and size.
package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
)

// Bounds of an image.
const (
	maxDocument = 1 << 20   // bytes of a manifest or configuration
	maxEntries  = 4096      // files and folders
	maxBytes    = 512 << 20 // of all files unpacked
	maxLayers   = 64
)

// Media types that are read.
const (
	typeManifest  = "application/vnd.oci.image.manifest.v1+json"
	typeConfig    = "application/vnd.oci.image.config.v1+json"
	typeLayer     = "application/vnd.oci.image.layer.v1.tar"
	typeLayerGzip = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// Image is a verified image.
type Image struct {
	Ref   Ref
	ID    Digest // of its configuration: the image id
	Files int    // files and folders
	Bytes int64  // of all files, each rounded up to a page

	layers []layer
}

type layer struct {
	blob Digest
	diff Digest // of the uncompressed bytes
	size int64
	gzip bool
}

type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type configuration struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	RootFS       struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// Open reads and verifies the whole image, and measures what it unpacks to.
func Open(ref Ref) (*Image, error) {
	root, err := os.OpenRoot(ref.Layout)
	if err != nil {
		return nil, fmt.Errorf("open image layout: %w; build it with ci/image", err)
	}
	defer root.Close()
	img := &Image{Ref: ref}
	if err := img.readDocuments(root); err != nil {
		return nil, fmt.Errorf("verify image %s: %w", ref.Digest, err)
	}
	var count counter
	if err := img.walk(root, &count); err != nil {
		return nil, fmt.Errorf("verify image %s: %w", ref.Digest, err)
	}
	if !count.core {
		return nil, fmt.Errorf("verify image %s: it has no executable file /core", ref.Digest)
	}
	img.Files, img.Bytes = count.entries, count.bytes
	return img, nil
}

func (img *Image) readDocuments(root *os.Root) error {
	var m manifest
	if err := readDocument(root, img.Ref.Digest, &m); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	if m.SchemaVersion != 2 || m.MediaType != typeManifest || m.Config.MediaType != typeConfig {
		return fmt.Errorf("manifest: it is not an OCI image manifest (schema %d, type %q, configuration %q)", m.SchemaVersion, m.MediaType, m.Config.MediaType)
	}
	if len(m.Layers) == 0 || len(m.Layers) > maxLayers {
		return fmt.Errorf("manifest: %d layers are not within 1 to %d", len(m.Layers), maxLayers)
	}
	id, err := parseDigest(m.Config.Digest)
	if err != nil {
		return fmt.Errorf("manifest: configuration: %w", err)
	}
	img.ID = id
	var c configuration
	if err := readDocument(root, id, &c); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if c.OS != "linux" || c.Architecture != runtime.GOARCH {
		return fmt.Errorf("configuration: the image is for %s/%s, this host is linux/%s", c.OS, c.Architecture, runtime.GOARCH)
	}
	if c.RootFS.Type != "layers" || len(c.RootFS.DiffIDs) != len(m.Layers) {
		return errors.New("configuration: its list of layers does not match the manifest's")
	}
	for i, d := range m.Layers {
		l := layer{size: d.Size, gzip: d.MediaType == typeLayerGzip}
		if d.MediaType != typeLayer && !l.gzip {
			return fmt.Errorf("layer %d: media type %q is not supported; use tar or gzipped tar", i, d.MediaType)
		}
		if l.blob, err = parseDigest(d.Digest); err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
		if l.diff, err = parseDigest(c.RootFS.DiffIDs[i]); err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
		img.layers = append(img.layers, l)
	}
	return nil
}

func openBlob(root *os.Root, digest Digest) (*os.File, error) {
	f, err := root.Open("blobs/sha256/" + digest.Hex())
	if err != nil {
		return nil, fmt.Errorf("open blob: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("open blob: it is not a regular file")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// readDocument parses a small blob, after its digest was found right.
func readDocument(root *os.Root, digest Digest, into any) error {
	f, err := openBlob(root, digest)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err != nil {
		return fmt.Errorf("read blob: %w", err)
	}
	if len(text) > maxDocument {
		return fmt.Errorf("blob is larger than %d bytes", maxDocument)
	}
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != digest.Hex() {
		return fmt.Errorf("blob does not have its digest: wanted %s, got sha256:%x; rebuild the image", digest, sum)
	}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(into); err != nil {
		return fmt.Errorf("parse: %w", err)
	}
	return nil
}
