package image

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// page is what a small file costs on the slot's filesystem.
const page = 4096

// sink receives the checked entries of an image in order.
type sink interface {
	folder(name string) error
	file(name string, executable bool, size int64, content io.Reader) error
}

// Unpack verifies the image again and writes its files into root, an empty
// folder: folders 0755, files 0555 or 0444, owned by the caller. After an error
// the folder's content must not be used.
func (img *Image) Unpack(into *os.Root) error {
	root, err := os.OpenRoot(img.Ref.Layout)
	if err != nil {
		return fmt.Errorf("open image layout: %w", err)
	}
	defer root.Close()
	w := &writer{root: into}
	if err := img.walk(root, w); err != nil {
		return fmt.Errorf("unpack image %s: %w", img.Ref.Digest, err)
	}
	return nil
}

func (img *Image) walk(root *os.Root, to sink) error {
	seen := &names{kinds: map[string]byte{}}
	for i, l := range img.layers {
		if err := l.walk(root, seen, to); err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
	}
	return nil
}

func (l layer) walk(root *os.Root, seen *names, to sink) error {
	f, err := openBlob(root, l.blob)
	if err != nil {
		return err
	}
	defer f.Close()
	blobHash, diffHash := sha256.New(), sha256.New()
	blob := io.TeeReader(io.LimitReader(f, l.size+1), blobHash)
	plain := blob
	if l.gzip {
		z, err := gzip.NewReader(blob)
		if err != nil {
			return fmt.Errorf("decompress: %w", err)
		}
		z.Multistream(false)
		plain = z
	}
	// The unpacked stream is bounded before its digest is known: a layer of
	// zeros may be small on disk.
	plain = io.TeeReader(&bounded{r: plain, left: maxBytes + maxEntries*2*page}, diffHash)
	if err := readTar(tar.NewReader(plain), seen, to); err != nil {
		return err
	}
	// What follows the archive's end belongs to the digests.
	if _, err := io.Copy(io.Discard, plain); err != nil {
		return fmt.Errorf("read the rest: %w", err)
	}
	if _, err := io.Copy(io.Discard, blob); err != nil {
		return fmt.Errorf("read the rest: %w", err)
	}
	if err := match(blobHash, l.blob, "blob"); err != nil {
		return err
	}
	return match(diffHash, l.diff, "unpacked layer")
}

func match(h hash.Hash, want Digest, what string) error {
	if got := hex.EncodeToString(h.Sum(nil)); got != want.Hex() {
		return fmt.Errorf("%s does not have its digest: wanted %s, got sha256:%s; rebuild the image", what, want, got)
	}
	return nil
}

// bounded fails, rather than ends, when more than its share is read.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("it unpacks to more than %d bytes", int64(maxBytes))
	}
	return n, err
}

// names remembers what each name is, 'd' or 'f', and the totals.
type names struct {
	kinds map[string]byte
	bytes int64
}

func readTar(tr *tar.Reader, seen *names, to sink) error {
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
		name, err := cleanName(h.Name)
		if err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = seen.addFolder(name, to)
		case tar.TypeReg:
			err = seen.addFile(name, h, tr, to)
		default:
			err = fmt.Errorf("entry %q is of type %q; only plain files and folders are taken", name, h.Typeflag)
		}
		if err != nil {
			return err
		}
	}
}

// cleanName returns a relative name without dots, or refuses.
func cleanName(raw string) (string, error) {
	name := strings.TrimSuffix(strings.TrimPrefix(raw, "./"), "/")
	if name == "" || name == "." {
		return ".", nil
	}
	if !fs.ValidPath(name) || strings.ContainsAny(name, "\\\x00") || len(name) > 1024 {
		return "", fmt.Errorf("entry %q has a name that is absolute, climbs or is not clean", raw)
	}
	if strings.HasPrefix(path.Base(name), ".wh.") {
		return "", fmt.Errorf("entry %q removes a file of a lower layer, which is not supported; flatten the image", raw)
	}
	return name, nil
}

func (n *names) addFolder(name string, to sink) error {
	if name == "." || n.kinds[name] == 'd' {
		return nil
	}
	if n.kinds[name] != 0 {
		return fmt.Errorf("entry %q appears twice", name)
	}
	if err := n.addFolder(path.Dir(name), to); err != nil {
		return err
	}
	if err := n.count(name, 'd', page); err != nil {
		return err
	}
	return to.folder(name)
}

func (n *names) addFile(name string, h *tar.Header, content io.Reader, to sink) error {
	if name == "." || n.kinds[name] != 0 {
		return fmt.Errorf("entry %q appears twice", name)
	}
	if err := n.addFolder(path.Dir(name), to); err != nil {
		return err
	}
	if h.Size < 0 || h.Size > maxBytes {
		return fmt.Errorf("entry %q has %d bytes, the bound is %d", name, h.Size, int64(maxBytes))
	}
	if err := n.count(name, 'f', (h.Size+page-1)/page*page+page); err != nil {
		return err
	}
	return to.file(name, h.Mode&0o111 != 0, h.Size, content)
}

func (n *names) count(name string, kind byte, size int64) error {
	n.kinds[name] = kind
	n.bytes += size
	if len(n.kinds) > maxEntries || n.bytes > maxBytes {
		return fmt.Errorf("the image has more than %d entries or %d bytes", maxEntries, int64(maxBytes))
	}
	return nil
}

// counter measures an image.
type counter struct {
	entries int
	bytes   int64
	core    bool
}

func (c *counter) folder(string) error {
	c.entries++
	c.bytes += page
	return nil
}

func (c *counter) file(name string, executable bool, size int64, _ io.Reader) error {
	c.entries++
	c.bytes += (size+page-1)/page*page + page
	c.core = c.core || name == "core" && executable
	return nil
}

// writer unpacks an image.
type writer struct{ root *os.Root }

// folder and file set modes explicitly: the process's umask must not matter.
func (w *writer) folder(name string) error {
	if err := w.root.Mkdir(name, 0o755); err != nil {
		return err
	}
	return w.root.Chmod(name, 0o755)
}

func (w *writer) file(name string, executable bool, size int64, content io.Reader) error {
	mode := os.FileMode(0o444)
	if executable {
		mode = 0o555
	}
	f, err := w.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Chmod(mode), f.Close())
}
