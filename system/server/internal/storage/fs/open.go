package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Open returns the bytes of a committed key; see jobs.Blobs. What it returns is
// an *os.File, so that a caller can tell by Stat whether the file is still the
// one it checked. A link, a device, a pipe or a file with a second link under the
// name is refused, and none of them is opened on the way.
func (s *Store) Open(ctx context.Context, key string) (io.ReadSeekCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	folder, name, err := s.shard(key)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	seen, err := folder.Lstat(name)
	if err != nil {
		return nil, fmt.Errorf("open a stored object: %w", err)
	}
	if err := plainFile(seen); err != nil {
		return nil, fmt.Errorf("open a stored object: %w", err)
	}
	// O_NONBLOCK: should a pipe be swapped in right now, the open returns and the
	// comparison below refuses it.
	f, err := folder.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a stored object: %w", err)
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(seen, opened) {
		err = errors.New("it changed while it was opened")
	}
	if err == nil {
		err = plainFile(opened)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("open a stored object: %w", err)
	}
	return f, nil
}
