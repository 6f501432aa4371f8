package attacks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/attacks/harness"
	"glovebox/attacks/identity"
	"glovebox/attacks/oracle"
)

// beginUpload begins an upload on a connection of its own and leaves it after part of
// the body; the returned functions send the rest and read the answer.
func beginUpload(e *harness.Env, u *harness.User, content []byte) (finish func() (harness.Answer, error), close func()) {
	body := harness.Form("a.lua", content)
	r := harness.SubmitRequest(e.Token(u), content)
	r.Body = nil
	r.NoLength = true
	r.Header = append(r.Header, fmt.Sprintf("Content-Length: %d", len(body)))
	c := e.MustDial(e.Public(0), nil)
	half := len(body) - 40
	e.Must(c.Send(append(r.Bytes(e.Public(0)), body[:half]...)), "begin an upload")
	return func() (harness.Answer, error) {
		if err := c.Send(body[half:]); err != nil {
			return harness.Answer{}, err
		}
		return c.Receive(http.MethodPost, harnessWait)
	}, c.Close
}

// temporary returns the one new file in tmp/ that is on its way.
func temporary(e *harness.Env, before map[string]bool) (path string) {
	if !e.Await(harnessWait, func() bool {
		for _, name := range newFiles(e, before) {
			if strings.HasPrefix(name, "tmp/") {
				path = filepath.Join(e.Endpoint.StorageRoot, name)
				return true
			}
		}
		return false
	}) {
		e.Fail("no temporary file has come")
	}
	return path
}

var storageWritten = []harness.Case{
	{
		ID: "storage/upload-swapped", Title: "an upload is led out of the storage, or becomes other bytes, between its steps", World: harness.Quiet, Serial: true,
		Requirements: []string{"UPL-06", "STO-02"}, Threats: []string{"STO-T1", "STO-T2"},
		Attack:  "while an upload is on its way its temporary file becomes a link outside, to a neighbour, a hard link, other bytes, a folder, nothing",
		Control: "an upload that is left alone becomes a job",
		Oracle:  "status of the answer; the file outside; inventory of the storage; observer's number of jobs",
		Run: func(e *harness.Env) {
			u := e.NewUser()
			db := observer(e)
			content := bytes.Repeat(harness.Lua(), 2000)
			finish, end := beginUpload(e, u, content)
			got, err := finish()
			e.Control(err == nil && got.Status == http.StatusCreated, "left alone: %s (%v)", got.Brief(), err)
			end()
			out, secret := outside(e)
			neighbour := stored(e, content)
			server := e.Endpoint.UIDs["server"]
			for what, plant := range map[string]func(path string) error{
				"a link outside":             func(p string) error { return errors.Join(os.Remove(p), os.Symlink(out, p)) },
				"a link to a neighbour":      func(p string) error { return errors.Join(os.Remove(p), os.Symlink(neighbour, p)) },
				"a hard link to the file":    func(p string) error { return os.Link(p, p+"x") },
				"a hard link to a neighbour": func(p string) error { return errors.Join(os.Remove(p), os.Link(neighbour, p)) },
				"other bytes": func(p string) error {
					return errors.Join(os.Remove(p), os.WriteFile(p, content, 0o600), os.Chown(p, server, storageGroup))
				},
				"a folder": func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o700)) },
				"a device": func(p string) error {
					return errors.Join(os.Remove(p), syscall.Mknod(p, syscall.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
				},
				"nothing": os.Remove,
			} {
				e.Input("%s", what)
				jobs, _, _, err := db.Counts(e.Context())
				e.Must(err, "count the jobs")
				before := files(e)
				finish, end := beginUpload(e, u, content)
				path := temporary(e, before)
				e.Must(plant(path), "plant")
				got, err := finish()
				e.Check(err != nil || got.Status >= 500, "got %s", got.Brief())
				end()
				now, _, _, err := db.Counts(e.Context())
				e.Must(err, "count the jobs")
				e.Check(now == jobs, "%d jobs were there, %d are", jobs, now)
				_ = os.RemoveAll(path)
				_ = os.RemoveAll(path + "x")
			}
			e.Input("afterwards")
			kept, err := os.ReadFile(out)
			e.Check(err == nil && bytes.Equal(kept, secret), "the file outside has changed")
			e.Check(stored(e, content) == neighbour, "the neighbour has changed")
		},
	},
	{
		ID: "storage/folders-swapped", Title: "uploads are written into a folder outside the storage", World: harness.Quiet, Serial: true,
		Requirements: []string{"UPL-06", "UPL-05"}, Threats: []string{"STO-T1"},
		Attack:  "all 256 object folders become links to a folder outside, then to one within; then the folder of temporary files, then the folder of objects itself",
		Control: "an upload before is taken",
		Oracle:  "inventory of the folder outside: empty; status of the answers; an upload afterwards is taken",
		Run: func(e *harness.Env) {
			u := e.NewUser()
			e.Control(e.Do(harness.SubmitRequest(e.Token(u), harness.Lua())).Status == http.StatusCreated, "an upload before")
			out, err := os.MkdirTemp("/var/tmp", "gb-outside-")
			e.Must(err, "make a folder outside")
			e.Cleanup(func(context.Context) error { return os.RemoveAll(out) })
			e.Must(errors.Join(os.Chmod(out, 0o777), os.Chown(out, e.Endpoint.UIDs["server"], storageGroup)), "open it")
			root := e.Endpoint.StorageRoot
			inside := filepath.Join(root, "inside")
			e.Must(errors.Join(os.Mkdir(inside, 0o770), os.Chown(inside, e.Endpoint.UIDs["server"], storageGroup)), "make a folder inside")
			e.Cleanup(func(context.Context) error { return os.RemoveAll(inside) })
			shards, err := os.ReadDir(filepath.Join(root, "objects"))
			e.Must(err, "list the folders")
			swap := func(path, target string) func() {
				e.Must(errors.Join(os.Rename(path, path+".kept"), os.Symlink(target, path)), "plant a link")
				return func() { _ = os.Remove(path); _ = os.Rename(path+".kept", path) }
			}
			empty := func(dir string) bool { all, err := os.ReadDir(dir); return err == nil && len(all) == 0 }
			for what, target := range map[string]string{"outside": out, "inside": inside} {
				e.Input("object folders lead %s", what)
				var back []func()
				for _, s := range shards {
					back = append(back, swap(filepath.Join(root, "objects", s.Name()), target))
				}
				for range 3 {
					got := e.Do(harness.SubmitRequest(e.Token(u), harness.Lua()))
					e.Check(got.Status >= 500, "got %s", got.Brief())
				}
				for _, b := range back {
					b()
				}
				e.Check(empty(target), "something was written there")
			}
			for _, folder := range []string{"tmp", "objects"} {
				e.Input("%s leads outside", folder)
				back := swap(filepath.Join(root, folder), out)
				got := e.Do(harness.SubmitRequest(e.Token(u), harness.Lua()))
				e.Check(empty(out), "something was written outside, answered %s", got.Brief())
				back()
			}
			e.Input("afterwards")
			content := harness.Lua()
			e.Check(e.Do(harness.SubmitRequest(e.Token(u), content)).Status == http.StatusCreated && stored(e, content) != "", "an upload afterwards is not taken")
			drain(e)
		},
	},
	{
		ID: "storage/modes", Title: "files become readable to others when the storage's modes or the umask change", World: harness.Quiet, Serial: true,
		Requirements: []string{"UPL-05", "STO-01"}, Threats: []string{"STO-I1"},
		Attack:  "the root and its folders are opened to everybody while the server runs; then uploads and results are stored",
		Control: "the stranger reaches an open file there",
		Oracle:  "the kernel's answer to a stranger's open of each new file; inventory of modes",
		Run: func(e *harness.Env) {
			root := e.Endpoint.StorageRoot
			folders := []string{root, filepath.Join(root, "objects"), filepath.Join(root, "tmp")}
			shards, err := filepath.Glob(filepath.Join(root, "objects", "*"))
			e.Must(err, "list the folders")
			folders = append(folders, shards...)
			var modes []os.FileMode
			for _, f := range folders {
				info, err := os.Stat(f)
				e.Must(err, "look at a folder")
				modes = append(modes, info.Mode())
			}
			e.Cleanup(func(context.Context) error {
				var errs []error
				for i, f := range folders {
					errs = append(errs, os.Chmod(f, modes[i]))
				}
				return errors.Join(errs...)
			})
			for _, f := range folders {
				e.Must(os.Chmod(f, 0o777), "open a folder")
			}
			control := filepath.Join(root, "objects", "open")
			e.Must(os.WriteFile(control, []byte("x"), 0o644), "make an open file")
			e.Cleanup(func(context.Context) error { return os.Remove(control) })
			e.Must(os.Chmod(control, 0o644), "open it")
			e.Control(read(stranger, control) == nil, "the stranger cannot reach an open file")
			before := files(e)
			f := finishedJob(e, ownWorker(e))
			added := newFiles(e, before)
			e.Control(len(added) >= 2, "only %v has come", added)
			for _, name := range added {
				path := filepath.Join(root, name)
				e.Check(denied(read(stranger, path)), "a stranger reads %s", name)
				info, err := os.Stat(path)
				e.Check(err == nil && info.Mode().Perm() == 0o600, "%s has the mode %v (%v)", name, info.Mode(), err)
			}
			e.Check(bytes.Equal(e.Result(f.owner, f.id).Body, f.bytes), "the result is not served")
		},
	},
}

var storageSwept = []harness.Case{
	{
		ID: "storage/temporary-links", Title: "removing temporary files removes what they point to", World: harness.Brief, Lock: "storage",
		Requirements: []string{"UPL-06", "UPL-08"}, Threats: []string{"STO-T1", "STO-T3"},
		Attack:  "old links to a file and a folder outside, a folder with links in it, a pipe and a device among the temporary files, planted with the sweeper's rights",
		Control: "an old plain file there is removed",
		Oracle:  "inventory of the folder outside, byte by byte, and of the temporary files",
		Run: func(e *harness.Env) {
			out, _ := outside(e)
			dir := filepath.Dir(out)
			before, err := oracle.Disk(dir, true)
			e.Must(err, "look outside")
			tmp := filepath.Join(e.Endpoint.StorageRoot, "tmp")
			name := func() string { return filepath.Join(tmp, harness.RandomHex(16)) }
			plain, link, folder, deep, pipe := name(), name(), name(), name(), name()
			e.Must(errors.Join(
				os.WriteFile(plain, []byte("old"), 0o600), os.Symlink(out, link), os.Symlink(dir, folder), os.Mkdir(deep, 0o770), os.Symlink(dir, filepath.Join(deep, "out")), os.Symlink(out, filepath.Join(deep, "file")), syscall.Mkfifo(pipe, 0o600)), "plant")
			old := unix.NsecToTimespec(time.Now().Add(-48 * time.Hour).UnixNano())
			for _, p := range []string{plain, link, folder, deep, pipe} {
				e.Must(errors.Join(os.Lchown(p, e.Endpoint.UIDs["server"], storageGroup), unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{old, old}, unix.AT_SYMLINK_NOFOLLOW)), "make it old")
			}
			gone := func(path string) bool { _, err := os.Lstat(path); return errors.Is(err, os.ErrNotExist) }
			e.Control(e.Await(20*time.Second, func() bool { return gone(plain) }), "an old plain file stays")
			e.Await(15*time.Second, func() bool { return gone(link) && gone(folder) && gone(deep) && gone(pipe) })
			now, err := oracle.Disk(dir, true)
			e.Must(err, "look outside")
			e.Check(len(before.Diff(now)) == 0, "outside has changed: %v", before.Diff(now))
			for what, path := range map[string]string{"the link": link, "the link to a folder": folder, "the folder": deep, "the pipe": pipe} {
				e.Check(gone(path), "%s stays among the temporary files", what)
				_ = os.RemoveAll(path)
			}
		},
	},
	{
		ID: "storage/orphan-links", Title: "removing files that no row names removes what they point to, or what is not the system's", World: harness.Brief, Lock: "storage",
		Requirements: []string{"UPL-06", "STO-03"}, Threats: []string{"STO-T1", "STO-T3"},
		Attack:  "old links under names of the right form in every object folder, to files and folders outside; files of other names; a hard link to a live result",
		Control: "an old plain file under such a name is removed",
		Oracle:  "inventory of the folder outside, byte by byte; the files of other names; the owner's download",
		Run: func(e *harness.Env) {
			out, _ := outside(e)
			dir := filepath.Dir(out)
			before, err := oracle.Disk(dir, true)
			e.Must(err, "look outside")
			objects := filepath.Join(e.Endpoint.StorageRoot, "objects")
			old := time.Now().Add(-48 * time.Hour)
			stamp := unix.NsecToTimespec(old.UnixNano())
			// Of one key, only the folder that its digest names is the right one: 256 links of one name.
			key := "result~" + harness.UUID() + "~1-" + harness.RandomHex(16)
			plain := "result~" + harness.UUID() + "~1-" + harness.RandomHex(16)
			foreign := filepath.Join(objects, "00", "README")
			e.Must(os.WriteFile(foreign, []byte("not yours"), 0o600), "make a file of another name")
			e.Must(os.Chtimes(foreign, old, old), "make it old")
			e.Cleanup(func(context.Context) error { return os.RemoveAll(foreign) })
			var links, plains []string
			for i := range 256 {
				shard := filepath.Join(objects, fmt.Sprintf("%02x", i))
				target := out
				if i%2 == 0 {
					target = dir
				}
				link, file := filepath.Join(shard, key), filepath.Join(shard, plain)
				e.Must(errors.Join(os.Symlink(target, link), os.WriteFile(file, []byte("orphan"), 0o600)), "plant")
				e.Must(errors.Join(os.Lchown(link, e.Endpoint.UIDs["server"], storageGroup), unix.UtimesNanoAt(unix.AT_FDCWD, link, []unix.Timespec{stamp, stamp}, unix.AT_SYMLINK_NOFOLLOW), os.Chtimes(file, old, old)), "make it old")
				links, plains = append(links, link), append(plains, file)
			}
			e.Cleanup(func(context.Context) error {
				for _, p := range append(links, plains...) {
					_ = os.Remove(p)
				}
				return nil
			})
			removed := func(paths []string) (n int) {
				for _, p := range paths {
					if _, err := os.Lstat(p); errors.Is(err, os.ErrNotExist) {
						n++
					}
				}
				return n
			}
			e.Control(e.Await(20*time.Second, func() bool { return removed(plains) == 1 && removed(links) == 1 }), "of the plain files %d are gone, of the links %d; one each is in its right folder", removed(plains), removed(links))
			now, err := oracle.Disk(dir, true)
			e.Must(err, "look outside")
			e.Check(len(before.Diff(now)) == 0, "outside has changed: %v", before.Diff(now))
			_, err = os.Stat(foreign)
			e.Check(err == nil && removed(plains) == 1, "what is not the system's was removed: %v", err)
		},
	},
	{
		ID: "storage/sweeper-taken-over", Title: "the process that deletes has a job's bytes replaced by its own", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"STO-04", "PIP-12"}, Threats: []string{"STO-T2", "OPS-E2"},
		Attack:  "as the sweeper's user: remove a result and an input and write others under their names, with the same size",
		Control: "as that user the removal works, as it needs to",
		Oracle:  "bytes of the owner's download and of the worker's input",
		Run: func(e *harness.Env) {
			w := ownWorker(e)
			f := finishedJob(e, w)
			content := harness.Lua()
			a := w.ClaimJob(e.Submit(e.NewUser(), content).ID)
			sweeper := user(e, "sweeper")
			for _, path := range []string{f.path, stored(e, content)} {
				err := identity.As(sweeper, func() error {
					if err := os.Remove(path); err != nil {
						return err
					}
					return os.WriteFile(path, []byte("forged by the sweeper"), 0o666)
				})
				e.Control(err == nil, "the sweeper cannot: %v", err)
			}
			got := e.Result(f.owner, f.id)
			e.Check(got.Status == http.StatusInternalServerError && !bytes.Contains(got.Body, []byte("forged")), "the owner got %s", got.Brief())
			in, err := w.Call(http.MethodGet, a.Path("input"), nil, a.Fenced())
			e.Check(err != nil || in.Status >= 500 || in.Header.Get("Repr-Digest") == harness.Digest(content), "the worker got %s", in.Brief())
			w.Fail(a, "core_error", false)
		},
	},
}
