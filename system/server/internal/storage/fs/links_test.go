package fs_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"glovebox/system/server/internal/storage/fs"
	"glovebox/threat-model/evidence"
)

const key = "results/0197f0aa-0000-7000-8000-000000000001/1-0123456789abcdef"

// outside makes a file outside the storage that must neither be read nor change.
func outside(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(path, []byte("must not be touched"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if b, err := os.ReadFile(path); err != nil || string(b) != "must not be touched" {
			t.Errorf("the file outside the storage changed: %q, %v", b, err)
		}
	})
	return path
}

// committed stores content under key and returns the path of its file.
func committed(t *testing.T, s *fs.Store, dir, content string) string {
	t.Helper()
	st, err := s.Stage(t.Context(), strings.NewReader(content), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Commit(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	return objectPath(t, dir)
}

func objectPath(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "objects", "*", "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("objects on disk are %v (%v), want one", found, err)
	}
	return found[0]
}

// plants are what an intruder could put in place of a file.
var plants = []struct {
	name  string
	plant func(t *testing.T, path string)
}{
	{"a link out of the storage", func(t *testing.T, path string) { must(t, os.Symlink(outside(t), path)) }},
	{"a link to another file inside", func(t *testing.T, path string) {
		inner := filepath.Join(filepath.Dir(path), "inner")
		must(t, os.WriteFile(inner, []byte("inner"), 0o600))
		must(t, os.Symlink("inner", path))
	}},
	{"a dangling link", func(t *testing.T, path string) { must(t, os.Symlink("/nonexistent/file", path)) }},
	{"a hard link to a file outside", func(t *testing.T, path string) {
		far := filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(path))), "..", "far")
		must(t, os.WriteFile(far, []byte("far"), 0o600))
		must(t, os.Link(far, path))
	}},
	{"a pipe", func(t *testing.T, path string) { must(t, syscall.Mkfifo(path, 0o600)) }},
	{"a socket", func(t *testing.T, path string) {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		must(t, err)
		defer syscall.Close(fd)
		short := filepath.Join(os.TempDir(), "gbx-sock-"+filepath.Base(filepath.Dir(path)))
		_ = os.Remove(short)
		must(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: short}))
		must(t, os.Rename(short, path))
	}},
	{"a folder", func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) }},
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefusesWhatIsNotOurFile(t *testing.T) {
	evidence.Proves(t, "UPL-06", "STO-01")
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			s, dir := open(t, fs.Options{})
			path := committed(t, s, dir, "content")
			must(t, os.Remove(path))
			p.plant(t, path)
			done := make(chan error, 1)
			go func() {
				r, err := s.Open(t.Context(), key)
				if err == nil {
					b, _ := io.ReadAll(io.LimitReader(r, 100))
					t.Errorf("%s was opened and gave %q", p.name, b)
					_ = r.Close()
				}
				done <- err
			}()
			select {
			case <-done:
			case <-time.After(10 * time.Second):
				t.Fatalf("opening %s hangs", p.name)
			}
		})
	}
}

func TestOpenRefusesASecondLink(t *testing.T) {
	evidence.Proves(t, "UPL-06")
	s, dir := open(t, fs.Options{})
	path := committed(t, s, dir, "content")
	must(t, os.Link(path, filepath.Join(t.TempDir(), "second")))
	if _, err := s.Open(t.Context(), key); err == nil {
		t.Fatal("a file with a second link was opened")
	}
}

func TestCommitRefusesWhatWasSwappedIn(t *testing.T) {
	evidence.Proves(t, "UPL-06", "STO-02")
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			s, dir := open(t, fs.Options{})
			st, err := s.Stage(t.Context(), strings.NewReader("content"), 100)
			must(t, err)
			tmp := temporaryFiles(t, dir)[0]
			must(t, os.Remove(tmp))
			p.plant(t, tmp)
			if err := st.Commit(t.Context(), key); err == nil {
				t.Fatalf("%s in place of the temporary file was committed", p.name)
			}
			_ = st.Discard()
			if _, err := s.Open(t.Context(), key); err == nil {
				t.Fatalf("%s can be opened as a committed object", p.name)
			}
		})
	}
}

func TestCommitNeverReplacesNorFollowsWhatIsPlanted(t *testing.T) {
	evidence.Proves(t, "UPL-06", "STO-02")
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			s, dir := open(t, fs.Options{})
			path := committed(t, s, dir, "content")
			must(t, os.Remove(path))
			p.plant(t, path)
			before, err := os.Lstat(path)
			must(t, err)
			st, err := s.Stage(t.Context(), strings.NewReader("other content"), 100)
			must(t, err)
			if err := st.Commit(t.Context(), key); err == nil {
				t.Fatalf("%s was replaced or written through", p.name)
			}
			must(t, st.Discard())
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
				t.Fatalf("%s was replaced (%v)", p.name, err)
			}
		})
	}
}

func TestAFolderReplacedByALinkLeadsNowhere(t *testing.T) {
	evidence.Proves(t, "UPL-06")
	for _, where := range []string{"outside", "inside"} {
		t.Run(where, func(t *testing.T) {
			s, dir := open(t, fs.Options{})
			path := committed(t, s, dir, "content")
			shard := filepath.Dir(path)
			far := filepath.Join(t.TempDir(), "far")
			if where == "inside" {
				far = filepath.Join(dir, "objects", "far")
			}
			must(t, os.Rename(shard, far))
			must(t, os.Symlink(far, shard))
			if _, err := s.Open(t.Context(), key); err == nil {
				t.Error("open followed a linked folder")
			}
			if err := s.Remove(t.Context(), key); err == nil {
				t.Error("remove followed a linked folder")
			}
			if _, _, err := s.List(t.Context(), "", 10); err == nil {
				t.Error("list followed a linked folder")
			}
			st, err := s.Stage(t.Context(), strings.NewReader("x"), 1)
			must(t, err)
			if err := st.Commit(t.Context(), key+"2"); err == nil && strings.HasPrefix(objectShard(t, dir, key+"2"), far) {
				t.Error("commit followed a linked folder")
			}
			_ = st.Discard()
			if _, err := os.Lstat(filepath.Join(far, filepath.Base(path))); err != nil {
				t.Errorf("the file behind the link is gone: %v", err)
			}
		})
	}
}

func objectShard(t *testing.T, dir, key string) string {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(dir, "objects", "*", strings.ReplaceAll(key, "/", "~")))
	if len(found) == 0 {
		return ""
	}
	real, err := filepath.EvalSymlinks(found[0])
	must(t, err)
	return filepath.Dir(real)
}

func TestALinkedLayoutIsRefusedAtStart(t *testing.T) {
	evidence.Proves(t, "UPL-06")
	for _, folder := range []string{"tmp", "objects", "objects/7f"} {
		_, dir := open(t, fs.Options{})
		must(t, os.RemoveAll(filepath.Join(dir, folder)))
		must(t, os.Symlink(t.TempDir(), filepath.Join(dir, folder)))
		if s, err := fs.New(dir, fs.Options{}); err == nil {
			_ = s.Close()
			t.Errorf("a storage whose %s is a link was opened", folder)
		}
	}
}

func TestAStorageOpenToEveryoneIsRefused(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	if _, err := fs.New(dir, fs.Options{}); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Fatalf("error is %v, want one that names the remedy", err)
	}
}

func TestKeysThatAreNotOursAreRefused(t *testing.T) {
	evidence.Proves(t, "UPL-05", "UPL-06")
	s, dir := open(t, fs.Options{})
	for _, bad := range []string{
		"", ".", "..", "../x", "a/../b", "/etc/passwd", "a//b", "a/", "/a", "a\x00b", "a\\b", "A", "a~b", "é", "a b", ".hidden", "-a", "a/.b",
		"tmp/../../x", strings.Repeat("a", fs.MaxKeyBytes+1),
	} {
		if _, err := s.Open(t.Context(), bad); err == nil {
			t.Errorf("key %q was opened", bad)
		}
		if err := s.Remove(t.Context(), bad); err == nil {
			t.Errorf("key %q was removed", bad)
		}
		st, err := s.Stage(t.Context(), strings.NewReader("x"), 1)
		must(t, err)
		if err := st.Commit(t.Context(), bad); err == nil {
			t.Errorf("key %q was committed", bad)
		}
		must(t, st.Discard())
	}
	found, _ := filepath.Glob(filepath.Join(dir, "objects", "*", "*"))
	if len(found) != 0 {
		t.Fatalf("bad keys left %v", found)
	}
}

func TestModesAndNames(t *testing.T) {
	evidence.Proves(t, "UPL-05")
	s, dir := open(t, fs.Options{})
	committed(t, s, dir, "content")
	st, err := s.Stage(t.Context(), bytes.NewReader(make([]byte, 2<<20)), 2<<20)
	must(t, err)
	defer func() { must(t, st.Discard()) }()
	must(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		want := os.FileMode(0o600)
		if info.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %04o, want %04o", path, info.Mode().Perm(), want)
		}
		return err
	}))
}

// TestCommitRefusesAnotherFileOfTheSameSize: only the inode tells it from ours.
func TestCommitRefusesAnotherFileOfTheSameSize(t *testing.T) {
	evidence.Proves(t, "STO-02", "UPL-06")
	s, dir := open(t, fs.Options{})
	st, err := s.Stage(t.Context(), strings.NewReader("content"), 100)
	must(t, err)
	tmp := temporaryFiles(t, dir)[0]
	must(t, os.Remove(tmp))
	must(t, os.WriteFile(tmp, []byte("CONTENT"), 0o600))
	if err := st.Commit(t.Context(), key); err == nil {
		t.Error("another file was committed in place of the one that was written")
	}
	_ = st.Discard()
	if _, err := s.Open(t.Context(), key); err == nil {
		t.Error("another file can be opened under the key")
	}
}
