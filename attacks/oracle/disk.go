package oracle

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Entry is one name on disk, as lstat tells it.
type Entry struct {
	Mode   fs.FileMode
	UID    uint32
	GID    uint32
	Size   int64
	Links  uint64
	Inode  uint64
	Device uint64
	Target string // of a symbolic link
	SHA256 string // of a regular file that was asked for with content
}

// String shows what a comparison found.
func (e Entry) String() string {
	text := fmt.Sprintf("%s uid=%d gid=%d size=%d links=%d", e.Mode, e.UID, e.GID, e.Size, e.Links)
	if e.Target != "" {
		text += " -> " + e.Target
	}
	if e.SHA256 != "" {
		text += " sha256=" + e.SHA256[:12]
	}
	return text
}

// Inventory is every name below a folder, by its path relative to it.
type Inventory map[string]Entry

// Disk walks root without following any link. With content, regular files are
// hashed as they stream by. A name that goes while it is looked at is left out.
func Disk(root string, content bool) (Inventory, error) {
	all := Inventory{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != root {
			return nil
		}
		if err != nil {
			return err
		}
		entry, err := look(path, content)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		all[relative] = entry
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("walk %s: %w", filepath.Base(root), err)
	}
	return all, nil
}

func look(path string, content bool) (Entry, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return Entry{}, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Entry{}, errors.New("the file system tells no owner")
	}
	e := Entry{
		Mode: info.Mode(), UID: stat.Uid, GID: stat.Gid, Size: info.Size(), Links: uint64(stat.Nlink), Inode: stat.Ino, Device: stat.Dev,
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		e.Target, err = os.Readlink(path)
	case content && info.Mode().IsRegular():
		e.SHA256, err = hashFile(path)
	}
	return e, err
}

func hashFile(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Below returns the regular files whose path begins with prefix.
func (i Inventory) Below(prefix string) []string {
	var files []string
	for path, e := range i {
		if e.Mode.IsRegular() && strings.HasPrefix(path, prefix) {
			files = append(files, path)
		}
	}
	slices.Sort(files)
	return files
}

// Bytes sums the regular files.
func (i Inventory) Bytes() (sum int64) {
	for _, e := range i {
		if e.Mode.IsRegular() {
			sum += e.Size
		}
	}
	return sum
}

// Diff tells what is different in later: "+", "-" or "~", the path, what it was
// and is. Sizes and links of folders follow from their content and do not count.
func (i Inventory) Diff(later Inventory) []string {
	var lines []string
	for _, path := range slices.Sorted(maps.Keys(i)) {
		was, now := i[path], later[path]
		if _, there := later[path]; !there {
			lines = append(lines, fmt.Sprintf("- %s (%s)", path, was))
			continue
		}
		if was.Mode.IsDir() && now.Mode.IsDir() {
			was.Size, was.Links, now.Size, now.Links = 0, 0, 0, 0
		}
		if was != now {
			lines = append(lines, fmt.Sprintf("~ %s (%s) is now (%s)", path, was, now))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(later)) {
		if _, there := i[path]; !there {
			lines = append(lines, fmt.Sprintf("+ %s (%s)", path, later[path]))
		}
	}
	return lines
}
