// Package memory is the storage port held in memory: a fake for tests that want
// no disk. It passes the same conformance suite as the real adapters.
package memory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"sync"

	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
)

// Store keeps bytes in a map. The zero value is not usable; call New.
type Store struct {
	mu      sync.Mutex
	objects map[string][]byte
	// capacity is the number of bytes of all objects and staged bodies together,
	// zero for no bound.
	capacity, used int64
}

// New returns an empty store that holds at most capacity bytes (zero: no bound).
func New(capacity int64) *Store {
	return &Store{objects: map[string][]byte{}, capacity: capacity}
}

// Stage implements jobs.Blobs.
func (s *Store) Stage(ctx context.Context, body io.Reader, limit int64) (jobs.Staged, error) {
	var content bytes.Buffer
	buf := make([]byte, 32<<10)
	st := &staged{store: s}
	for empty := 0; ; {
		if err := ctx.Err(); err != nil {
			return nil, errors.Join(err, st.Discard())
		}
		n, err := body.Read(buf)
		content.Write(buf[:n])
		if int64(content.Len()) > limit {
			_ = st.Discard()
			return nil, domain.Refuse(domain.CodeTooLarge, "the content is larger than %d bytes", limit)
		}
		if !s.reserve(int64(n)) {
			_ = st.Discard()
			return nil, domain.Refuse(domain.CodeInsufficientStorage, "the server has no room for this now; try again later")
		}
		st.reserved += int64(n)
		if err == io.EOF {
			st.content = content.Bytes()
			return st, nil
		}
		if err != nil {
			_ = st.Discard()
			return nil, err
		}
		if n > 0 {
			empty = 0
		} else if empty++; empty >= 100 {
			_ = st.Discard()
			return nil, io.ErrNoProgress
		}
	}
}

// Reserved returns the bytes that are neither free nor in a committed object.
func (s *Store) Reserved() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	reserved := s.used
	for _, content := range s.objects {
		reserved -= int64(len(content))
	}
	return reserved
}

func (s *Store) reserve(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.capacity > 0 && s.used+n > s.capacity {
		return false
	}
	s.used += n
	return true
}

// Open implements jobs.Blobs.
func (s *Store) Open(ctx context.Context, key string) (io.ReadSeekCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	content, ok := s.objects[key]
	if !ok {
		return nil, fmt.Errorf("open a stored object: %w", iofs.ErrNotExist)
	}
	return reader{bytes.NewReader(content)}, nil
}

// Remove deletes the bytes of a key; one that is not there is no error.
func (s *Store) Remove(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= int64(len(s.objects[key]))
	delete(s.objects, key)
	return nil
}

// Keys returns every committed key, in no particular order.
func (s *Store) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]string, 0, len(s.objects))
	for k := range s.objects {
		keys = append(keys, k)
	}
	return keys
}

type reader struct{ *bytes.Reader }

func (reader) Close() error { return nil }

type staged struct {
	store    *Store
	content  []byte
	reserved int64
	over     bool
}

func (st *staged) Size() int64      { return int64(len(st.content)) }
func (st *staged) SHA256() [32]byte { return sha256.Sum256(st.content) }

func (st *staged) Commit(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	st.store.mu.Lock()
	defer st.store.mu.Unlock()
	if _, taken := st.store.objects[key]; taken {
		return fmt.Errorf("move a body to its place: %w", iofs.ErrExist)
	}
	if st.over {
		return errors.New("commit of a body that was already committed or discarded")
	}
	st.over = true
	st.store.objects[key] = st.content
	return nil
}

func (st *staged) Discard() error {
	st.store.mu.Lock()
	defer st.store.mu.Unlock()
	if !st.over {
		st.over = true
		st.store.used -= st.reserved
	}
	return nil
}
