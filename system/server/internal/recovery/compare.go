package recovery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"

	"glovebox/system/server/internal/storage/fs"
)

// compare reads the file of e in store and says how it differs from what e says,
// "" where it does not. err is of the reading alone.
func compare(store *fs.Store, e Entry) (why string, err error) {
	kind, detail, err := difference(context.Background(), store, e, true)
	if kind == "" || err != nil {
		return "", err
	}
	return detail, nil
}

// difference is compare with the kind of the difference. Without hash only what
// the file system says is looked at. Memory does not grow with the file.
func difference(ctx context.Context, store *fs.Store, e Entry, hash bool) (kind Kind, detail string, err error) {
	facts, err := store.Look(ctx, e.Key)
	if errors.Is(err, iofs.ErrNotExist) {
		return MissingFile, "there is no file", nil
	}
	if err != nil {
		return "", "", err
	}
	switch {
	case !facts.Mode.IsRegular():
		return NotPlain, fmt.Sprintf("it is no regular file (%s)", facts.Mode.Type()), nil
	case facts.Links != 1:
		return ExtraLink, fmt.Sprintf("it has %d links: the file is reachable by another name", facts.Links), nil
	case facts.Size != e.Size:
		return WrongSize, fmt.Sprintf("it has %d bytes, its row says %d", facts.Size, e.Size), nil
	case !hash:
		return "", "", nil
	}
	content, err := store.Open(ctx, e.Key)
	if errors.Is(err, iofs.ErrNotExist) {
		return MissingFile, "there is no file", nil
	}
	if err != nil {
		return "", "", err
	}
	defer content.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, reader{ctx, content}); err != nil {
		return "", "", err
	}
	if sum := hex.EncodeToString(digest.Sum(nil)); sum != e.SHA256 {
		return WrongHash, fmt.Sprintf("its SHA-256 is %s, its row says %s", sum, e.SHA256), nil
	}
	return "", "", nil
}

// reader ends a long reading when ctx does.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
