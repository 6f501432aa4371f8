package image

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Ref names an image on this host by place and by digest.
type Ref struct {
	Layout string // absolute path of an OCI layout
	Digest Digest // of the image's manifest
}

// Digest is "sha256:" and 64 lower-case hex digits.
type Digest string

// Hex returns the digits alone.
func (d Digest) Hex() string { return strings.TrimPrefix(string(d), "sha256:") }

func parseDigest(text string) (Digest, error) {
	digits, ok := strings.CutPrefix(text, "sha256:")
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) != 32 || digits != strings.ToLower(digits) {
		return "", errors.New("a digest is sha256: and 64 lower-case hex digits")
	}
	return Digest(text), nil
}

// ParseRef reads the form of sandbox.image: oci:/absolute/layout@sha256:DIGEST.
// There is no form without a digest: an image is pinned or it is not used (COR-05).
func ParseRef(text string) (Ref, error) {
	const form = "oci:/absolute/path/of/layout@sha256:DIGEST"
	rest, ok := strings.CutPrefix(text, "oci:")
	if !ok {
		return Ref{}, fmt.Errorf("image %q is not of the form %s", text, form)
	}
	i := strings.LastIndexByte(rest, '@')
	if i < 0 {
		return Ref{}, fmt.Errorf("image %q has no digest; wanted %s, as ci/image prints it", text, form)
	}
	digest, err := parseDigest(rest[i+1:])
	if err != nil {
		return Ref{}, fmt.Errorf("image %q: %w", text, err)
	}
	if !filepath.IsAbs(rest[:i]) {
		return Ref{}, fmt.Errorf("image %q: the layout's path must be absolute; wanted %s", text, form)
	}
	return Ref{Layout: filepath.Clean(rest[:i]), Digest: digest}, nil
}

// String returns the form that ParseRef reads.
func (r Ref) String() string { return "oci:" + r.Layout + "@" + string(r.Digest) }
