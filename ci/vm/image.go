// Package vm makes and boots a small virtual machine with cgroup version 2 and
// systemd: the host that the sandbox prefers, on machines that are not such a host.
//
// The machine is Debian's own kernel and packages, emulated (TCG), so that it needs
// neither KVM nor a network. Its disk is made once and kept in .cache/vm under the
// digest of its recipe; a run writes to a snapshot that is thrown away. What is to be
// run goes in as a tar on a second disk, what came of it comes back as a tar on a
// third.
package vm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// recipe is all that decides what the disk holds. recipe/packages lists the Debian
// packages; recipe/files is laid over the root file system; recipe/finish is run
// in it at the end.
//
//go:embed all:recipe
var recipe embed.FS

// diskBytes is the size of the root disk; the file is sparse.
const diskBytes = "2G"

// Image is a machine that can be booted.
type Image struct{ Kernel, Initrd, Disk string }

// Cached returns the image of the recipe, which it makes in cache where it is not
// there. Making it needs root, mmdebstrap, e2fsprogs and Debian's archive.
func Cached(ctx context.Context, cache string) (Image, error) {
	name, err := digest()
	if err != nil {
		return Image{}, err
	}
	dir := filepath.Join(cache, name)
	img := Image{Kernel: filepath.Join(dir, "vmlinuz"), Initrd: filepath.Join(dir, "initrd"), Disk: filepath.Join(dir, "disk")}
	if _, err := os.Stat(dir); err == nil {
		return img, nil
	}
	if os.Getuid() != 0 {
		return img, errors.New("make the virtual machine's disk: it takes root; run as root once")
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return img, fmt.Errorf("make the cache of machines: %w", err)
	}
	work, err := os.MkdirTemp(cache, "making-")
	if err != nil {
		return img, fmt.Errorf("make the virtual machine: %w", err)
	}
	defer os.RemoveAll(work)
	if err := build(ctx, work); err != nil {
		return img, fmt.Errorf("make the virtual machine: %w", err)
	}
	return img, os.Rename(filepath.Join(work, "image"), dir)
}

// digest names the recipe.
func digest() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, diskBytes)
	err := fs.WalkDir(recipe, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := recipe.ReadFile(path)
		fmt.Fprintln(h, path, len(text))
		h.Write(text)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)[:8]), err
}

// build leaves the image in work/image.
func build(ctx context.Context, work string) error {
	recipeDir, root, image := filepath.Join(work, "recipe"), filepath.Join(work, "root"), filepath.Join(work, "image")
	if err := os.CopyFS(work, recipe); err != nil {
		return err
	}
	packages, err := listed(filepath.Join(recipeDir, "packages"))
	if err != nil {
		return err
	}
	// The initial file system holds what finds the disk and no more: unpacking it is
	// the longest step of an emulated start.
	modules := `mkdir -p "$1/etc/initramfs-tools/conf.d" && echo MODULES=list >"$1/etc/initramfs-tools/conf.d/small" && ` +
		`printf 'virtio_pci\nvirtio_blk\next4\n' >"$1/etc/initramfs-tools/modules"`
	if err := run(ctx, "mmdebstrap", "--variant=minbase", "--include="+strings.Join(packages, ","), "--essential-hook="+modules,
		"--customize-hook=cp -r "+filepath.Join(recipeDir, "files")+`/. "$1"`, "--customize-hook=sh "+filepath.Join(recipeDir, "finish")+` "$1"`,
		"bookworm", root); err != nil {
		return err
	}
	if err := os.Mkdir(image, 0o755); err != nil {
		return err
	}
	for name, pattern := range map[string]string{"vmlinuz": "boot/vmlinuz-*", "initrd": "boot/initrd.img-*"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("find %s: %v are there", pattern, found)
		}
		if err := os.Rename(found[0], filepath.Join(image, name)); err != nil {
			return err
		}
	}
	return run(ctx, "mkfs.ext4", "-q", "-F", "-L", "root", "-d", root, filepath.Join(image, "disk"), diskBytes)
}

// listed reads a list with a reason behind each # sign.
func listed(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var words []string
	for line := range strings.Lines(string(text)) {
		word, _, _ := strings.Cut(line, "#")
		words = append(words, strings.Fields(word)...)
	}
	return words, nil
}

func run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		tail := said.Bytes()
		if len(tail) > 2000 {
			tail = tail[len(tail)-2000:]
		}
		return fmt.Errorf("%s: %w\n%s", name, err, tail)
	}
	return nil
}
