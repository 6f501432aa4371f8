package attacks

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"glovebox/attacks/harness"
)

// archives are files that do harm where they are unpacked. Each holds the entry's
// name, which must not become a name on disk.
func archives(entry string) (map[string][]byte, error) {
	var all [3]bytes.Buffer
	z := zip.NewWriter(&all[0])
	evil, err := z.Create("../../" + entry)
	if err == nil {
		_, err = io.WriteString(evil, "unpacked")
	}
	link, err2 := z.CreateHeader(linkHeader(entry + "-link"))
	if err2 == nil {
		_, err2 = io.WriteString(link, "/etc/passwd")
	}
	err = errors.Join(err, err2, z.Close())

	g := gzip.NewWriter(&all[1])
	g.Name = "../" + entry
	for range 64 {
		_, err2 = g.Write(make([]byte, 1<<20))
		err = errors.Join(err, err2)
	}
	err = errors.Join(err, g.Close())

	t := tar.NewWriter(&all[2])
	for _, h := range []*tar.Header{
		{Name: entry + "-link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, {Name: entry + "-hard", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"},
		{Name: "../" + entry, Typeflag: tar.TypeReg, Size: 1, Mode: 0o4755}, {Name: entry + "-fifo", Typeflag: tar.TypeFifo},
	} {
		err = errors.Join(err, t.WriteHeader(h))
		if h.Size > 0 {
			_, err2 = t.Write([]byte("x"))
			err = errors.Join(err, err2)
		}
	}
	err = errors.Join(err, t.Close())
	var outer bytes.Buffer
	n := zip.NewWriter(&outer)
	inner, err2 := n.Create(entry + ".zip")
	if err2 == nil {
		_, err2 = inner.Write(all[0].Bytes())
	}
	err = errors.Join(err, err2, n.Close())
	return map[string][]byte{"zip": all[0].Bytes(), "gzip": all[1].Bytes(), "tar": all[2].Bytes(), "nested": outer.Bytes()}, err
}

func linkHeader(name string) *zip.FileHeader {
	h := &zip.FileHeader{Name: name}
	h.SetMode(fs.ModeSymlink | 0o777)
	return h
}

// namesBelow returns the paths below root, links not followed, whose name holds word.
func namesBelow(e *harness.Env, root, word string) []string {
	var found []string
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err == nil && strings.Contains(filepath.Base(path), word) {
			found = append(found, path)
		}
		return err
	})
	e.Must(err, "walk %s", filepath.Base(root))
	return found
}

func uploadArchives(e *harness.Env) {
	alice := e.Alice()
	entry := "entry" + harness.RandomHex(8)
	all, err := archives(entry)
	e.Must(err, "make the archives")
	watch := e.WatchServers()
	var ids []string
	for kind, content := range all {
		e.Input("%s", kind)
		a := e.Do(harness.SubmitRequest(e.Token(alice), content))
		// Refused at the door is as good as taken for bytes.
		e.Check(a.Status == http.StatusCreated || a.Status == http.StatusUnsupportedMediaType, "got %s", a.Brief())
		if a.Status == http.StatusCreated {
			var job harness.Job
			e.JSON(a, &job)
			ids = append(ids, job.ID)
			e.Control(len(e.OnDisk(string(content[len(content)-24:]))) >= 1, "the upload is not on disk")
		}
	}
	for _, id := range ids {
		var job harness.Job
		e.Await(harness.Patience, func() bool { job = e.Status(alice, id); return job.Status == "failed" || job.Status == "completed" })
		e.Check(job.Status == "failed" && job.ErrorCode == "invalid_input", "the job is %s %s", job.Status, job.ErrorCode)
	}
	e.Control(len(ids) == 0 || len(namesBelow(e, e.Endpoint.StorageRoot, ids[0])) > 0 || len(namesBelow(e, filepath.Dir(e.Endpoint.StorageRoot), "server")) > 0, "the walk finds nothing at all")
	found := namesBelow(e, filepath.Dir(e.Endpoint.StorageRoot), entry)
	e.Check(len(found) == 0, "an entry was unpacked: %v", found)
	const most = 48 << 20
	e.Check(watch() < most, "a server's memory grew by %d MiB", watch()>>20)
}
