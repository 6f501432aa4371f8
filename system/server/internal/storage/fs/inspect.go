package fs

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path"
	"syscall"
	"time"
)

// Facts are what the file system says of one entry below the root, for whoever
// compares the store with the rows that name its objects.
type Facts struct {
	Place    string // below the root, with slashes
	Key      string // that leads here, "" for what this package did not put there
	Size     int64
	Modified time.Time
	Mode     iofs.FileMode
	Links    uint64
	Owner    int // uid
}

// Temporary reports whether the entry is a body on its way in, or left over.
func (f Facts) Temporary() bool { return path.Dir(f.Place) == tmpFolder }

// Owner is the uid that owns the root, and should own all below it.
func (s *Store) Owner() int { return s.owner }

// FileMode is the mode of every object.
const FileMode iofs.FileMode = fileMode

// Empty reports whether nothing is stored and nothing is on its way in.
func (s *Store) Empty(ctx context.Context) (bool, error) {
	stop := errors.New("something is there")
	err := s.Walk(ctx, func(Facts) error { return stop })
	if errors.Is(err, stop) {
		return false, nil
	}
	return err == nil, err
}

// Walk calls each for every entry below the root but the layout's own folders,
// what this package did not make included. It follows no link. An entry that goes
// while the walk is on is passed.
func (s *Store) Walk(ctx context.Context, each func(Facts) error) error {
	if err := s.walk(ctx, s.root, "", each); err != nil {
		return err
	}
	if err := s.walk(ctx, s.tmp, tmpFolder, each); err != nil {
		return err
	}
	if err := s.walk(ctx, s.objects, objectsFolder, each); err != nil {
		return err
	}
	for i := range 256 {
		name := shardName(byte(i))
		shard, err := openFolder(s.objects, name)
		if err != nil {
			return err
		}
		err = s.walk(ctx, shard, path.Join(objectsFolder, name), each)
		if err = errors.Join(err, shard.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) walk(ctx context.Context, folder *os.Root, place string, each func(Facts) error) error {
	names, err := namesOf(folder)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		info, err := folder.Lstat(name)
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("look at %s: %w", path.Join(place, name), err)
		}
		if info.IsDir() && isLayout(place, name) {
			continue
		}
		if err := each(factsOf(place, name, info)); err != nil {
			return err
		}
	}
	return nil
}

func isLayout(place, name string) bool {
	switch place {
	case "":
		return name == tmpFolder || name == objectsFolder
	case objectsFolder:
		return len(name) == 2 && isHex(name[0]) && isHex(name[1])
	}
	return false
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }

func factsOf(place, name string, info iofs.FileInfo) Facts {
	f := Facts{Place: path.Join(place, name), Size: info.Size(), Modified: info.ModTime(), Mode: info.Mode(), Owner: ownerOf(info)}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		f.Links = uint64(st.Nlink) //nolint:unconvert // its width differs between architectures
	}
	if path.Dir(place) == objectsFolder {
		if key, ok := keyOf(path.Base(place), name); ok {
			f.Key = key
		}
	}
	return f
}

func ownerOf(info iofs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// Look returns the facts of a key; an error that wraps fs.ErrNotExist where
// nothing is there.
func (s *Store) Look(ctx context.Context, key string) (Facts, error) {
	if err := ctx.Err(); err != nil {
		return Facts{}, err
	}
	folder, name, err := s.shard(key)
	if err != nil {
		return Facts{}, err
	}
	defer folder.Close()
	info, err := folder.Lstat(name)
	if err != nil {
		return Facts{}, fmt.Errorf("look at a stored object: %w", err)
	}
	shard, _, _ := place(key)
	return factsOf(path.Join(objectsFolder, shard), name, info), nil
}

// RemoveTemporary removes the entry at place if it is a temporary file that nobody
// writes any more, as SweepTemp does with all of them.
func (s *Store) RemoveTemporary(place string, age time.Duration) (removed bool, err error) {
	if path.Dir(place) != tmpFolder {
		return false, fmt.Errorf("%s is no temporary file", place)
	}
	return s.sweepTempFile(path.Base(place), time.Now().Add(-age))
}

// SetRight gives a plain object the mode that every object has, and, where the
// caller may, the root's owner.
func (s *Store) SetRight(ctx context.Context, key string) error {
	content, err := s.Open(ctx, key)
	if err != nil {
		return err
	}
	defer content.Close()
	f, ok := content.(*os.File)
	if !ok {
		return errors.New("a stored object is no file")
	}
	if err := f.Chmod(fileMode); err != nil {
		return storageError("set the mode of a stored object", err)
	}
	if err := f.Chown(s.owner, -1); err != nil {
		return storageError("set the owner of a stored object", err)
	}
	return nil
}
