package attacks

import (
	"fmt"
	"net/http"
	"strings"

	"glovebox/attacks/harness"
)

// upload attacks the way in: forms, sizes, names and limits.
var upload = harness.Family{
	Name: "upload", About: "uploads: forms, sizes, names, limits",
	Cases: join(uploadForms, uploadSizes, uploadNames, uploadLimits),
}

// uploadForms are multipart bodies that are not what they should be.
var uploadForms = []harness.Case{
	{
		ID: "upload/malformed-form", Title: "a form that two readers understand differently becomes a job",
		Requirements: []string{"API-04", "API-07"}, Threats: []string{"PUB-T2", "PUB-T3"},
		Attack:  "forms without a closing delimiter, with a broken part header, a second file, another name, an encoding, nested parts",
		Control: "the form as it should be makes a job, and its marker is found on disk",
		Oracle:  "status 400, and no file on disk holds the form's marker",
		Run:     uploadMalformed,
	},
	{
		ID: "upload/other-type", Title: "a body of another type is taken as an upload",
		Requirements: []string{"API-07", "UPL-07"}, Threats: []string{"PUB-T2"},
		Attack:  "a form under other content types, and other bodies under a form's",
		Control: "the form under its type makes a job",
		Oracle:  "status 400 or 415, and nothing on disk",
		Run:     uploadOtherType,
	},
	{
		ID: "upload/boundary", Title: "a boundary of an attacker's choosing hides a part",
		Requirements: []string{"API-04", "API-07"}, Threats: []string{"PUB-T2"},
		Attack:  "boundaries that are empty, too long, of forbidden characters, doubled, quoted, continued",
		Control: "every permitted character in a boundary works",
		Oracle:  "status 400 or 415, and nothing on disk",
		Run:     uploadBoundary,
	},
	{
		ID: "upload/content-like-boundary", Title: "other bytes are processed than the user sent",
		Requirements: []string{"API-04", "JOB-12"}, Threats: []string{"PUB-T3"}, World: harness.Quiet, Lock: "queue",
		Attack:  "files full of almost-delimiters, delimiters of other forms, line ends, NUL and every byte value, cut into odd pieces",
		Control: "a plain file arrives as it was sent",
		Oracle:  "size and digest in the claim, and the input that the worker fetches",
		Run:     uploadLikeBoundary,
	},
	{
		ID: "upload/thousand-parts", Title: "thousands of parts burn memory or time",
		Requirements: []string{"API-04", "UPL-02"}, Threats: []string{"PUB-D2"},
		Attack:  "50,000 empty parts, and a part of 50,000 header lines",
		Control: "a form with one part is taken on the same server at the same time",
		Oracle:  "status 400; the server's memory by the kernel's word",
		Serial:  true,
		Run:     uploadThousand,
	},
	{
		ID: "upload/around-the-form", Title: "bytes before and behind the form fill the server",
		Requirements: []string{"API-04", "UPL-01"}, Threats: []string{"PUB-D2"},
		Attack:  "a preamble, a part header and an epilogue of 200,000 bytes each",
		Control: "short ones are taken",
		Oracle:  "status 400, and nothing on disk",
		Run:     uploadAround,
	},
	{
		ID: "upload/encoded-body", Title: "a small encoded body unfolds into a huge one",
		Requirements: []string{"API-07", "UPL-01", "UPL-09"}, Threats: []string{"PUB-D2"},
		Attack:  "gzip, deflate, br, zstd, doubled and unknown Content-Encodings on every route that takes a body",
		Control: "identity is accepted",
		Oracle:  "status 415 or 400, and nothing on disk",
		Run:     uploadEncoded,
	},
	{
		ID: "upload/archives", Title: "an archive is unpacked outside the sandbox",
		Requirements: []string{"UPL-09", "SBX-13"}, Threats: []string{"STO-T1", "PUB-D2"},
		Attack:  "a zip with ../ names, a gzip bomb, a tar with links, a zip of a zip, as uploads",
		Control: "the upload's bytes are on disk once",
		Oracle:  "disk: nothing but the upload itself, no name of the archive anywhere below the system's folder; the job's end",
		Run:     uploadArchives,
	},
}

// formOf is the form with one thing changed.
type badForm struct {
	name string
	body func(marker string) string
}

const (
	partHead = "Content-Disposition: form-data; name=\"file\"; filename=\"a.lua\"\r\n"
	delim    = "--" + harness.Boundary
)

// part is a whole form around the header lines and the content.
func part(head, content string) string {
	return delim + "\r\n" + head + "\r\n" + content + "\r\n" + delim + "--\r\n"
}

var badForms = []badForm{
	{"no closing delimiter", func(m string) string { return delim + "\r\n" + partHead + "\r\n" + m + "\r\n" }},
	{"closing delimiter without dashes", func(m string) string { return delim + "\r\n" + partHead + "\r\n" + m + "\r\n" + delim + "\r\n" }},
	{"closing delimiter with one dash", func(m string) string { return delim + "\r\n" + partHead + "\r\n" + m + "\r\n" + delim + "-\r\n" }},
	{"bare line feeds", func(m string) string { return strings.ReplaceAll(part(partHead, m), "\r\n", "\n") }},
	{"bare carriage returns", func(m string) string { return strings.ReplaceAll(part(partHead, m), "\r\n", "\r") }},
	{"header and body not apart", func(m string) string { return delim + "\r\n" + partHead + m + "\r\n" + delim + "--\r\n" }},
	{"no header at all", func(m string) string { return part("", m) }},
	{"no disposition", func(m string) string { return part("Content-Type: text/plain\r\n", m) }},
	{"disposition attachment", func(m string) string { return part("Content-Disposition: attachment; name=\"file\"\r\n", m) }},
	{"two dispositions", func(m string) string { return part(partHead+partHead, m) }},
	{"two names", func(m string) string {
		return part("Content-Disposition: form-data; name=\"file\"; name=\"file\"\r\n", m)
	}},
	{"two different names", func(m string) string { return part("Content-Disposition: form-data; name=\"x\"; name=\"file\"\r\n", m) }},
	{"extended name", func(m string) string { return part("Content-Disposition: form-data; name*=UTF-8''file\r\n", m) }},
	{"name in capitals", func(m string) string { return part("Content-Disposition: form-data; name=\"FILE\"\r\n", m) }},
	{"name with NUL", func(m string) string { return part("Content-Disposition: form-data; name=\"file\x00\"\r\n", m) }},
	{"name with space", func(m string) string { return part("Content-Disposition: form-data; name=\"file \"\r\n", m) }},
	{"other name", func(m string) string { return part("Content-Disposition: form-data; name=\"upload\"\r\n", m) }},
	{"folded header", func(m string) string { return part("Content-Disposition: form-data;\r\n name=\"file\"\r\n", m) }},
	{"space before colon", func(m string) string { return part("Content-Disposition : form-data; name=\"file\"\r\n", m) }},
	{"line without colon", func(m string) string { return part(partHead+"no colon here\r\n", m) }},
	{"NUL in a header's name", func(m string) string { return part("Content-Disposition\x00: x\r\n"+partHead+"X\x00Y\r\n", m) }},
	{"carriage return in a header", func(m string) string { return part("X: a\rContent-Disposition: form-data; name=\"x\"\r\n"+partHead, m) }},
	{"base64", func(m string) string { return part(partHead+"Content-Transfer-Encoding: base64\r\n", m) }},
	{"quoted-printable", func(m string) string { return part(partHead+"Content-Transfer-Encoding: quoted-printable\r\n", m) }},
	{"x-token encoding", func(m string) string { return part(partHead+"Content-Transfer-Encoding: x-gzip\r\n", m) }},
	{"two files", func(m string) string {
		return delim + "\r\n" + partHead + "\r\n" + m + "\r\n" + part(partHead, m)
	}},
	{"a field before", func(m string) string {
		return delim + "\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n" + part(partHead, m)
	}},
	{"nine header lines", func(m string) string { return part(partHead+strings.Repeat("X: y\r\n", 9), m) }},
	{"empty body", func(string) string { return "" }},
	{"closing delimiter alone", func(string) string { return delim + "--\r\n" }},
	{"delimiter not at a line's start", func(m string) string { return "x" + part(partHead, m) }},
	{"text behind the delimiter", func(m string) string { return delim + "x\r\n" + partHead + "\r\n" + m + "\r\n" + delim + "--\r\n" }},
}

// formRequest uploads body under FormType as the token's user.
func formRequest(token, body string) harness.Request {
	return harness.Request{Method: http.MethodPost, Path: "/api/v1/jobs", Token: token, Header: []string{harness.FormType}, Body: []byte(body)}
}

// gone checks that no file holds the marker any more; a temporary one has a moment
// to go.
func gone(e *harness.Env, marker string) {
	var left []string
	e.Check(e.Await(harness.Patience/10, func() bool { left = e.OnDisk(marker); return len(left) == 0 }), "it is left on disk: %v", left)
}

func uploadMalformed(e *harness.Env) {
	bob := e.Bob()
	marker, content := harness.Marked()
	a := e.Do(formRequest(e.Token(bob), part(partHead, string(content))))
	e.Control(a.Status == http.StatusCreated && len(e.OnDisk(marker)) == 1, "the form as it should be: %s, files %v", a.Brief(), e.OnDisk(marker))
	for _, f := range badForms {
		e.Input("%s", f.name)
		marker, content := harness.Marked()
		a := e.Do(formRequest(e.Token(bob), f.body(string(content))))
		e.Check(refused(a, http.StatusBadRequest, "invalid_request"), "got %s", a.Brief())
		gone(e, marker)
	}
}

func uploadOtherType(e *harness.Env) {
	bob := e.Bob()
	_, content := harness.Marked()
	a := e.Do(formRequest(e.Token(bob), part(partHead, string(content))))
	e.Control(a.Status == http.StatusCreated, "the form under its type: %s", a.Brief())
	for _, kind := range []string{
		"", "text/plain", "application/octet-stream", "application/json", "application/x-www-form-urlencoded",
		"multipart/mixed; boundary=" + harness.Boundary, "multipart/related; boundary=" + harness.Boundary,
		"multipart/byteranges; boundary=" + harness.Boundary, "multipart/form-data", "multipart/form-data;boundary",
		"multipart/form-data, multipart/form-data; boundary=" + harness.Boundary, "application/x-lua",
		"multipart/ form-data; boundary=" + harness.Boundary,
		"multipart/form-data boundary=" + harness.Boundary, "text/plain; multipart/form-data; boundary=" + harness.Boundary, "message/rfc822",
	} {
		e.Input("%q", kind)
		marker, content := harness.Marked()
		r := formRequest(e.Token(bob), part(partHead, string(content)))
		r.Header = []string{"Content-Type: " + kind}
		a := e.Do(r)
		e.Check((a.Status == http.StatusUnsupportedMediaType || a.Status == http.StatusBadRequest) && a.Code() != "", "got %s", a.Brief())
		gone(e, marker)
	}
	for name, body := range map[string]string{"json": `{"file":"MARK"}`, "url encoded": "file=MARK", "raw": "MARK", "xml": "<file>MARK</file>"} {
		e.Input("%s under a form's type", name)
		marker, _ := harness.Marked()
		a := e.Do(formRequest(e.Token(bob), strings.ReplaceAll(body, "MARK", marker)))
		e.Check(refused(a, http.StatusBadRequest, "invalid_request"), "got %s", a.Brief())
		gone(e, marker)
	}
}

func uploadBoundary(e *harness.Env) {
	bob := e.Bob()
	with := func(header, boundary string) (harness.Answer, string) {
		marker, content := harness.Marked()
		r := formRequest(e.Token(bob), strings.ReplaceAll(part(partHead, string(content)), harness.Boundary, boundary))
		r.Header = []string{"Content-Type: multipart/form-data; " + header}
		return e.Do(r), marker
	}
	for _, b := range []string{"a", "0123456789", strings.Repeat("x", 70), "'()+_,-./:=?"} {
		a, _ := with(`boundary="`+b+`"`, b)
		e.Control(a.Status == http.StatusCreated, "boundary %q: %s", b, a.Brief())
	}
	for name, b := range map[string][2]string{
		"empty": {`boundary=`, ""}, "empty in quotes": {`boundary=""`, ""}, "71 characters": {"boundary=" + strings.Repeat("x", 71), strings.Repeat("x", 71)},
		"a space at its end": {`boundary="x "`, "x "}, "a quote": {`boundary="x\"y"`, `x"y`}, "a line end": {"boundary=\"x\\\r\\\ny\"", "x\r\ny"},
		"a star": {"boundary=x*y", "x*y"}, "brackets": {`boundary="<x>"`, "<x>"}, "at": {`boundary="x@y"`, "x@y"},
		"twice": {"boundary=x; boundary=y", "x"}, "continued": {"boundary*0=x; boundary*1=y", "z"},
		"extended, another": {"boundary*=utf-8''x%20y", "xy"}, "umlaut": {`boundary="ä"`, "ä"}, "NUL": {"boundary=\"x\x00\"", "x"},
		"thousands":        {"boundary=" + strings.Repeat("x", 5000), strings.Repeat("x", 5000)},
		"none but another": {"charset=utf-8", "x"}, "capital of another": {"boundary=Abc", "abc"},
	} {
		e.Input("%s", name)
		a, marker := with(b[0], b[1])
		e.Check(a.Status == http.StatusBadRequest || a.Status == http.StatusUnsupportedMediaType, "got %s", a.Brief())
		gone(e, marker)
	}
}

func uploadLikeBoundary(e *harness.Env) {
	alice := e.Alice()
	worker := e.Worker(harness.Spare1)
	b := harness.Boundary
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	contents := map[string]string{
		"plain": "return 1", "a delimiter without its line end": "x" + "--" + b + "--", "a delimiter after a line feed": "x\n--" + b + "--\n",
		"after a carriage return": "x\r--" + b + "--\r",
		"one character short":     "x\r\n--" + b[:len(b)-1] + "--\r\n", "one character long": "x\r\n--" + b + "x--\r\n", "one dash": "\r\n-" + b,
		"in capitals": "\r\n--" + strings.ToUpper(b) + "--\r\n", "only line ends": "\r\n\r\n\r\n",
		"ends with a line end": "x\r\n", "ends with half a delimiter": "x\r\n--",
		"another form": strings.ReplaceAll(part(partHead, "x"), b, "another"), "every byte value": string(every),
		"NULs": strings.Repeat("\x00", 70_000), "empty": "",
		"almost, again and again": strings.Repeat("\r\n--"+b[:10], 6000),
	}
	for name, content := range contents {
		e.Input("%s", name)
		r := formRequest(e.Token(alice), part(partHead, content))
		c := e.MustDial(e.Public(0), nil)
		raw := r.Bytes(e.Public(0))
		// In odd pieces, so that delimiters are cut.
		for len(raw) > 0 {
			n := min(len(raw), 1+e.Rand.IntN(20_000))
			e.Must(c.Send(raw[:n]), "send a piece")
			raw = raw[n:]
		}
		a, err := c.Receive(http.MethodPost, harness.Patience)
		e.Must(err, "read the answer")
		if a.Status != http.StatusCreated {
			e.Check(false, "got %s", a.Brief())
			continue
		}
		var job harness.Job
		e.JSON(a, &job)
		claim := worker.ClaimJob(job.ID)
		e.Check(claim.InputSize == int64(len(content)) && claim.InputSHA256 == harness.Hash([]byte(content)), "the claim tells of %d bytes, %d were sent", claim.InputSize, len(content))
		input := worker.Must(http.MethodGet, claim.Path("input"), nil, claim.Fenced())
		e.Check(string(input.Body) == content, "the worker gets %d other bytes", len(input.Body))
		if name == "plain" {
			e.Control(string(input.Body) == "return 1", "a plain file")
		}
		worker.Fail(claim, "invalid_input", false)
		c.Close()
	}
}

func uploadThousand(e *harness.Env) {
	bob := e.Bob()
	watch := e.WatchServers()
	for name, body := range map[string]string{
		"parts":   strings.Repeat(delim+"\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n\r\n", 3000) + part(partHead, "x"),
		"headers": part(partHead+strings.Repeat("X-Header: value\r\n", 12_000), "x"),
		"a line":  part(partHead+"X: "+strings.Repeat("y", 250_000)+"\r\n", "x"),
	} {
		e.Input("%s", name)
		conns := make([]*harness.Conn, 16)
		for i := range conns {
			conns[i] = e.MustDial(e.Public(i), nil)
		}
		e.Parallel(len(conns), func(i int) {
			a, err := exchange(conns[i], formRequest(e.Token(bob), body), e.Public(i))
			// Refused at the first bytes, the rest may meet a closed connection; over
			// the user's limit of uploads, with 429.
			e.Check(err != nil || a.Status == http.StatusBadRequest || a.Status == http.StatusTooManyRequests, "got %s", a.Brief())
		})
	}
	e.Input("")
	a := e.Do(formRequest(e.Token(bob), part(partHead, "return 1")))
	e.Control(a.Status == http.StatusCreated, "a form with one part: %s", a.Brief())
	const most = 48 << 20
	e.Check(watch() < most, "a server's memory grew by %d MiB", watch()>>20)
}

func uploadAround(e *harness.Env) {
	bob := e.Bob()
	long := strings.Repeat("x", 200_000)
	for name, f := range map[string]func(m, fill string) string{
		"preamble":    func(m, fill string) string { return fill + "\r\n" + part(partHead, m) },
		"part header": func(m, fill string) string { return part(partHead+"X: "+fill+"\r\n", m) },
		"epilogue":    func(m, fill string) string { return part(partHead, m) + fill },
		"file name": func(m, fill string) string {
			return part(fmt.Sprintf("Content-Disposition: form-data; name=\"file\"; filename=\"%s\"\r\n", fill), m)
		},
	} {
		e.Input("%s", name)
		a := e.Do(formRequest(e.Token(bob), f("return 1", "short")))
		e.Control(a.Status == http.StatusCreated, "a short one: %s", a.Brief())
		marker, content := harness.Marked()
		a = e.Do(formRequest(e.Token(bob), f(string(content), long)))
		e.Check(refused(a, http.StatusBadRequest, "invalid_request"), "got %s", a.Brief())
		gone(e, marker)
	}
}

func uploadEncoded(e *harness.Env) {
	bob := e.Bob()
	a := e.Do(harness.SubmitRequest(e.Token(bob), harness.Lua(), "Content-Encoding: identity"))
	e.Control(a.Status == http.StatusCreated, "identity: %s", a.Brief())
	for _, encoding := range []string{"gzip", "x-gzip", "deflate", "br", "zstd", "compress", "gzip, gzip", "identity, gzip", "GZIP", "aes128gcm", "unknown", "gzip;q=1"} {
		marker, content := harness.Marked()
		for name, r := range map[string]harness.Request{
			"upload": harness.SubmitRequest(e.Token(bob), content, "Content-Encoding: "+encoding),
			"login":  {Method: http.MethodPost, Path: "/api/v1/auth/token", Header: []string{harness.JSONType, "Content-Encoding: " + encoding}, Body: []byte(`{"login":"n","password":"p"}`)},
		} {
			e.Input("%s, %s", name, encoding)
			a := e.Do(r)
			e.Check(refused(a, http.StatusUnsupportedMediaType, "unsupported_media_type"), "got %s", a.Brief())
		}
		gone(e, marker)
	}
	e.Input("two headers")
	a = e.Do(harness.SubmitRequest(e.Token(bob), harness.Lua(), "Content-Encoding: identity", "Content-Encoding: gzip"))
	e.Check(refused(a, http.StatusBadRequest, "invalid_request"), "got %s", a.Brief())
}
