package fs

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/system/platform/clock"
)

// List returns at most limit committed objects after the given cursor ("" for
// the first page) in a fixed order, and the cursor of the next page ("" after the
// last). What this package did not put there is not listed and not touched.
func (s *Store) List(ctx context.Context, after string, limit int) (page []Entry, next string, err error) {
	fromShard, fromName, _ := strings.Cut(after, "/")
	for i := range 256 {
		shard := shardName(byte(i))
		if shard < fromShard {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, "", err
		}
		entries, err := s.listShard(shard)
		if err != nil {
			return nil, "", err
		}
		for _, e := range entries {
			if shard == fromShard && e.name <= fromName {
				continue
			}
			if len(page) == limit {
				return page, next, nil
			}
			page = append(page, e.Entry)
			next = shard + "/" + e.name
		}
	}
	return page, "", nil
}

type namedEntry struct {
	Entry
	name string
}

func (s *Store) listShard(shard string) ([]namedEntry, error) {
	folder, err := openFolder(s.objects, shard)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	names, err := namesOf(folder)
	if err != nil {
		return nil, err
	}
	entries := make([]namedEntry, 0, len(names))
	for _, name := range names {
		key, ok := keyOf(shard, name)
		if !ok {
			continue
		}
		info, err := folder.Lstat(name)
		if errors.Is(err, iofs.ErrNotExist) {
			continue // removed since the folder was read
		}
		if err != nil {
			return nil, fmt.Errorf("look at a stored object: %w", err)
		}
		entries = append(entries, namedEntry{Entry{key, info.Size(), info.ModTime()}, name})
	}
	return entries, nil
}

func namesOf(folder *os.Root) ([]string, error) {
	dir, err := folder.Open(".")
	if err != nil {
		return nil, fmt.Errorf("open a storage folder: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list a storage folder: %w", err)
	}
	slices.Sort(names)
	return names, nil
}

// Remove deletes the bytes of a key. Removing what is not there is no error. A
// download that has the file open goes on to its end (STO-05).
func (s *Store) Remove(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	folder, name, err := s.shard(key)
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := folder.Remove(name); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return storageError("remove a stored object", err)
	}
	return syncFolder(folder)
}

// SweepTemp removes temporary files that nobody writes any more: not touched for
// at least age, and with a free lock, which a living writer holds. For a process
// that may delete and not read, the age alone decides. It returns how many it
// removed.
func (s *Store) SweepTemp(ctx context.Context, age time.Duration) (removed int, err error) {
	names, err := namesOf(s.tmp)
	if err != nil {
		return 0, err
	}
	horizon := clock.Now().Add(-age)
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return removed, err
		}
		gone, err := s.sweepTempFile(name, horizon)
		if err != nil {
			return removed, err
		}
		if gone {
			removed++
		}
	}
	return removed, nil
}

func (s *Store) sweepTempFile(name string, horizon time.Time) (bool, error) {
	seen, err := s.tmp.Lstat(name)
	if errors.Is(err, iofs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at a temporary file: %w", err)
	}
	if seen.ModTime().After(horizon) {
		return false, nil
	}
	if seen.Mode().IsRegular() {
		f, err := s.tmp.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		switch {
		case errors.Is(err, iofs.ErrNotExist):
			return false, nil
		case errors.Is(err, iofs.ErrPermission):
			// The sweeper of another user: only the age can tell.
		case err != nil:
			return false, fmt.Errorf("open a temporary file: %w", err)
		default:
			defer f.Close()
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
				return false, nil // somebody is still writing it
			}
		}
	}
	if err := s.tmp.RemoveAll(name); err != nil {
		return false, storageError("remove a temporary file", err)
	}
	return true, nil
}
