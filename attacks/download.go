package attacks

import (
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"glovebox/attacks/harness"
)

// download attacks the way out: results that are not there, not whole, or not what
// they seem.
var download = harness.Family{
	Name: "download", About: "results: ranges, headers, caches, ends",
	Cases: []harness.Case{
		{
			ID: "download/unfinished", Title: "somebody downloads the result of a job that has none", World: harness.Quiet, Lock: "queue",
			Requirements: []string{"JOB-07", "JOB-05"}, Threats: []string{"PUB-I1", "LIF-T2"},
			Attack:  "GET, HEAD and ranges on a pending, a processing, a half-delivered and a failed job of one's own",
			Control: "the observer sees each state; a completed job's result is served",
			Oracle:  "409 each time; no byte of what the worker had sent",
			Run:     downloadUnfinished,
		},
		{
			ID: "download/ranges", Title: "a range gives bytes that are not the result's, or breaks the server",
			Requirements: []string{"API-07", "JOB-05"}, Threats: []string{"PUB-I1", "PUB-D2"}, Safe: true,
			Attack:  "ranges that are reversed, beyond the end, beyond 64 bits, negative, in other units and of other syntax",
			Control: "plain ranges give their bytes",
			Oracle:  "each 206 is the slice of the whole that its Content-Range says; each 200 the whole; 416 names the size",
			Run:     downloadRanges,
		},
		{
			ID: "download/many-ranges", Title: "one small request makes the server send a file a thousand times",
			Requirements: []string{"API-07", "REL-01"}, Threats: []string{"PUB-D2"}, Safe: true,
			Attack:  "a Range header of 1,500 overlapping ranges",
			Control: "the whole result has its size",
			Oracle:  "the answer's length",
			Run:     downloadMany,
		},
		{
			ID: "download/if-range", Title: "a resumed download joins parts of two files",
			Requirements: []string{"API-07", "STO-04"}, Threats: []string{"STO-T2"}, Safe: true,
			Attack:  "If-Range with a wrong, a weak, a malformed tag and a date",
			Control: "the right tag gives the part",
			Oracle:  "each other answer is the whole result",
			Run:     downloadIfRange,
		},
		{
			ID: "download/digest", Title: "a result is served whose bytes are not those that were stored",
			Requirements: []string{"JOB-05", "STO-04"}, Threats: []string{"STO-T2", "INT-T2"}, World: harness.Quiet, Lock: "queue",
			Attack:  "results of every byte value, empty, of one byte and of the greatest size are stored and fetched",
			Control: "the digest over changed bytes is another",
			Oracle:  "bytes, Content-Length, ETag, Repr-Digest and status against what the worker sent",
			Run:     downloadDigest,
		},
		{
			ID: "download/headers", Title: "a result runs in a browser, or stays in its cache",
			Requirements: []string{"UPL-07", "API-07", "JOB-07"}, Threats: []string{"PUB-I3", "PUB-T4"}, World: harness.Quiet, Lock: "queue",
			Attack:  "pages, scripts and pictures as results, under names and types that say so",
			Control: "the bytes come back",
			Oracle:  "Content-Type, Content-Disposition, nosniff, sandbox, Cache-Control of the answer",
			Run:     downloadHeaders,
		},
		{
			ID: "download/no-cache", Title: "a cache in between keeps what is one user's",
			Requirements: []string{"JOB-07", "API-07"}, Threats: []string{"PUB-I3"}, Safe: true,
			Attack:  "every kind of answer: 200, 206, 304, 401, 404, 405, 409 and 416",
			Control: "each of these statuses does come",
			Oracle:  "Cache-Control is private or no-store, and never public or max-age",
			Run:     downloadNoCache,
		},
		{
			ID: "download/head-parity", Title: "HEAD says something else than GET, or sends a body that the next answer is mixed with",
			Requirements: []string{"API-07"}, Threats: []string{"PUB-T2"}, Safe: true,
			Attack:  "HEAD and GET by turns on one connection, on a result, a missing job, without a token and with conditions",
			Control: "GET has a body",
			Oracle:  "status and headers are equal, HEAD's body is empty, and the next answer is read whole",
			Run:     downloadHead,
		},
		{
			ID: "download/expired", Title: "a result is still there after its time", World: harness.Brief, Slow: true,
			Requirements: []string{"JOB-05", "STO-05"}, Threats: []string{"STO-D2", "PUB-I1"},
			Attack:  "GET, HEAD and ranges on a result whose retention is over",
			Control: "it is served before, and its file is on disk",
			Oracle:  "410 each time; neither input nor result is on disk; the status still names the job and its digest",
			Run:     downloadExpired,
		},
		{
			ID: "download/input", Title: "an input is served to anybody but its worker",
			Requirements: []string{"STO-01", "PIP-18"}, Threats: []string{"PUB-I1"}, Safe: true,
			Attack:  "the owner asks for his own upload under every path that might serve it",
			Control: "the job exists",
			Oracle:  "404 or 405, and no answer holds the file's marker",
			Run:     downloadInput,
		},
		{
			ID: "download/storage-paths", Title: "the public interface serves files of the host",
			Requirements: []string{"STO-01", "UPL-06", "ARC-02"}, Threats: []string{"PUB-I1", "STO-I1"}, Safe: true,
			Attack:  "paths of the storage, of configuration and of the host, plain and encoded, with and without a token",
			Control: "a known path on the same connection is served",
			Oracle:  "no answer of 2xx, and none holds what such files hold",
			Run:     downloadStorage,
		},
		{
			ID: "download/no-compression", Title: "compressed answers tell a token by their length",
			Requirements: []string{"API-06"}, Threats: []string{"PUB-S3"}, Safe: true,
			Attack:  "every route with Accept-Encoding: gzip, deflate, br, zstd",
			Control: "the answers come",
			Oracle:  "no Content-Encoding",
			Run:     downloadPlain,
		},
		{
			ID: "download/header-lines", Title: "a file's name adds a header to the answer",
			Requirements: []string{"UPL-05"}, Threats: []string{"PUB-T4", "PUB-I3"},
			Attack:  "results of files whose names hold line ends, encoded line ends and header text",
			Control: "a plain name gives a known set of headers",
			Oracle:  "the names of the answer's headers are the same set, Content-Disposition stands once",
			Run:     downloadHeaderLines,
		},
	},
}

func downloadUnfinished(e *harness.Env) {
	alice := e.Alice()
	worker := e.Worker(harness.Spare1)
	secret := []byte("half-" + harness.RandomHex(16))
	try := func(id, state string) {
		e.Control(e.Row(id).Status == state, "the row is %s", e.Row(id).Status)
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			for _, header := range [][]string{nil, {"Range: bytes=0-"}, {"If-None-Match: *"}, {"If-Match: *"}} {
				e.Input("%s, %s %v", state, method, header)
				a := e.Do(harness.Request{Method: method, Path: "/api/v1/jobs/" + id + "/result", Token: e.Token(alice), Header: header})
				e.Check(a.Status == http.StatusConflict && !holds(a, string(secret[:12])), "got %s", a.Brief())
			}
		}
	}
	job := e.Submit(alice, harness.Lua())
	try(job.ID, "pending")
	a := worker.ClaimJob(job.ID)
	try(job.ID, "processing")
	// The result is announced longer than what is sent, and the connection breaks
	// off: what has come must not count.
	config, err := e.InternalTLS(harness.Spare1)
	e.Must(err, "be a worker")
	c := e.MustDial(e.Internal(0), config)
	e.Must(c.Send(fmt.Appendf(nil, "PUT %s HTTP/1.1\r\nHost: x\r\n%s\r\nRepr-Digest: %s\r\nContent-Length: 500000\r\n\r\n%s", a.Path("result"), a.Fenced(), harness.Digest(secret), append(slices.Clone(secret), make([]byte, 200_000)...))), "send half a result")
	e.Control(e.Await(5*time.Second, func() bool { return len(e.OnDisk(string(secret))) > 0 }), "what was sent does not reach the disk")
	try(job.ID, "processing")
	c.Close()
	try(job.ID, "processing")
	worker.Fail(a, "invalid_input", false)
	try(job.ID, "failed")
	e.Input("")
	other := e.Submit(alice, harness.Lua())
	b := worker.ClaimJob(other.ID)
	worker.Finish(b, secret)
	e.Control(string(e.Result(alice, other.ID).Body) == string(secret), "a completed job's result")
}

func downloadRanges(e *harness.Env) {
	alice := e.Alice()
	job := e.Done(alice, harness.Lua(), "completed")
	whole := e.Result(alice, job.ID).Body
	n := len(whole)
	e.Control(n > 20 && string(e.Result(alice, job.ID, "Range: bytes=2-5").Body) == string(whole[2:6]), "a plain range")
	for _, v := range load(e, "ranges") {
		e.Input("%s", v.ID)
		text := strings.NewReplacer("LAST", itoa(n-1), "SIZE", itoa(n)).Replace(v.Bytes())
		a := e.Result(alice, job.ID, "Range: "+text)
		switch a.Status {
		case http.StatusPartialContent:
			var from, to, of int
			_, err := fmt.Sscanf(a.Header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &of)
			ok := err == nil && of == n && 0 <= from && from <= to && to < n && string(a.Body) == string(whole[from:to+1])
			e.Check(ok, "206 with %q and %d bytes", a.Header.Get("Content-Range"), len(a.Body))
		case http.StatusOK:
			e.Check(string(a.Body) == string(whole), "200 with %d of %d bytes", len(a.Body), n)
		case http.StatusRequestedRangeNotSatisfiable:
			e.Check(a.Header.Get("Content-Range") == "bytes */"+itoa(n) && a.Code() == "range_not_satisfiable", "416 with %q: %s", a.Header.Get("Content-Range"), a.Brief())
		case http.StatusBadRequest, http.StatusRequestHeaderFieldsTooLarge: // bytes that no header may hold
			e.Check(len(a.Body) < 500, "%d with %d bytes", a.Status, len(a.Body))
		default:
			e.Check(false, "got %s", a.Brief())
		}
	}
}

func downloadMany(e *harness.Env) {
	alice := e.Alice()
	job := e.Done(alice, append([]byte("local t = {"+strings.Repeat("1,", 20_000)+"}\n"), harness.Lua()...), "completed")
	whole := len(e.Result(alice, job.ID).Body)
	e.Control(whole > 20_000, "the whole has %d bytes", whole)
	for name, one := range map[string]string{"overlapping": "0-", "the same": "0-99", "suffixes": "-1", "descending": ""} {
		e.Input("%s", name)
		var ranges []string
		for i := range 1500 {
			if one == "" {
				ranges = append(ranges, itoa(1500-i)+"-")
			} else {
				ranges = append(ranges, one)
			}
		}
		a := e.Result(alice, job.ID, "Range: bytes="+strings.Join(ranges, ","))
		e.Check(len(a.Body) <= whole+1024, "%d bytes for a result of %d", len(a.Body), whole)
	}
}

func downloadIfRange(e *harness.Env) {
	alice := e.Alice()
	job := e.Done(alice, harness.Lua(), "completed")
	whole := e.Result(alice, job.ID)
	tag := whole.Header.Get("ETag")
	e.Control(e.Result(alice, job.ID, "Range: bytes=1-3", "If-Range: "+tag).Status == http.StatusPartialContent, "the right tag gives the part")
	for _, condition := range []string{
		`"` + harness.Hash(nil) + `"`, "W/" + tag, strings.Trim(tag, `"`), strings.ToUpper(tag), `"", ` + tag, "*",
		time.Now().UTC().Format(http.TimeFormat), "Thu, 01 Jan 1970 00:00:00 GMT", "x",
	} {
		e.Input("%s", condition)
		a := e.Result(alice, job.ID, "Range: bytes=1-3", "If-Range: "+condition)
		e.Check(a.Status == http.StatusOK && string(a.Body) == string(whole.Body), "got %d with %d bytes", a.Status, len(a.Body))
	}
}

func downloadDigest(e *harness.Env) {
	alice := e.Alice()
	worker := e.Worker(harness.Spare1)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	large := make([]byte, 1<<20)
	for i := range large {
		large[i] = byte(e.Rand.Uint32())
	}
	changed := slices.Clone(large)
	changed[len(changed)-1] ^= 1
	e.Control(harness.Digest(large) != harness.Digest(changed), "the digest does not see a changed bit")
	for name, content := range map[string][]byte{
		"every byte value": every, "one byte": {0}, "line ends": []byte("\r\n\r\n0\r\n\r\n"), "like a form": harness.Form("x", []byte("y")),
		"the greatest size": large, "like an answer": []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
	} {
		e.Input("%s", name)
		job := e.Submit(alice, harness.Lua())
		done := worker.Finish(worker.ClaimJob(job.ID), content)
		e.Control(done.Status == http.StatusOK, "the result is taken: %s", done.Brief())
		for i := range e.Servers() {
			a := e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/jobs/" + job.ID + "/result", Token: e.Token(alice), Server: i})
			e.Check(string(a.Body) == string(content), "server %d gives %d other bytes", i, len(a.Body))
			e.Check(a.Header.Get("Repr-Digest") == harness.Digest(content) && a.Header.Get("ETag") == `"`+harness.Hash(content)+`"` && a.Header.Get("Content-Length") == itoa(len(content)), "its headers are %v", a.Header)
		}
		state := e.Status(alice, job.ID)
		e.Check(state.SHA256 == harness.Hash(content) && state.Size == int64(len(content)), "its state says %s, %d bytes", state.SHA256, state.Size)
	}
}

func downloadHeaders(e *harness.Env) {
	alice := e.Alice()
	worker := e.Worker(harness.Spare1)
	for name, page := range map[string]string{
		"page.html": "<!doctype html><script>alert(1)</script>", "picture.svg": `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`, "script.js": "alert(1)",
		"data.json": `{"a":1}`, "doc.pdf": "%PDF-1.7\n", "plain.txt": "<html>", "x.xhtml": "<html xmlns='http://www.w3.org/1999/xhtml'/>", "x.swf": "FWS\x05",
	} {
		e.Input("%s", name)
		form := strings.Replace(string(harness.Form(name, harness.Lua())), "\r\n\r\n", "\r\nContent-Type: text/html\r\n\r\n", 1)
		sent := e.Do(harness.Request{Method: http.MethodPost, Path: "/api/v1/jobs", Token: e.Token(alice), Header: []string{harness.FormType}, Body: []byte(form)})
		var job harness.Job
		e.JSON(sent, &job)
		worker.Finish(worker.ClaimJob(job.ID), []byte(page))
		a := e.Result(alice, job.ID, "Accept: text/html", "Sec-Fetch-Dest: document")
		e.Control(string(a.Body) == page, "the bytes: %s", a.Brief())
		kind, _, err := mime.ParseMediaType(a.Header.Get("Content-Disposition"))
		e.Check(err == nil && kind == "attachment", "Content-Disposition is %q", a.Header.Get("Content-Disposition"))
		e.Check(a.Header.Get("Content-Type") == "application/octet-stream" && a.Header.Get("X-Content-Type-Options") == "nosniff", "type %q, %q", a.Header.Get("Content-Type"), a.Header.Get("X-Content-Type-Options"))
		policy := a.Header.Get("Content-Security-Policy")
		e.Check(strings.Contains(policy, "default-src 'none'") && strings.Contains(policy, "sandbox") && strings.Contains(policy, "frame-ancestors 'none'"), "policy %q", policy)
		e.Check(strings.Contains(a.Header.Get("Cache-Control"), "no-store") && strings.Contains(a.Header.Get("Cache-Control"), "private"), "Cache-Control %q", a.Header.Get("Cache-Control"))
	}
}

func downloadNoCache(e *harness.Env) {
	alice := e.Alice()
	token := e.Token(alice)
	job := e.Done(alice, harness.Lua(), "completed")
	failed := e.Done(alice, []byte("return (("+harness.RandomHex(4)), "failed")
	path := "/api/v1/jobs/" + job.ID + "/result"
	for want, r := range map[int]harness.Request{
		200: {Path: path, Token: token}, 206: {Path: path, Token: token, Header: []string{"Range: bytes=0-1"}},
		304: {Path: path, Token: token, Header: []string{"If-None-Match: *"}},
		401: {Path: path}, 404: {Path: "/api/v1/jobs/" + harness.UUID(), Token: token}, 405: {Path: "/api/v1/jobs", Token: token},
		409: {Path: "/api/v1/jobs/" + failed.ID + "/result", Token: token}, 416: {Path: path, Token: token, Header: []string{"Range: bytes=999999-"}},
		412: {Path: path, Token: token, Header: []string{`If-Match: "x"`}},
	} {
		e.Input("%d", want)
		r.Method = http.MethodGet
		a := e.Do(r)
		e.Control(a.Status == want, "got %s", a.Brief())
		control := a.Header.Get("Cache-Control")
		e.Check(strings.Contains(control, "no-store") && !strings.Contains(control, "public") && !strings.Contains(control, "max-age") && a.Header.Get("Expires") == "", "Cache-Control %q", control)
	}
}

func downloadHead(e *harness.Env) {
	alice := e.Alice()
	token := e.Token(alice)
	job := e.Done(alice, harness.Lua(), "completed")
	path := "/api/v1/jobs/" + job.ID + "/result"
	for name, r := range map[string]harness.Request{
		"a result": {Path: path, Token: token}, "a missing job": {Path: "/api/v1/jobs/" + harness.UUID() + "/result", Token: token}, "no token": {Path: path},
		"a match":  {Path: path, Token: token, Header: []string{"If-None-Match: *"}},
		"no match": {Path: path, Token: token, Header: []string{`If-Match: "x"`}}, "health": {Path: "/health"}, "ready": {Path: "/ready"},
		"no such path": {Path: "/nothing"},
	} {
		e.Input("%s", name)
		r.Method = http.MethodGet
		get := e.Do(r)
		e.Control(get.Status != 0 && (len(get.Body) > 0 || get.Status == http.StatusNotModified), "GET has no body: %d", get.Status)
		r.Method = http.MethodHead
		head := e.Do(r)
		e.Check(len(head.Body) == 0, "HEAD has a body of %d bytes", len(head.Body))
		head.Body = get.Body
		e.Check(sameAnswer(head, get), "HEAD says %d %v, GET %d %v", head.Status, head.Header, get.Status, get.Header)
		e.Check(whoami(e.Do(me(token))) == alice.Login, "the next answer on the connection is not its own")
	}
}

func downloadExpired(e *harness.Env) {
	alice := renewing(e, e.NewUser())
	marker, content := harness.Marked()
	job := submitFresh(e, alice, content)
	path := "/api/v1/jobs/" + job.ID + "/result"
	result := alice(harness.Request{Method: http.MethodGet, Path: path})
	e.Control(result.Status == http.StatusOK && len(e.OnDisk(marker)) == 1, "before: %d, files %v", result.Status, e.OnDisk(marker))
	stored := e.HoldersOf(e.Endpoint.StorageRoot, string(result.Body))
	e.Note("the result's files were %v", stored)
	const limit = 40 * time.Second
	var a harness.Answer
	e.Control(e.Await(limit, func() bool {
		a = alice(harness.Request{Method: http.MethodGet, Path: path})
		return a.Status != http.StatusOK
	}), "it never ends")
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		for _, header := range [][]string{nil, {"Range: bytes=0-"}, {"If-None-Match: *"}, {"If-Match: *"}} {
			e.Input("%s %v", method, header)
			a := alice(harness.Request{Method: method, Path: path, Header: header})
			e.Check(a.Status == http.StatusGone && (method == http.MethodHead || a.Code() == "result_expired"), "got %s", a.Brief())
		}
	}
	e.Input("")
	e.Check(e.Await(20*time.Second, func() bool { return len(e.OnDisk(marker)) == 0 }), "the input stays on disk: %v", e.OnDisk(marker))
	state := alice(harness.Request{Method: http.MethodGet, Path: "/api/v1/jobs/" + job.ID})
	e.Check(holds(state, job.ID) && holds(state, harness.Hash(result.Body)), "the state no longer names it: %s", state.Brief())
}

func downloadInput(e *harness.Env) {
	alice := e.Alice()
	marker, content := harness.Marked()
	job := e.Submit(alice, content)
	e.Control(e.Status(alice, job.ID).ID == job.ID, "the job exists")
	for _, path := range []string{
		"/api/v1/jobs/ID/input", "/api/v1/jobs/ID/file", "/api/v1/jobs/ID/source", "/api/v1/jobs/ID/original", "/api/v1/jobs/ID/download",
		"/api/v1/jobs/ID/result?input=1", "/api/v1/jobs/ID?include=input",
		"/api/v1/jobs/ID/result/../input", "/api/v1/assets/ASSET", "/api/v1/assets/ASSET/content", "/api/v1/assets/ASSET/file",
		"/api/v1/uploads/ASSET", "/api/v1/uploads/ID", "/api/v1/files/ID", "/api/v1/files/a.lua", "/internal/v1/jobs/ID/input",
	} {
		e.Input("%s", path)
		a := e.Do(harness.Request{Method: http.MethodGet, Path: strings.NewReplacer("ID", job.ID, "ASSET", job.AssetID).Replace(path), Token: e.Token(alice), Header: []string{"Glovebox-Fencing-Token: 1"}})
		e.Check(!holds(a, marker), "the answer holds the file: %s", a.Brief())
	}
}

func downloadStorage(e *harness.Env) {
	token := e.Token(e.Alice())
	e.Control(e.Do(harness.Request{Method: http.MethodGet, Path: "/health"}).Status == http.StatusOK, "a known path")
	for _, path := range []string{
		"/../../../../etc/passwd", "/..%2f..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/%2e%2e/etc/passwd", "/..\\..\\..\\etc\\passwd", "//etc/passwd",
		"/etc/passwd", "/static/../../etc/passwd", "/api/v1/..%252f..%252fetc/passwd",
		"/storage", "/storage/", "/objects/", "/tmp/", "/files/", "/results/", "/data/", "/var/lib/glovebox/", "/server.toml", "/etc/server-0.toml",
		"/config", "/.env", "/.git/config", "/.git/HEAD", "/go.mod", "/backup.sql", "/id_rsa",
		"/proc/self/environ", "/%c0%ae%c0%ae/%c0%ae%c0%ae/etc/passwd", "/api/v1/jobs/..%2f..%2fobjects", "/api/v1/openapi.yaml/../../../etc/passwd",
		"/api/v1/openapi.yaml%00.html", "/favicon.ico", "/robots.txt", "/.well-known/security.txt",
	} {
		for _, t := range []string{token, ""} {
			e.Input("%s", path)
			a := e.Do(harness.Request{Method: http.MethodGet, Path: path, Token: t})
			e.Check(a.Status >= 400 && a.Status < 500 && !holds(a, "root:x:") && !holds(a, "[listen]") && !holds(a, "PATH="), "got %s", a.Brief())
		}
	}
}

func downloadPlain(e *harness.Env) {
	token := e.Token(e.Alice())
	for _, route := range routes {
		if route.method == http.MethodDelete {
			continue
		}
		e.Input("%s", route.name())
		a := e.Do(route.request(harness.UUID(), token, "Accept-Encoding: gzip, deflate, br, zstd, *", "TE: gzip"))
		e.Control(a.Status != 0 && a.Status < 500, "got %s", a.Brief())
		e.Check(a.Header.Get("Content-Encoding") == "" && a.Header.Get("Transfer-Encoding") == "", "it is encoded: %v", a.Header)
	}
}

func downloadHeaderLines(e *harness.Env) {
	alice := e.Alice()
	named := func(name string) harness.Answer {
		a := e.Do(harness.Request{Method: http.MethodPost, Path: "/api/v1/jobs", Token: e.Token(alice), Header: []string{harness.FormType}, Body: harness.Form(name, harness.Lua())})
		if a.Status != http.StatusCreated {
			return a
		}
		var job harness.Job
		e.JSON(a, &job)
		e.Await(harness.Patience, func() bool { return e.Status(alice, job.ID).Status == "completed" })
		return e.Result(alice, job.ID)
	}
	headers := func(a harness.Answer) []string {
		var names []string
		for name := range a.Header {
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	plain := named("a.lua")
	e.Control(plain.Status == http.StatusOK && plain.Header.Get("Content-Disposition") == `attachment; filename="a.lua"`, "a plain name: %s", plain.Brief())
	for _, name := range []string{
		`a\r\nX-Injected: 1`, "a%0d%0aX-Injected: 1", "a%0D%0A%0D%0A<html>", "a\u2028X-Injected: 1", "a\u0085X-Injected: 1", "a\x0bX-Injected: 1",
		"a\rX-Injected: 1", "a\nX-Injected: 1", `a\"; X-Injected=1; x=\"`, "a;filename=b.html", "=?utf-8?Q?a=0D=0AX-Injected:_1?=",
		"\u560d\u560aX-Injected: 1",
	} {
		e.Input("%q", name)
		a := named(name)
		if a.Status >= 400 {
			e.Check(a.Status == http.StatusBadRequest, "got %s", a.Brief())
			continue
		}
		e.Check(slices.Equal(headers(a), headers(plain)) && len(a.Header["Content-Disposition"]) == 1, "its headers are %v", a.Header)
		kind, params, err := mime.ParseMediaType(a.Header.Get("Content-Disposition"))
		e.Check(err == nil && kind == "attachment" && !strings.ContainsAny(params["filename"], "\r\n/\\\x00"), "Content-Disposition is %q (%v)", a.Header.Get("Content-Disposition"), err)
	}
}
