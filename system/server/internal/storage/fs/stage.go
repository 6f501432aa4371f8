package fs

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"

	"golang.org/x/sys/unix"

	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/crashpoint"
)

// staged is a body that has arrived whole in tmp/.
type staged struct {
	store *Store
	file  *os.File // nil after Commit or Discard
	name  string
	size  int64
	sum   [32]byte
}

// Stage streams body into tmp/ while it hashes and counts; see jobs.Blobs.
func (s *Store) Stage(ctx context.Context, body io.Reader, limit int64) (jobs.Staged, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	file, name, err := s.createTemp()
	if err != nil {
		return nil, err
	}
	st := &staged{store: s, file: file, name: name}
	if st.size, st.sum, err = s.take(ctx, file, body, limit); err != nil {
		_ = st.Discard()
		return nil, err
	}
	return st, nil
}

// createTemp makes a file of a random name and locks it: a temporary file whose
// lock is free belongs to nobody any more, however its writer ended (UPL-08).
func (s *Store) createTemp() (*os.File, string, error) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	name := hex.EncodeToString(random[:])
	f, err := s.tmp.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, fileMode)
	if err != nil {
		return nil, "", storageError("create a temporary file", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil && s.opts.OwnedLikeRoot {
		err = f.Chown(s.owner, -1)
	}
	if err != nil {
		_ = f.Close()
		_ = s.tmp.Remove(name)
		return nil, "", storageError("take a temporary file", err)
	}
	return f, name, nil
}

// Size implements jobs.Staged.
func (st *staged) Size() int64 { return st.size }

// SHA256 implements jobs.Staged.
func (st *staged) SHA256() [32]byte { return st.sum }

// Commit makes the bytes durable under key. A key that exists is never replaced.
// On an error the bytes are still staged, or, after the rename, an orphan.
func (st *staged) Commit(ctx context.Context, key string) error {
	if st.file == nil {
		return errors.New("commit of a body that was already committed or discarded")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	folder, name, err := st.store.shard(key)
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := st.file.Sync(); err != nil {
		return storageError("sync a body", err)
	}
	crashpoint.Reached(crashpoint.StoreSynced)
	if err := st.moveInto(folder, name); err != nil {
		return err
	}
	crashpoint.Reached(crashpoint.StoreRenamed)
	// From here the name in tmp/ is gone, and closing lets the lock go.
	err = st.file.Close()
	st.file = nil
	if err != nil {
		return storageError("close a body", err)
	}
	for _, f := range []*os.Root{folder, st.store.tmp} {
		if err := syncFolder(f); err != nil {
			return storageError("sync a storage folder", err)
		}
	}
	return nil
}

// moveInto renames the temporary file into folder. The kernel refuses to replace,
// and what lies there afterwards must be the file that was written: a link or
// another file put in its place in between is taken out again.
func (st *staged) moveInto(folder *os.Root, name string) error {
	from, err := st.store.tmp.Open(".")
	if err != nil {
		return fmt.Errorf("open the temporary folder: %w", err)
	}
	defer from.Close()
	to, err := folder.Open(".")
	if err != nil {
		return fmt.Errorf("open an object folder: %w", err)
	}
	defer to.Close()
	if err := unix.Renameat2(int(from.Fd()), st.name, int(to.Fd()), name, unix.RENAME_NOREPLACE); err != nil {
		if errors.Is(err, unix.EINVAL) {
			return errors.New("the storage file system cannot rename without replacing (RENAME_NOREPLACE); use another one")
		}
		return storageError("move a body to its place", err)
	}
	written, err := st.file.Stat()
	if err != nil {
		return fmt.Errorf("look at a body: %w", err)
	}
	placed, err := folder.Lstat(name)
	if err == nil && !os.SameFile(written, placed) {
		err = errors.New("another file stands in its place")
	}
	if err == nil {
		err = plainFile(placed)
	}
	if err == nil && placed.Size() != st.size {
		err = fmt.Errorf("it has %d bytes, %d were written", placed.Size(), st.size)
	}
	if err != nil {
		_ = folder.Remove(name)
		return fmt.Errorf("a body was tampered with before it was committed: %w", err)
	}
	return nil
}

// Discard drops the bytes; after Commit it does nothing.
func (st *staged) Discard() error {
	if st.file == nil {
		return nil
	}
	// Remove before the lock goes with the close: the sweeper must not race us to
	// a name that could by then be another's.
	err := st.store.tmp.Remove(st.name)
	if errors.Is(err, iofs.ErrNotExist) {
		err = nil
	}
	closeErr := st.file.Close()
	st.file = nil
	return errors.Join(err, closeErr)
}
