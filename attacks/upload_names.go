package attacks

import (
	"mime"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"glovebox/attacks/harness"
	"glovebox/attacks/oracle"
)

// uploadNames are file names that mean something to somebody.
var uploadNames = []harness.Case{
	{
		ID: "upload/names-on-disk", Title: "a file's name becomes a path",
		Requirements: []string{"UPL-05", "UPL-06", "PIP-02"}, Threats: []string{"STO-T1", "PUB-T4"},
		Attack:  "names with ../, absolute, with NUL, backslashes, drive letters, device names, encoded and extended forms, of great length",
		Control: "a plain name makes a job, and a new file is seen on disk",
		Oracle:  "every name below the storage root is of the system's own making; outside, no name or file of the system's folder, /tmp and the host's root has appeared",
		Serial:  true,
		Run:     namesOnDisk,
	},
	{
		ID: "upload/names-shown", Title: "a file's name deceives whoever downloads the result",
		Requirements: []string{"UPL-05"}, Threats: []string{"PUB-T4", "PUB-I3"}, Lock: "queue", World: harness.Quiet,
		Attack:  "the same names, with bidirectional and invisible characters",
		Control: "a plain name comes back as it was",
		Oracle:  "the file name that a browser would take from Content-Disposition: one segment, printable, bounded",
		Run:     namesShown,
	},
	{
		ID: "upload/names-in-logs", Title: "a file's name forges a line of the log",
		Requirements: []string{"UPL-05", "REL-02"}, Threats: []string{"OPS-R1", "PUB-T4"},
		Attack:  "names with line ends, JSON and escapes of terminals",
		Control: "the upload's request id is found in the log",
		Oracle:  "the log's files: neither the name's marker on a line of its own nor an escape",
		Run:     namesInLogs,
	},
	{
		ID: "upload/claimed-type", Title: "what a client says of a file's type decides what becomes of it",
		Requirements: []string{"UPL-07"}, Threats: []string{"PUB-T4"},
		Attack:  "one valid file under types and extensions of pages, programs, archives, pictures and of nothing",
		Control: "the file without any type completes",
		Oracle:  "every job completes, and all results are the same bytes",
		Run:     namesClaimed,
	},
}

func namesOnDisk(e *harness.Env) {
	bob := e.Bob()
	state := filepath.Dir(e.Endpoint.StorageRoot)
	outside := func() map[string]bool {
		seen := map[string]bool{}
		for _, folder := range []string{
			"/", "/tmp", "/etc", "/root", "/var/tmp", state, filepath.Join(state, "etc"), filepath.Join(state, "bin"),
			filepath.Join(state, "secrets"), filepath.Join(state, "tls"),
		} {
			entries, _ := filepath.Glob(folder + "/*") // a fixed pattern
			for _, name := range entries {
				if strings.Contains(name, "evil") || !strings.HasPrefix(name, "/tmp/") && !strings.HasPrefix(name, "/var/tmp/") {
					seen[name] = true
				}
			}
		}
		return seen
	}
	before := outside()
	storage, err := oracle.Disk(e.Endpoint.StorageRoot, false)
	e.Must(err, "look at the storage")
	a := e.Do(harness.SubmitRequest(e.Token(bob), harness.Lua()))
	e.Control(a.Status == http.StatusCreated, "a plain name: %s", a.Brief())
	later, err := oracle.Disk(e.Endpoint.StorageRoot, false)
	e.Must(err, "look at the storage")
	e.Control(len(storage.Diff(later)) > 0, "the new file is not seen on disk")
	for i, v := range load(e, "filenames") {
		e.Input("%s", v.ID)
		if i%20 == 19 {
			bob = e.NewUser() // one user may have only so many jobs at work
		}
		head := "Content-Disposition: form-data; name=\"file\"; " + v.Bytes() + "\r\n"
		a := e.Do(formRequest(e.Token(bob), part(head, string(harness.Lua()))))
		e.Check(a.Status == http.StatusCreated || a.Status == http.StatusBadRequest, "got %s", a.Brief())
	}
	e.Input("")
	storage, err = oracle.Disk(e.Endpoint.StorageRoot, false)
	e.Must(err, "look at the storage")
	own := regexp.MustCompile(`^[a-z0-9][a-z0-9._~-]*$`)
	for path, entry := range storage {
		for segment := range strings.SplitSeq(path, "/") {
			e.Check(path == "." || own.MatchString(segment), "a name in the storage: %q", path)
			e.Check(!strings.Contains(segment, "evil"), "a name of the client's: %q", path)
		}
		e.Check(entry.Mode.IsRegular() || entry.Mode.IsDir(), "%q is %s", path, entry)
	}
	for name := range outside() {
		e.Check(before[name], "%s has appeared", name)
	}
}

// shownName is what a browser makes of a Content-Disposition.
func shownName(header string) (string, error) {
	_, params, err := mime.ParseMediaType(header)
	return params["filename"], err
}

func namesShown(e *harness.Env) {
	alice := e.Alice()
	worker := e.Worker(harness.Spare1)
	shown := func(head string) (harness.Answer, bool) {
		a := e.Do(formRequest(e.Token(alice), part("Content-Disposition: form-data; name=\"file\"; "+head+"\r\n", string(harness.Lua()))))
		if a.Status != http.StatusCreated {
			return a, false
		}
		var job harness.Job
		e.JSON(a, &job)
		worker.Finish(worker.ClaimJob(job.ID), []byte("x"))
		return e.Result(alice, job.ID), true
	}
	plain, _ := shown(`filename="plain name.lua"`)
	name, err := shownName(plain.Header.Get("Content-Disposition"))
	e.Control(err == nil && name == "plain name.lua", "a plain name comes back as %q", name)
	for _, v := range load(e, "filenames") {
		e.Input("%s", v.ID)
		a, taken := shown(v.Bytes())
		if !taken {
			e.Check(a.Status == http.StatusBadRequest, "got %s", a.Brief())
			continue
		}
		header := a.Header.Get("Content-Disposition")
		name, err := shownName(header)
		e.Check(err == nil && name != "" && len(name) <= 255 && name != "." && name != "..", "the name is %q of %q (%v)", name, header, err)
		e.Check(!strings.ContainsAny(name, "/\\\x00") && strings.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) < 0, "the name is %q", name)
		e.Check(strings.IndexFunc(header, func(r rune) bool { return r < 0x20 || r > 0x7e }) < 0 && len(header) < 2000, "the header is %q", header)
	}
}

func namesInLogs(e *harness.Env) {
	bob := e.Bob()
	for name, text := range map[string]string{
		"line feed": "evil\n{\"level\":\"ERROR\",\"msg\":\"MARK\"}", "carriage return": "evil\r{\"msg\":\"MARK\"}",
		"encoded": "evil%0a{\\\"msg\\\":\\\"MARK\\\"}", "terminal": "evil\x1b[2J\x1b]0;MARK\x07", "separator": "evil\u2028MARK",
		"json": `evil","level":"MARK`,
	} {
		e.Input("%s", name)
		mark := "MARK" + harness.RandomHex(8)
		a := e.Do(formRequest(e.Token(bob), part("Content-Disposition: form-data; name=\"file\"; filename=\""+strings.ReplaceAll(text, "MARK", mark)+"\"\r\n", string(harness.Lua()))))
		id := a.Header.Get("X-Request-Id")
		e.Control(e.Await(harness.Patience/6, func() bool { return len(e.HoldersOf(e.Endpoint.LogsDir, id)) > 0 }), "the request is not in the log")
		found := e.Holders(e.Endpoint.LogsDir, map[string]string{"marker": mark, "escape": "\x1b]0;" + mark})
		e.Check(len(found) == 0, "found: %v", found)
	}
}

func namesClaimed(e *harness.Env) {
	alice := e.Alice()
	content := string(harness.Lua())
	ids := map[string]string{}
	for name, head := range map[string]string{
		"none": "", "html": "Content-Type: text/html\r\n", "program": "Content-Type: application/x-executable\r\n",
		"zip": "Content-Type: application/zip\r\n", "image": "Content-Type: image/png\r\n",
		"broken": "Content-Type: ///\r\n", "long": "Content-Type: x/" + strings.Repeat("y", 2000) + "\r\n",
		"charset": "Content-Type: text/plain; charset=utf-7\r\n", "mixed": "Content-Type: multipart/mixed; boundary=x\r\n",
	} {
		file := "a." + map[string]string{"html": "html", "program": "exe", "zip": "zip", "image": "png", "broken": "lua.php"}[name]
		a := e.Do(formRequest(e.Token(alice), part("Content-Disposition: form-data; name=\"file\"; filename=\""+file+"\"\r\n"+head, content)))
		e.Check(a.Status == http.StatusCreated, "%s: %s", name, a.Brief())
		var job harness.Job
		e.JSON(a, &job)
		ids[name] = job.ID
	}
	digest := ""
	for name, id := range ids {
		var job harness.Job
		e.Await(harness.Patience, func() bool { job = e.Status(alice, id); return job.Status == "completed" || job.Status == "failed" })
		if name == "none" {
			e.Control(job.Status == "completed", "without a type it is %s", job.Status)
		}
		if digest == "" {
			digest = job.SHA256
		}
		e.Check(job.Status == "completed" && job.SHA256 == digest, "%s: the job is %s, its result %s", name, job.Status, job.SHA256)
	}
}
