package attacks

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"glovebox/attacks/harness"
)

// idempotency attacks the promise that a repeated request is one request.
var idempotency = harness.Family{
	Name: "idempotency", About: "repeated, parallel and conflicting requests under one key",
	Cases: []harness.Case{
		{
			ID: "idempotency/replay", Title: "a repeated upload makes a second job",
			Requirements: []string{"API-04", "JOB-04"}, Threats: []string{"PUB-T3"},
			Attack:  "the same key and file again: under another boundary, framing, server and token",
			Control: "the same file without a key makes a second job",
			Oracle:  "the job's id and Idempotency-Replayed; one file on disk holds the marker",
			Run:     idemReplay,
		},
		{
			ID: "idempotency/other-file", Title: "another file under a known key is taken for the first",
			Requirements: []string{"API-04"}, Threats: []string{"PUB-T3"},
			Attack:  "the same key with one byte changed, with another name, with an empty file, with the digest alone declared",
			Control: "the first file is taken, and its own repetition is answered with its job",
			Oracle:  "422; no file on disk holds the second marker; the first job is as it was",
			Run:     idemOther,
		},
		{
			ID: "idempotency/parallel-same", Title: "repeated requests that arrive together make several jobs, or break",
			Requirements: []string{"API-04", "JOB-04"}, Threats: []string{"PUB-T3", "DBS-T2"},
			Attack:  "16 equal uploads under one key at the same moment over both servers, four rounds",
			Control: "without a key they make several jobs",
			Oracle:  "the ids in all answers are one; no 5xx; one file on disk",
			Run:     idemParallelSame,
		},
		{
			ID: "idempotency/parallel-different", Title: "two different files that arrive together under one key are both taken",
			Requirements: []string{"API-04"}, Threats: []string{"PUB-T3", "DBS-T2"},
			Attack:  "8 different uploads under one key at the same moment over both servers",
			Control: "one of them is taken",
			Oracle:  "the number of 201; no 5xx; the number of files on disk",
			Run:     idemParallelDifferent,
		},
		{
			ID: "idempotency/in-flight", Title: "a request is answered with a job that is not there yet",
			Requirements: []string{"API-04"}, Threats: []string{"PUB-T3"},
			Attack:  "the same key while the first upload is on its way, with and without a declared digest",
			Control: "once the first has ended, the repetition is answered with its job",
			Oracle:  "409 with Retry-After; for another declared digest 422 or 409; on both servers",
			Run:     idemInFlight,
		},
		{
			ID: "idempotency/dead-client", Title: "a client that dies keeps its key for ever",
			Requirements: []string{"API-04", "UPL-08"}, Threats: []string{"PUB-T3", "PUB-D1"},
			Attack:  "an upload under a key is cut off in the middle",
			Control: "while it is on its way the key is taken",
			Oracle:  "the same key with the same and with another file is taken soon after; nothing of the first is on disk",
			Run:     idemDeadClient,
		},
		{
			ID: "idempotency/refused-first", Title: "a refused upload uses the key up",
			Requirements: []string{"API-04", "UPL-01"}, Threats: []string{"PUB-T3"},
			Attack:  "under one key: too large, malformed, wrong digest, wrong type, broken off",
			Control: "the key is answered with its job once one was taken",
			Oracle:  "the good upload under the key is taken with 201",
			Run:     idemRefusedFirst,
		},
		{
			ID: "idempotency/digest", Title: "bytes other than the client declared become a job",
			Requirements: []string{"API-04", "STO-04"}, Threats: []string{"PUB-T3"},
			Attack:  "a declared digest of other bytes, of another algorithm, cut, in hexadecimal, in a list, padded otherwise",
			Control: "the right digest is accepted",
			Oracle:  "400, and nothing on disk",
			Run:     idemDigest,
		},
		{
			ID: "idempotency/key-forms", Title: "a key that is read differently joins two requests or splits one",
			Requirements: []string{"API-04", "API-07"}, Threats: []string{"PUB-T2", "PUB-T3"},
			Attack:  "keys that are empty, too long, of control characters, spaces, not ASCII, doubled; keys that differ in case or by one character",
			Control: "a key of every visible character and the greatest length is taken, and replayed",
			Oracle:  "400 for the malformed; different jobs for different keys",
			Run:     idemKeyForms,
		},
		{
			ID: "idempotency/finished", Title: "a repetition runs a finished job again, or shows an old state",
			Requirements: []string{"API-04", "JOB-04", "JOB-01"}, Threats: []string{"PUB-T3", "LIF-T1"},
			Attack:  "the same key and file after the job has completed",
			Control: "the observer sees the job completed",
			Oracle:  "the answer says completed; attempt, token and history are as they were",
			Run:     idemFinished,
		},
		{
			ID: "idempotency/injection", Title: "a key becomes a query, a path or a log line",
			Requirements: []string{"DBS-01", "API-04"}, Threats: []string{"DBS-T1", "PUB-T4", "OPS-R1"},
			Attack:  "keys of SQL, paths, templates and JSON",
			Control: "a plain key is replayed",
			Oracle:  "each is a key like any other: 201, then 200 with the same id",
			Run:     idemInjection,
		},
	},
}

func keyed(token string, content []byte, key string, more ...string) harness.Request {
	return harness.SubmitRequest(token, content, append([]string{"Idempotency-Key: " + key}, more...)...)
}

// jobOf returns the job that an answer to an upload names.
func jobOf(a harness.Answer) (job harness.Job) {
	if a.Status == http.StatusOK || a.Status == http.StatusCreated {
		_ = json.Unmarshal(a.Body, &job) // an answer of another form names none
	}
	return job
}

func idemReplay(e *harness.Env) {
	u := e.Alice()
	token, key := e.Token(u), harness.RandomHex(8)
	marker, content := harness.Marked()
	first := jobOf(e.Do(keyed(token, content, key)))
	otherBoundary := keyed(token, content, key)
	otherBoundary.Header = []string{strings.Replace(harness.FormType, harness.Boundary, "zzz", 1), "Idempotency-Key: " + key}
	otherBoundary.Body = []byte(strings.ReplaceAll(string(otherBoundary.Body), harness.Boundary, "zzz"))
	chunks := chunkedRequest(token, harness.Form("a.lua", content), 7)
	chunks.Header = append(chunks.Header, "Idempotency-Key: "+key)
	elsewhere := keyed(token, content, key)
	elsewhere.Server = 1
	for name, r := range map[string]harness.Request{
		"as it was": keyed(token, content, key), "another boundary": otherBoundary, "in chunks": chunks, "the other server": elsewhere,
		"another token": keyed(e.FreshToken(u), content, key), "declared": keyed(token, content, key, "Glovebox-File-Digest: "+harness.Digest(content)),
	} {
		e.Input("%s", name)
		a := e.Do(r)
		e.Check(a.Status == http.StatusOK && jobOf(a).ID == first.ID && first.ID != "" && a.Header.Get("Idempotency-Replayed") == "true" && a.Header.Get("Location") == "/api/v1/jobs/"+first.ID, "got %s", a.Brief())
	}
	e.Input("")
	e.Check(len(e.OnDisk(marker)) == 1, "the files are %v", e.OnDisk(marker))
	e.Control(jobOf(e.Do(harness.SubmitRequest(token, content))).ID != first.ID && len(e.OnDisk(marker)) == 2, "without a key: files %v", e.OnDisk(marker))
}

func idemOther(e *harness.Env) {
	u := e.Alice()
	token, key := e.Token(u), harness.RandomHex(8)
	_, content := harness.Marked()
	first := jobOf(e.Do(keyed(token, content, key)))
	e.Control(first.ID != "" && jobOf(e.Do(keyed(token, content, key))).ID == first.ID, "the first and its repetition")
	marker, other := harness.Marked()
	changed := append([]byte{}, content...)
	changed[len(changed)-2] ^= 1
	renamed := keyed(token, content, key)
	renamed.Body = harness.Form("other name.txt", content) // the name is part of what was asked for
	for name, r := range map[string]harness.Request{
		"another name": renamed, "another file": keyed(token, other, key), "one byte changed": keyed(token, changed, key),
		"an empty file": keyed(token, nil, key), "declared": keyed(token, other, key, "Glovebox-File-Digest: "+harness.Digest(other)),
	} {
		for i := range e.Servers() {
			e.Input("%s, server %d", name, i)
			r.Server = i
			a := e.Do(r)
			e.Check(refused(a, http.StatusUnprocessableEntity, "idempotency_mismatch"), "got %s", a.Brief())
		}
	}
	gone(e, marker)
	e.Input("the digest before the body")
	c := e.MustDial(e.Public(0), nil)
	r := keyed(token, nil, key, "Glovebox-File-Digest: "+harness.Digest(other), "Content-Length: 5000")
	r.NoLength, r.Body = true, []byte("--"+harness.Boundary+"\r\n"+partHead+"\r\n")
	e.Must(c.Send(r.Bytes(e.Public(0))), "send the beginning")
	// The server waits a moment for the rest, so that the connection can be kept.
	a, err := c.Receive(http.MethodPost, 2*time.Second+grace)
	e.Check(err == nil && a.Status == http.StatusUnprocessableEntity, "it is not refused before its body: %s (%v)", a.Brief(), err)
	e.Check(e.Status(u, first.ID).ID == first.ID, "the first job is gone")
}

// burst sends requests at the same moment, each on a connection that is open
// already, and returns the answers.
func burst(e *harness.Env, n int, request func(i int) harness.Request) []harness.Answer {
	conns := make([]*harness.Conn, n)
	for i := range conns {
		conns[i] = e.MustDial(e.Public(i), nil)
	}
	var mu sync.Mutex
	var all []harness.Answer
	e.Parallel(n, func(i int) {
		a, err := exchange(conns[i], request(i), e.Public(i))
		if err != nil {
			a = harness.Answer{Body: []byte(err.Error())}
		}
		mu.Lock()
		all = append(all, a)
		mu.Unlock()
	})
	for _, c := range conns {
		c.Close()
	}
	return all
}

func idemParallelSame(e *harness.Env) {
	u := e.NewUser()
	token := e.Token(u)
	for round := range 4 {
		e.Input("round %d", round)
		key := harness.RandomHex(8)
		marker, content := harness.Marked()
		all := burst(e, 16, func(int) harness.Request { return keyed(token, content, key) })
		ids := map[string]bool{}
		for _, a := range all {
			busy := refused(a, http.StatusConflict, "idempotency_in_flight") || refused(a, http.StatusTooManyRequests, "limit_exceeded")
			e.Check(busy || jobOf(a).ID != "", "got %s", a.Brief())
			if id := jobOf(a).ID; id != "" {
				ids[id] = true
			}
		}
		e.Check(len(ids) == 1, "%d jobs came of one key", len(ids))
		e.Check(len(e.OnDisk(marker)) == 1, "the files are %v", e.OnDisk(marker))
	}
	e.Input("")
	_, content := harness.Marked()
	ids := map[string]bool{}
	for _, a := range burst(e, 4, func(int) harness.Request { return harness.SubmitRequest(token, content) }) {
		ids[jobOf(a).ID] = true
	}
	e.Control(len(ids) > 1, "without a key they make %d jobs", len(ids))
}

func idemParallelDifferent(e *harness.Env) {
	u := e.NewUser()
	token := e.Token(u)
	for round := range 4 {
		e.Input("round %d", round)
		key := harness.RandomHex(8)
		markers := map[string]string{}
		contents := make([][]byte, 8)
		for i := range contents {
			markers[strconv.Itoa(i)], contents[i] = harness.Marked()
		}
		made := 0
		for _, a := range burst(e, len(contents), func(i int) harness.Request { return keyed(token, contents[i], key) }) {
			if a.Status == http.StatusCreated {
				made++
				continue
			}
			e.Check(a.Status == http.StatusConflict || a.Status == http.StatusUnprocessableEntity || a.Status == http.StatusTooManyRequests, "got %s", a.Brief())
		}
		e.Control(made > 0, "none was taken")
		e.Check(made == 1, "%d were taken", made)
		files := 0
		for _, holders := range e.AllOnDisk(markers) {
			files += len(holders)
		}
		e.Check(files == 1, "%d files are on disk", files)
	}
}

func idemInFlight(e *harness.Env) {
	u := e.NewUser()
	token, key := e.Token(u), harness.RandomHex(8)
	marker, _ := harness.Marked()
	content := append([]byte("-- "+marker+"\n"), make([]byte, 100_000)...)
	raw := keyed(token, content, key).Bytes(e.Public(0))
	c := e.MustDial(e.Public(0), nil)
	e.Must(c.Send(raw[:len(raw)-40]), "begin the first")
	e.Control(e.Await(1500*time.Millisecond, func() bool { return len(e.OnDisk(marker)) == 1 }), "the first is not on its way")
	other := harness.Lua()
	for name, r := range map[string]harness.Request{
		"the same": keyed(token, content[:5000], key), "declared, another": keyed(token, other, key, "Glovebox-File-Digest: "+harness.Digest(other)),
	} {
		for i := range e.Servers() {
			e.Input("%s, server %d", name, i)
			r.Server = i
			a := e.Do(r)
			mismatch := name != "the same" && refused(a, http.StatusUnprocessableEntity, "idempotency_mismatch")
			e.Check(mismatch || refused(a, http.StatusConflict, "idempotency_in_flight") && a.Header.Get("Retry-After") != "", "got %s", a.Brief())
		}
	}
	e.Input("")
	e.Must(c.Send(raw[len(raw)-40:]), "end the first")
	a, err := c.Receive(http.MethodPost, harness.Patience)
	e.Control(err == nil && a.Status == http.StatusCreated, "the first: %s (%v)", a.Brief(), err)
	again := e.Do(keyed(token, content, key))
	e.Control(again.Status == http.StatusOK && jobOf(again).ID == jobOf(a).ID, "its repetition: %s", again.Brief())
}

func idemDeadClient(e *harness.Env) {
	u := e.NewUser()
	token := e.Token(u)
	for _, same := range []bool{true, false} {
		e.Input("the same file: %v", same)
		key := harness.RandomHex(8)
		marker, _ := harness.Marked()
		content := append([]byte("-- "+marker+"\n"), make([]byte, 100_000)...)
		raw := keyed(token, content, key).Bytes(e.Public(0))
		c := e.MustDial(e.Public(0), nil)
		e.Must(c.Send(raw[:len(raw)-40]), "begin")
		e.Control(e.Await(1500*time.Millisecond, func() bool { return len(e.OnDisk(marker)) == 1 }), "it is not on its way")
		busy := e.Do(keyed(token, harness.Lua(), key))
		e.Control(busy.Status == http.StatusConflict, "while it is on its way: %s", busy.Brief())
		e.Must(c.Raw.Close(), "die")
		next := content
		if !same {
			next = harness.Lua()
		}
		var a harness.Answer
		e.Check(e.Await(6*time.Second, func() bool {
			a = e.Do(keyed(token, next, key))
			return a.Status == http.StatusCreated
		}), "the key stays taken: %s", a.Brief())
		if !same {
			gone(e, marker)
		}
	}
}

func idemRefusedFirst(e *harness.Env) {
	u := e.NewUser()
	token := e.Token(u)
	_, large := sized(maxInput + 1)
	for name, spoil := range map[string]func(key string) harness.Request{
		"too large": func(key string) harness.Request { return keyed(token, large, key) },
		"wrong digest": func(key string) harness.Request {
			return keyed(token, harness.Lua(), key, "Glovebox-File-Digest: "+harness.Digest(large))
		},
		"malformed": func(key string) harness.Request {
			r := keyed(token, harness.Lua(), key)
			r.Body = r.Body[:len(r.Body)-10]
			return r
		},
		"wrong type": func(key string) harness.Request {
			r := keyed(token, harness.Lua(), key)
			r.Header[0] = "Content-Type: text/plain"
			return r
		},
	} {
		e.Input("%s", name)
		key := harness.RandomHex(8)
		a := e.Do(spoil(key))
		e.Check(a.Status >= 400 && a.Status < 500, "it is taken: %s", a.Brief())
		content := harness.Lua()
		a = e.Do(keyed(token, content, key))
		e.Check(a.Status == http.StatusCreated, "the good one: %s", a.Brief())
		again := e.Do(keyed(token, content, key))
		e.Control(again.Status == http.StatusOK, "its repetition: %s", again.Brief())
	}
}

func idemDigest(e *harness.Env) {
	token := e.Token(e.Bob())
	_, content := harness.Marked()
	a := e.Do(harness.SubmitRequest(token, content, "Glovebox-File-Digest: "+harness.Digest(content)))
	e.Control(a.Status == http.StatusCreated, "the right digest: %s", a.Brief())
	marker, content := harness.Marked()
	right := harness.Digest(content)
	for name, digest := range map[string]string{
		"other bytes": harness.Digest([]byte("x")), "of nothing": harness.Digest(nil), "empty": "", "hexadecimal": "sha-256=" + harness.Hash(content),
		"without colons": strings.ReplaceAll(right, ":", ""), "another algorithm": strings.Replace(right, "sha-256", "sha-512", 1),
		"md5": "md5=:1B2M2Y8AsgTpgAmY7PhCfg==:", "in capitals": strings.Replace(right, "sha-256", "SHA-256", 1), "cut": right[:len(right)-3] + ":",
		"a list": right + ", sha-512=:AAAA:", "twice": right + "," + right, "unpadded": strings.Replace(right, "=:", ":", 1),
		"base64url": "sha-256=:" + strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimPrefix(right, "sha-256=:")) + "x",
		"spaces":    " sha-256 = " + right[8:], "parameter": right + ";x=1", "unixsum": "unixsum=30637",
	} {
		e.Input("%s", name)
		a := e.Do(harness.SubmitRequest(token, content, "Glovebox-File-Digest: "+digest))
		e.Check(refused(a, http.StatusBadRequest, "invalid_request"), "got %s", a.Brief())
	}
	gone(e, marker)
}

func idemKeyForms(e *harness.Env) {
	u := e.NewUser()
	token := e.Token(u)
	visible := ""
	for c := '!'; c <= '~'; c++ {
		visible += string(c)
	}
	for name, key := range map[string]string{"every visible character": visible, "the greatest length": strings.Repeat("k", 255), "one character": "k"} {
		content := harness.Lua()
		first := e.Do(keyed(token, content, key))
		again := e.Do(keyed(token, content, key))
		e.Control(first.Status == http.StatusCreated && again.Status == http.StatusOK && jobOf(first).ID == jobOf(again).ID, "%s: %s, then %s", name, first.Brief(), again.Brief())
	}
	for name, key := range map[string]string{
		"empty": "", "256 characters": strings.Repeat("k", 256), "thousands": strings.Repeat("k", 9000), "a space": "a b", "a tab": "a\tb",
		"NUL": "a\x00b", "delete": "a\x7fb", "umlaut": "ä", "emoji": "🔑", "not UTF-8": "a\xff",
	} {
		e.Input("%s", name)
		a, err := onFresh(e, keyed(token, harness.Lua(), key))
		e.Check(err == nil && a.Status == http.StatusBadRequest || a.Status == http.StatusRequestHeaderFieldsTooLarge, "got %s (%v)", a.Brief(), err)
	}
	e.Input("two keys")
	a := e.Do(keyed(token, harness.Lua(), "a", "Idempotency-Key: b"))
	e.Check(refused(a, http.StatusBadRequest, "invalid_request"), "got %s", a.Brief())
	base := harness.RandomHex(6) + "Key"
	seen := map[string]string{}
	content := harness.Lua()
	for name, key := range map[string]string{
		"as it is": base, "upper": strings.ToUpper(base), "lower": strings.ToLower(base), "longer": base + "0", "shorter": base[:len(base)-1],
		"quoted": `"` + base + `"`, "percent": base[:len(base)-1] + "%79",
	} {
		e.Input("%s", name)
		a := e.Do(keyed(token, content, key))
		id := jobOf(a).ID
		e.Check(a.Status == http.StatusCreated && seen[id] == "", "it is the job of %q: %s", seen[id], a.Brief())
		seen[id] = name
	}
}

func idemFinished(e *harness.Env) {
	u := e.Alice()
	key, content := harness.RandomHex(8), harness.Lua()
	job := e.Done(u, content, "completed", "Idempotency-Key: "+key)
	before := e.Row(job.ID)
	e.Control(before.Status == "completed", "the observer sees %s", before.Status)
	for i := range e.Servers() {
		r := keyed(e.Token(u), content, key)
		r.Server = i
		a := e.Do(r)
		e.Check(a.Status == http.StatusOK && jobOf(a).ID == job.ID && jobOf(a).Status == "completed" && jobOf(a).SHA256 == job.SHA256, "server %d: %s", i, a.Brief())
	}
	e.Check(e.Row(job.ID) == before, "the row is %+v, was %+v", e.Row(job.ID), before)
	history, err := e.Database().History(e.Context(), job.ID)
	e.Must(err, "read the history")
	e.Check(len(history) == 3, "its history is %v", history)
}

func idemInjection(e *harness.Env) {
	token := e.Token(e.Bob())
	for _, text := range []string{
		"plain", "';DROP/**/TABLE/**/app.jobs;--", "'OR'1'='1", "$1", "%s%n", "../../etc/passwd", "{{7*7}}", "${jndi:ldap://x}", `{"a":1}`, "\\",
		"%00", "*", "null", "__proto__", "<script>",
	} {
		e.Input("%s", text)
		key, content := text+harness.RandomHex(4), harness.Lua()
		first := e.Do(keyed(token, content, key))
		again := e.Do(keyed(token, content, key))
		ok := first.Status == http.StatusCreated && again.Status == http.StatusOK && jobOf(first).ID == jobOf(again).ID
		if text == "plain" {
			e.Control(ok, "a plain key: %s, then %s", first.Brief(), again.Brief())
			continue
		}
		e.Check(ok, "%s, then %s", first.Brief(), again.Brief())
	}
}
