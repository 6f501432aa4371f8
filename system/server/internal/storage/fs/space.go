package fs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"glovebox/system/server/internal/jobs/domain"
)

// checkEvery is how many bytes may be written between two looks at the free
// space. The floor can be undershot by this much for each body on its way in.
const checkEvery = 8 << 20

// available returns the bytes that the file system would still give this process.
func (s *Store) available() (int64, error) {
	dir, err := s.root.Open(".")
	if err != nil {
		return 0, fmt.Errorf("open storage root: %w", err)
	}
	defer dir.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &st); err != nil {
		return 0, fmt.Errorf("look at the free space of the storage: %w", err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// roomFor refuses when writing n more bytes would go below the floor (UPL-04).
func (s *Store) roomFor(n int64) error {
	if s.opts.MinFree <= 0 {
		return nil
	}
	free, err := s.available()
	if err != nil {
		return err
	}
	if free-n < s.opts.MinFree {
		return noRoom(fmt.Errorf("%d bytes free, %d must stay free (limits.min_free_bytes)", free, s.opts.MinFree))
	}
	return nil
}

// storageError turns an error of the file system into a refusal where it means
// that there is no room; anything else stays an internal fault.
func storageError(doing string, err error) error {
	err = fmt.Errorf("%s: %w", doing, err)
	for _, full := range []error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EFBIG} {
		if errors.Is(err, full) {
			return noRoom(err)
		}
	}
	return err
}

func noRoom(cause error) error {
	return &domain.Error{Code: domain.CodeInsufficientStorage, Message: "the server has no room for this now; try again later", Cause: cause}
}
