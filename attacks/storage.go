package attacks

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/attacks/harness"
)

// storage attacks from inside the storage root: somebody with the sweeper's rights,
// who may rename and remove there, plants links, devices and other bytes before
// and between the steps of the server.
var storage = harness.Family{
	Name: "storage", About: "links, devices and bytes planted in the storage",
	Cases: join(storageServed, storageWritten, storageSwept),
}

// outside is a file beyond the storage root that the server's user may read, with
// bytes that must never be served and never change.
func outside(e *harness.Env) (path string, content []byte) {
	dir, err := os.MkdirTemp("/var/tmp", "gb-outside-")
	e.Must(err, "make a folder outside")
	e.Cleanup(func(context.Context) error { return os.RemoveAll(dir) })
	path, content = filepath.Join(dir, "file"), []byte("outside "+harness.RandomHex(16))
	uid := e.Endpoint.UIDs["server"]
	e.Must(errors.Join(os.WriteFile(path, content, 0o600), os.Chown(path, uid, uid), os.Chown(dir, uid, uid)), "make a file outside")
	return path, content
}

// planted replaces the file at path by what plant makes there, and puts the file
// back when the returned function is called.
func planted(e *harness.Env, path string, plant func(path string) error) (restore func()) {
	kept := filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(path))), "kept-"+harness.RandomHex(4))
	e.Must(os.Rename(path, kept), "move the file away")
	done := false
	restore = func() {
		if !done {
			done = true
			_ = os.RemoveAll(path)
			_ = os.Rename(kept, path)
		}
	}
	e.Cleanup(func(context.Context) error { restore(); return nil })
	e.Must(plant(path), "plant")
	return restore
}

// disguises are what may stand under a stored file's name in place of the file.
// other is a file of the same size beyond the root, neighbour one within it.
func disguises(e *harness.Env, own []byte, other, neighbour string) map[string]func(path string) error {
	server := e.Endpoint.UIDs["server"]
	give := func(path string, err error) error {
		return errors.Join(err, os.Lchown(path, server, storageGroup))
	}
	changed := bytes.Clone(own)
	changed[len(changed)/2] ^= 1
	write := func(content []byte) func(string) error {
		return func(path string) error { return give(path, os.WriteFile(path, content, 0o600)) }
	}
	return map[string]func(path string) error{
		"a link that leads outside": func(path string) error { return give(path, os.Symlink(other, path)) },
		"a relative link outside": func(path string) error {
			return give(path, os.Symlink("../../../"+filepath.Base(filepath.Dir(other))+"/file", path))
		},
		"a link to a neighbour": func(path string) error { return give(path, os.Symlink(neighbour, path)) },
		"a relative link to a neighbour": func(path string) error {
			return give(path, os.Symlink("../"+filepath.Base(filepath.Dir(neighbour))+"/"+filepath.Base(neighbour), path))
		},
		"a link to itself":             func(path string) error { return give(path, os.Symlink(filepath.Base(path), path)) },
		"a link to a process's memory": func(path string) error { return give(path, os.Symlink("/proc/self/environ", path)) },
		"a hard link to a neighbour":   func(path string) error { return os.Link(neighbour, path) },
		"a pipe":                       func(path string) error { return give(path, syscall.Mkfifo(path, 0o600)) },
		"an endless device": func(path string) error {
			return give(path, syscall.Mknod(path, syscall.S_IFCHR|0o600, int(unix.Mkdev(1, 5))))
		},
		"a folder":                       func(path string) error { return give(path, os.Mkdir(path, 0o700)) },
		"a socket":                       func(path string) error { return give(path, syscall.Mknod(path, syscall.S_IFSOCK|0o600, 0)) },
		"nothing":                        func(string) error { return nil },
		"the same size, one bit changed": write(changed),
		"half of it":                     write(own[:len(own)/2]),
		"more than it":                   write(append(bytes.Clone(own), own...)),
		"an empty file":                  write(nil),
		"a file that may not be read":    func(path string) error { return errors.Join(os.WriteFile(path, own, 0), os.Chown(path, 0, 0)) },
	}
}

// finished is a completed job, with its bytes and its file on disk.
type finished struct {
	owner *harness.User
	id    string
	bytes []byte
	path  string
}

func finishedJob(e *harness.Env, w *harness.Worker) finished {
	f := finished{owner: e.NewUser(), bytes: []byte("result " + harness.RandomHex(24))}
	a := w.ClaimJob(e.Submit(f.owner, harness.Lua()).ID)
	f.id = a.ID
	if got := w.Finish(a, f.bytes); got.Status != http.StatusOK {
		e.Fail("finish: %s", got.Brief())
	}
	f.path = stored(e, f.bytes)
	if f.path == "" {
		e.Fail("the result does not lie in storage")
	}
	return f
}

var storageServed = []harness.Case{
	{
		ID: "storage/result-disguised", Title: "what was planted under a result's name is served", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"UPL-06", "STO-04", "JOB-07", "API-03"}, Threats: []string{"STO-T1", "STO-T2", "PUB-I1"},
		Attack:  "links outside, to a neighbour, to itself, to a process; a hard link, a pipe, a device, a folder, a socket; changed, cut, grown, empty and closed files; whole, in ranges and by HEAD",
		Control: "the true result is served before and after each",
		Oracle:  "bytes of the answer: none that is not the true result; the time it takes; the file outside stays as it was",
		Run: func(e *harness.Env) {
			w := ownWorker(e)
			mine, theirs := finishedJob(e, w), finishedJob(e, w)
			out, secret := outside(e)
			for what, plant := range disguises(e, mine.bytes, out, theirs.path) {
				e.Input("%s", what)
				e.Control(bytes.Equal(e.Result(mine.owner, mine.id).Body, mine.bytes), "the true result is not served")
				restore := planted(e, mine.path, plant)
				for _, header := range [][]string{nil, {"Range: bytes=0-9"}, {"Range: bytes=-5"}, {"Range: bytes=100-"}} {
					got := e.Result(mine.owner, mine.id, header...)
					leaked := len(got.Body) > 0 && (bytes.Contains(got.Body, secret[:8]) || bytes.Contains(got.Body, theirs.bytes) || bytes.Contains(got.Body, []byte("PATH=")))
					e.Check(got.Status >= 500 && !leaked, "%v got %s", header, got.Brief())
					_, _, form := got.ErrorForm()
					e.Check(form && !strings.Contains(string(got.Body), "objects") && !strings.Contains(string(got.Body), filepath.Base(mine.path)), "the answer tells the inside: %s", got.Brief())
					e.Check(got.Took < 3*time.Second, "the answer took %s", got.Took)
				}
				head := e.Do(harness.Request{Method: http.MethodHead, Path: "/api/v1/jobs/" + mine.id + "/result", Token: e.Token(mine.owner)})
				e.Check(head.Status >= 500, "HEAD got %d", head.Status)
				restore()
			}
			e.Input("afterwards")
			e.Control(bytes.Equal(e.Result(mine.owner, mine.id).Body, mine.bytes), "the true result is not served any more")
			now, err := os.ReadFile(out)
			e.Check(err == nil && bytes.Equal(now, secret), "the file outside has changed")
			e.Check(bytes.Equal(e.Result(theirs.owner, theirs.id).Body, theirs.bytes), "the neighbour's result has changed")
		},
	},
	{
		ID: "storage/results-swapped", Title: "two users are served each other's results", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"STO-04", "JOB-07"}, Threats: []string{"STO-T2", "PUB-I1"},
		Attack:  "the files of two results exchange their names, after both were served once and their digests remembered",
		Control: "each is served its own before",
		Oracle:  "bytes of the answers",
		Run: func(e *harness.Env) {
			w := ownWorker(e)
			a, b := finishedJob(e, w), finishedJob(e, w)
			for _, f := range []finished{a, b} {
				e.Control(bytes.Equal(e.Result(f.owner, f.id).Body, f.bytes), "the own result is not served")
			}
			exchange := func() error {
				return unix.Renameat2(unix.AT_FDCWD, a.path, unix.AT_FDCWD, b.path, unix.RENAME_EXCHANGE)
			}
			e.Must(exchange(), "exchange")
			for i, f := range []finished{a, b, a, b} {
				got := e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/jobs/" + f.id + "/result", Token: e.Token(f.owner), Server: i / 2})
				e.Check(got.Status == http.StatusInternalServerError && !bytes.Contains(got.Body, []byte("result ")), "got %s", got.Brief())
			}
			e.Must(exchange(), "exchange back")
			e.Check(bytes.Equal(e.Result(a.owner, a.id).Body, a.bytes), "after they were put back the result is not served")
		},
	},
	{
		ID: "storage/result-changed-after-check", Title: "a result that was checked once is changed and served", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"STO-04"}, Threats: []string{"STO-T2"},
		Attack:  "after a download the file's bytes are changed in place, with its size and its times put back as they were",
		Control: "the true result is served before",
		Oracle:  "bytes of the answers of both servers",
		Run: func(e *harness.Env) {
			f := finishedJob(e, ownWorker(e))
			for server := range e.Servers() {
				got := e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/jobs/" + f.id + "/result", Token: e.Token(f.owner), Server: server})
				e.Control(bytes.Equal(got.Body, f.bytes), "server %d: %s", server, got.Brief())
			}
			info, err := os.Stat(f.path)
			e.Must(err, "look at the file")
			file, err := os.OpenFile(f.path, os.O_WRONLY, 0)
			e.Must(err, "open the file")
			_, err = file.WriteAt([]byte("FORGED"), 0)
			e.Must(errors.Join(err, file.Close(), os.Chtimes(f.path, info.ModTime(), info.ModTime())), "change it")
			for server := range e.Servers() {
				got := e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/jobs/" + f.id + "/result", Token: e.Token(f.owner), Server: server})
				e.Check(got.Status == http.StatusInternalServerError && !bytes.Contains(got.Body, []byte("FORGED")), "server %d: %s", server, got.Brief())
			}
		},
	},
	{
		ID: "storage/input-disguised", Title: "what was planted under an input's name reaches a worker", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"UPL-06", "STO-01"}, Threats: []string{"STO-T1", "INT-I1"},
		Attack:  "links outside and to a neighbour, a hard link, a pipe, a device, a folder, a socket, nothing, under the name of the input of a held job",
		Control: "the true input is given before and after each",
		Oracle:  "bytes of the answer: nothing of the file outside or of the neighbour; the time it takes",
		Run: func(e *harness.Env) {
			w := ownWorker(e)
			content, other := harness.Lua(), harness.Lua()
			a := w.ClaimJob(e.Submit(e.NewUser(), content).ID)
			b := w.ClaimJob(e.Submit(e.NewUser(), other).ID)
			stop := keepLease(e, w, a)
			path, neighbour := stored(e, content), stored(e, other)
			e.Control(path != "" && neighbour != "", "the inputs do not lie in storage")
			out, secret := outside(e)
			own := map[string]bool{"the same size, one bit changed": true, "half of it": true, "more than it": true, "an empty file": true} // the worker compares the digest (JOB-12)
			for what, plant := range disguises(e, content, out, neighbour) {
				e.Input("%s", what)
				got := w.Must(http.MethodGet, a.Path("input"), nil, a.Fenced())
				e.Control(bytes.Equal(got.Body, content), "the true input is not given: %s", got.Brief())
				restore := planted(e, path, plant)
				got, err := w.Call(http.MethodGet, a.Path("input"), nil, a.Fenced())
				e.Check(err != nil || !bytes.Contains(got.Body, secret[:8]) && !bytes.Contains(got.Body, other) && !bytes.Contains(got.Body, []byte("PATH=")), "got %s", got.Brief())
				if !own[what] {
					e.Check(err != nil || got.Status >= 500, "got %s", got.Brief())
				} else {
					e.Check(err != nil || got.Status >= 500 || got.Header.Get("Repr-Digest") == harness.Digest(content), "the digest is of other bytes: %s", got.Header.Get("Repr-Digest"))
				}
				e.Check(got.Took < 3*time.Second, "the answer took %s", got.Took)
				restore()
			}
			stop()
			w.Fail(a, "core_error", false)
			w.Fail(b, "core_error", false)
		},
	},
	{
		ID: "storage/stray-files", Title: "a file that was put into the storage by hand is served or named", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"STO-01", "JOB-07"}, Threats: []string{"STO-T1", "PUB-I1"},
		Attack:  "files under the names of results and inputs of jobs that never were, then asked for by every id in them",
		Control: "the files lie in storage under names of the right form",
		Oracle:  "status of the answers: not found",
		Run: func(e *harness.Env) {
			u := e.NewUser()
			token := e.Token(u)
			for range 5 {
				id := harness.UUID()
				name := filepath.Join(e.Endpoint.StorageRoot, "objects", "00", "result~"+id+"~1-"+harness.RandomHex(8))
				e.Must(errors.Join(os.WriteFile(name, []byte("stray"), 0o600), os.Chown(name, e.Endpoint.UIDs["server"], storageGroup)), "plant a file")
				e.Cleanup(func(context.Context) error { return os.RemoveAll(name) })
				_, err := os.Stat(name)
				e.Control(err == nil, "the file is not there")
				for _, path := range []string{id, id + "/result", filepath.Base(name), "..%2f..%2fobjects%2f00%2f" + filepath.Base(name), "result%2f" + id} {
					got := e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/jobs/" + path, Token: token})
					e.Check(got.Status == http.StatusNotFound && !bytes.Contains(got.Body, []byte("stray")), "%s got %s", path, got.Brief())
				}
			}
		},
	},
	{
		ID: "storage/replaced-while-read", Title: "a download that has begun goes on with other bytes", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"STO-04", "STO-05"}, Threats: []string{"STO-T2", "STO-T3"},
		Attack:  "a slow reader has the first part of a large result; then its name leads to another user's file, and then to nothing",
		Control: "a whole download gives the true bytes",
		Oracle:  "bytes that the reader has in the end: the true ones or a part of them",
		Run: func(e *harness.Env) {
			w, owner := ownWorker(e), e.NewUser()
			truth := bytes.Repeat([]byte("truth "+harness.RandomHex(5)), 60_000)
			a := w.ClaimJob(e.Submit(owner, harness.Lua()).ID)
			e.Control(w.Finish(a, truth).Status == http.StatusOK, "the result")
			path := stored(e, truth)
			e.Control(bytes.Equal(e.Result(owner, a.ID).Body, truth), "the whole download")
			other := bytes.Repeat([]byte("OTHER "+harness.RandomHex(5)), 60_000)
			for what, plant := range map[string]func(string) error{
				"another file": func(p string) error {
					return errors.Join(os.WriteFile(p, other, 0o600), os.Chown(p, e.Endpoint.UIDs["server"], storageGroup))
				},
				"nothing": func(string) error { return nil },
			} {
				e.Input("%s", what)
				c := e.MustDial(e.Public(0), nil)
				e.Must(c.Send(harness.Request{Method: http.MethodGet, Path: "/api/v1/jobs/" + a.ID + "/result", Token: e.Token(owner)}.Bytes(e.Public(0))), "ask")
				first := make([]byte, 1024)
				_ = c.SetReadDeadline(time.Now().Add(harnessWait))
				n, err := c.Read(first)
				e.Must(err, "read the first part")
				restore := planted(e, path, plant)
				rest := readRest(c)
				got := append(first[:n], rest...)
				_, body, _ := bytes.Cut(got, []byte("\r\n\r\n"))
				e.Check(len(body) > 0 && bytes.HasPrefix(truth, body), "%d bytes came, which are not the true ones", len(body))
				restore()
			}
		},
	},
}

// readRest reads until nothing comes for a while.
func readRest(c *harness.Conn) (all []byte) {
	buffer := make([]byte, 32<<10)
	for {
		_ = c.SetReadDeadline(time.Now().Add(1500 * time.Millisecond))
		n, err := c.Read(buffer)
		all = append(all, buffer[:n]...)
		if err != nil {
			return all
		}
	}
}
