// Package blobtest is the conformance suite of jobs.Blobs: every adapter and the
// fake run it.
package blobtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"sync"
	"testing"
	"testing/iotest"

	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
)

// Store is what the suite needs beyond the port: a way to take bytes away.
type Store interface {
	jobs.Blobs
	Remove(ctx context.Context, key string) error
}

// Subject is a store under test and an eye on what it holds.
type Subject struct {
	Store Store
	// Leftovers counts what the store holds besides the committed objects:
	// temporary files, reserved bytes. It must be zero after every case.
	Leftovers func(t *testing.T) int
}

// Exercise runs the suite; open gives a fresh, empty store for each case.
func Exercise(t *testing.T, open func(t *testing.T) Subject) {
	cases := []struct {
		name string
		run  func(t *testing.T, s Store)
	}{
		{"bytes come back whole at every size around a buffer", wholeAtEverySize},
		{"short reads change nothing", shortReads},
		{"a reader that gives its last bytes together with the end", dataWithEOF},
		{"one byte over the limit is refused", overTheLimit},
		{"exactly the limit is taken", exactlyTheLimit},
		{"an endless body is refused at the limit", endless},
		{"a broken body is the reader's own error", brokenBody},
		{"a reader that never gives anything ends", noProgress},
		{"a cancelled context stops a running body", cancelled},
		{"what is staged cannot be opened", stagedIsInvisible},
		{"discard drops, twice as well as once", discardTwice},
		{"discard after commit does nothing", discardAfterCommit},
		{"a committed key is never replaced", neverReplaced},
		{"commit twice is refused", commitTwice},
		{"a missing key is fs.ErrNotExist", missing},
		{"seek and read a part", seeks},
		{"removal leaves an open reader alone", removeWhileOpen},
		{"removal of what is not there is no error", removeMissing},
		{"many bodies at once keep apart", parallel},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			c.run(t, s.Store)
			if n := s.Leftovers(t); n != 0 {
				t.Errorf("%d leftovers after the case, want none", n)
			}
		})
	}
}

const testKey = "inputs/0197f0aa-0000-7000-8000-000000000001/1-0123456789abcdef"

func random(t *testing.T, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

func stage(t *testing.T, s Store, body io.Reader, limit int64) jobs.Staged {
	t.Helper()
	st, err := s.Stage(t.Context(), body, limit)
	if err != nil {
		t.Fatalf("stage: %v", err)
	}
	return st
}

func commit(t *testing.T, s Store, key string, content []byte) {
	t.Helper()
	st := stage(t, s, bytes.NewReader(content), int64(len(content)))
	if err := st.Commit(t.Context(), key); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func wantContent(t *testing.T, s Store, key string, want []byte) {
	t.Helper()
	r, err := s.Open(t.Context(), key)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer r.Close()
	got, err := io.ReadAll(io.LimitReader(r, 64<<20))
	if err != nil {
		t.Fatalf("read back: %v", err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("read back %d bytes that differ from the %d stored", len(got), len(want))
	}
}

func wantCode(t *testing.T, err error, want domain.Code) {
	t.Helper()
	if domain.CodeOf(err) != want {
		t.Fatalf("error %v has code %q, want %q", err, domain.CodeOf(err), want)
	}
}

func wholeAtEverySize(t *testing.T, s Store) {
	const kib, mib = 1 << 10, 1 << 20
	for i, n := range []int{0, 1, 64*kib - 1, 64 * kib, 64*kib + 1, mib - 1, mib, mib + 1, mib + 64*kib, 2*mib + 17, 7*mib + 3} {
		content := random(t, n)
		st := stage(t, s, bytes.NewReader(content), int64(n))
		if st.Size() != int64(n) {
			t.Fatalf("size of %d bytes is %d", n, st.Size())
		}
		if st.SHA256() != sha256.Sum256(content) {
			t.Fatalf("sha256 of %d bytes is wrong", n)
		}
		key := fmt.Sprintf("%s%02d", testKey, i)
		if err := st.Commit(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		wantContent(t, s, key, content)
	}
}

func shortReads(t *testing.T, s Store) {
	content := random(t, 3<<20+5)
	for i, r := range []io.Reader{iotest.HalfReader(bytes.NewReader(content)), &ragged{r: bytes.NewReader(content)}} {
		st := stage(t, s, r, int64(len(content)))
		if st.SHA256() != sha256.Sum256(content) {
			t.Fatal("sha256 is wrong")
		}
		if err := st.Commit(t.Context(), fmt.Sprint(testKey, i)); err != nil {
			t.Fatal(err)
		}
		wantContent(t, s, fmt.Sprint(testKey, i), content)
	}
}

// ragged reads pieces of changing size, some of them empty.
type ragged struct {
	r io.Reader
	n int
}

func (r *ragged) Read(p []byte) (int, error) {
	r.n++
	if r.n%5 == 0 {
		return 0, nil
	}
	return r.r.Read(p[:min(len(p), 1+r.n*7919%70000)])
}

func dataWithEOF(t *testing.T, s Store) {
	for i, n := range []int{10, 2 << 20} {
		content := random(t, n)
		st := stage(t, s, iotest.DataErrReader(bytes.NewReader(content)), int64(n))
		if err := st.Commit(t.Context(), fmt.Sprint(testKey, i)); err != nil {
			t.Fatal(err)
		}
		wantContent(t, s, fmt.Sprint(testKey, i), content)
	}
}

func overTheLimit(t *testing.T, s Store) {
	for _, limit := range []int{0, 100, 1 << 20, 5 << 20} {
		_, err := s.Stage(t.Context(), bytes.NewReader(random(t, limit+1)), int64(limit))
		wantCode(t, err, domain.CodeTooLarge)
	}
}

func exactlyTheLimit(t *testing.T, s Store) {
	for i, limit := range []int{0, 100, 1 << 20, 5 << 20} {
		commit(t, s, fmt.Sprint(testKey, i), random(t, limit))
	}
}

func endless(t *testing.T, s Store) {
	read := &counter{}
	_, err := s.Stage(t.Context(), read, 3<<20)
	wantCode(t, err, domain.CodeTooLarge)
	// What was read beyond the limit is bounded by the buffers.
	if read.n > 3<<20+8<<20 {
		t.Fatalf("%d bytes were read of a body limited to %d", read.n, 3<<20)
	}
}

type counter struct{ n int64 }

func (c *counter) Read(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }

var errBroken = errors.New("the connection broke")

func brokenBody(t *testing.T, s Store) {
	for _, n := range []int{0, 1000, 3 << 20} {
		_, err := s.Stage(t.Context(), io.MultiReader(bytes.NewReader(random(t, n)), iotest.ErrReader(errBroken)), 1<<30)
		if !errors.Is(err, errBroken) {
			t.Fatalf("after %d bytes the error is %v, want the reader's", n, err)
		}
	}
}

func noProgress(t *testing.T, s Store) {
	_, err := s.Stage(t.Context(), stuck{}, 10)
	if !errors.Is(err, io.ErrNoProgress) {
		t.Fatalf("error is %v, want %v", err, io.ErrNoProgress)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func cancelled(t *testing.T, s Store) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	body := readerFunc(func(p []byte) (int, error) {
		if n += len(p); n > 2<<20 {
			cancel()
		}
		return len(p), nil
	})
	if _, err := s.Stage(ctx, body, 1<<30); !errors.Is(err, context.Canceled) {
		t.Fatalf("error is %v, want %v", err, context.Canceled)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func stagedIsInvisible(t *testing.T, s Store) {
	st := stage(t, s, bytes.NewReader([]byte("x")), 1)
	if _, err := s.Open(t.Context(), testKey); !errors.Is(err, iofs.ErrNotExist) {
		t.Fatalf("error is %v, want %v", err, iofs.ErrNotExist)
	}
	if err := st.Discard(); err != nil {
		t.Fatal(err)
	}
}

func discardTwice(t *testing.T, s Store) {
	st := stage(t, s, bytes.NewReader(random(t, 2<<20)), 2<<20)
	for range 2 {
		if err := st.Discard(); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Commit(t.Context(), testKey); err == nil {
		t.Fatal("a discarded body could be committed")
	}
}

func discardAfterCommit(t *testing.T, s Store) {
	content := random(t, 1000)
	st := stage(t, s, bytes.NewReader(content), 1000)
	if err := st.Commit(t.Context(), testKey); err != nil {
		t.Fatal(err)
	}
	if err := st.Discard(); err != nil {
		t.Fatal(err)
	}
	wantContent(t, s, testKey, content)
}

func neverReplaced(t *testing.T, s Store) {
	first := random(t, 100)
	commit(t, s, testKey, first)
	st := stage(t, s, bytes.NewReader(random(t, 100)), 100)
	if err := st.Commit(t.Context(), testKey); !errors.Is(err, iofs.ErrExist) {
		t.Fatalf("error is %v, want %v", err, iofs.ErrExist)
	}
	if err := st.Discard(); err != nil {
		t.Fatal(err)
	}
	wantContent(t, s, testKey, first)
}

func commitTwice(t *testing.T, s Store) {
	st := stage(t, s, bytes.NewReader([]byte("x")), 1)
	if err := st.Commit(t.Context(), testKey); err != nil {
		t.Fatal(err)
	}
	if err := st.Commit(t.Context(), testKey+"-other"); err == nil {
		t.Fatal("a committed body could be committed again")
	}
}

func missing(t *testing.T, s Store) {
	if _, err := s.Open(t.Context(), testKey); !errors.Is(err, iofs.ErrNotExist) {
		t.Fatalf("error is %v, want %v", err, iofs.ErrNotExist)
	}
}

func seeks(t *testing.T, s Store) {
	content := random(t, 3<<20)
	commit(t, s, testKey, content)
	r, err := s.Open(t.Context(), testKey)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if end, err := r.Seek(0, io.SeekEnd); err != nil || end != int64(len(content)) {
		t.Fatalf("the end is at %d (%v), want %d", end, err, len(content))
	}
	if _, err := r.Seek(1<<20, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1000)
	if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, content[1<<20:1<<20+1000]) {
		t.Fatalf("the part read after a seek differs (%v)", err)
	}
}

func removeWhileOpen(t *testing.T, s Store) {
	content := random(t, 3<<20)
	commit(t, s, testKey, content)
	r, err := s.Open(t.Context(), testKey)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := s.Remove(t.Context(), testKey); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(io.LimitReader(r, 64<<20))
	if err != nil || !bytes.Equal(got, content) {
		t.Fatalf("a reader that was open lost its bytes (%v)", err)
	}
	missing(t, s)
}

func removeMissing(t *testing.T, s Store) {
	if err := s.Remove(t.Context(), testKey); err != nil {
		t.Fatal(err)
	}
}

func parallel(t *testing.T, s Store) {
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			content := bytes.Repeat([]byte{byte(i)}, 1<<20+i*100_000)
			st, err := s.Stage(t.Context(), bytes.NewReader(content), 1<<30)
			if err != nil {
				t.Error(err)
				return
			}
			if st.SHA256() != sha256.Sum256(content) {
				t.Error("bodies got mixed")
			}
			if i%3 == 0 {
				_ = st.Discard()
			} else if err := st.Commit(t.Context(), fmt.Sprint(testKey, i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
