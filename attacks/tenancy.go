package attacks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"glovebox/attacks/harness"
)

// tenancy attacks the walls between users: Bob, with a valid token, wants what is
// Alice's.
var tenancy = harness.Family{
	Name: "tenancy", About: "what is one user's, in the hands of another",
	Cases: []harness.Case{
		{
			ID: "tenancy/foreign-status", Title: "a foreign user reads the state of a job",
			Requirements: []string{"AUT-06", "JOB-07"}, Threats: []string{"PUB-I1"}, Safe: true,
			Attack:  "Bob asks for the status of Alice's job, on every server",
			Control: "Alice reads it",
			Oracle:  "Bob's answer; it is 404 and holds none of the job's facts",
			Run:     tenancyStatus,
		},
		{
			ID: "tenancy/foreign-result", Title: "a foreign user reads a result",
			Requirements: []string{"AUT-06", "JOB-07", "STO-01"}, Threats: []string{"PUB-I1"}, Safe: true,
			Attack:  "Bob downloads the result of Alice's completed job, by GET, HEAD and ranges, on every server",
			Control: "Alice downloads it",
			Oracle:  "Bob's answers; none holds a byte of hers",
			Run:     tenancyResult,
		},
		{
			ID: "tenancy/known-digest", Title: "a foreign user learns whether a result is a known file",
			Requirements: []string{"AUT-06", "JOB-07"}, Threats: []string{"PUB-I1"}, Safe: true,
			Attack:  "Bob asks with the right and a wrong entity tag in If-None-Match, If-Match and If-Range, and with ranges within and beyond the result",
			Control: "Alice is told 304, 412, 206 and 416 for the same questions",
			Oracle:  "all of Bob's answers are the same",
			Run:     tenancyKnownDigest,
		},
		{
			ID: "tenancy/same-as-missing", Title: "an answer tells that another user's job exists",
			Requirements: []string{"AUT-06", "JOB-07", "API-03"}, Threats: []string{"PUB-I1"}, Safe: true,
			Attack:  "Bob asks for Alice's completed and failed jobs and for ids of nobody, on each operation",
			Control: "Alice's own answer is another",
			Oracle:  "Bob's answers are the same but for date and request id",
			Run:     tenancySameAsMissing,
		},
		{
			ID: "tenancy/unfinished-same-as-missing", Title: "an answer tells that another user's job waits or runs", World: harness.Quiet, Lock: "queue",
			Requirements: []string{"AUT-06", "JOB-07"}, Threats: []string{"PUB-I1"},
			Attack:  "Bob asks for Alice's pending and processing jobs, on each operation",
			Control: "Alice is told 409 for the result, and the observer sees the state",
			Oracle:  "Bob's answers are those to an id of nobody",
			Run:     tenancyUnfinished,
		},
		{
			ID: "tenancy/expired-same-as-missing", Title: "an answer tells that another user's result has expired", World: harness.Brief, Slow: true,
			Requirements: []string{"AUT-06", "JOB-05"}, Threats: []string{"PUB-I1"},
			Attack:  "Bob asks for Alice's result after retention took it",
			Control: "Alice is told 410",
			Oracle:  "Bob's answer is that to an id of nobody",
			Run:     tenancyExpired,
		},
		{
			ID: "tenancy/failed-detail", Title: "a foreign user reads what the core said of a file",
			Requirements: []string{"AUT-06", "API-05"}, Threats: []string{"PUB-I1"}, Safe: true,
			Attack:  "Bob asks for the status of Alice's failed job",
			Control: "Alice reads the error code",
			Oracle:  "Bob's answer holds neither code nor detail",
			Run:     tenancyFailedDetail,
		},
		{
			ID: "tenancy/id-forms-foreign", Title: "another spelling of an id passes the owner check and finds the job",
			Requirements: []string{"AUT-06"}, Threats: []string{"PUB-I1"}, Safe: true,
			Attack:  "Bob asks for Alice's job under every spelling of its id, for status and result",
			Control: "Alice reads it under the canonical one",
			Oracle:  "no answer of 2xx, 409 or 410, none with a fact of the job, no 5xx",
			Run:     func(e *harness.Env) { tenancyForms(e, true) },
		},
		{
			ID: "tenancy/id-forms-own", Title: "a job has a second name, under which caches and checks do not know it",
			Requirements: []string{"AUT-06", "API-07"}, Threats: []string{"PUB-I1", "PUB-T2"}, Safe: true,
			Attack:  "the owner asks for his own job under every spelling of its id",
			Control: "the canonical one is found",
			Oracle:  "each is 404 or refused as malformed",
			Run:     func(e *harness.Env) { tenancyForms(e, false) },
		},
		{
			ID: "tenancy/asset-id", Title: "the id of an asset opens the job behind it",
			Requirements: []string{"AUT-06"}, Threats: []string{"PUB-I1"}, Safe: true,
			Attack:  "Alice's asset_id in the place of a job's id, as Alice and as Bob",
			Control: "the job's own id is found",
			Oracle:  "404 for both",
			Run:     tenancyAssetID,
		},
		{
			ID: "tenancy/headers-name-user", Title: "a header that names another user is believed",
			Requirements: []string{"AUT-06"}, Threats: []string{"PUB-I1", "PUB-T1"}, Safe: true,
			Attack:  "Bob's requests with headers that proxies use to name a user, a path or a method",
			Control: "without them Bob is Bob",
			Oracle:  "whom /auth/me names, and that Alice's job stays 404",
			Run:     tenancyHeaders,
		},
		{
			ID: "tenancy/polluted", Title: "a second id in query or body replaces the one that was checked",
			Requirements: []string{"AUT-06", "API-07"}, Threats: []string{"PUB-I1", "PUB-T1"}, Safe: true,
			Attack:  "Bob asks for his own job with Alice's id in query, body, matrix parameter, fragment and header",
			Control: "without them Bob gets his own job",
			Oracle:  "the id in the answer is Bob's, or there is none",
			Run:     tenancyPolluted,
		},
		{
			ID: "tenancy/paths", Title: "a path that is written otherwise leads past the check",
			Requirements: []string{"AUT-06", "UPL-06"}, Threats: []string{"PUB-I1", "STO-T1"}, Safe: true,
			Attack:  "Bob reaches for Alice's job through dot segments, doubled and encoded slashes, absolute forms and other prefixes",
			Control: "the plain path to his own job works",
			Oracle:  "no answer holds a fact of Alice's job, and none without a token is served",
			Run:     tenancyPaths,
		},
		{
			ID: "tenancy/no-list", Title: "somebody lists jobs",
			Requirements: []string{"API-09", "AUT-06"}, Threats: []string{"PUB-I1"}, Safe: true,
			Attack:  "the paths and queries under which products list things",
			Control: "a job exists and is found by its id",
			Oracle:  "405 for /jobs, 404 else, and no id in any answer",
			Run:     tenancyNoList,
		},
		{
			ID: "tenancy/shared-connection", Title: "a connection remembers who used it before",
			Requirements: []string{"AUT-06", "AUT-01"}, Threats: []string{"PUB-I1", "PUB-S1"}, Safe: true,
			Attack:  "requests of Alice, Bob and nobody by turns, pipelined on one connection",
			Control: "all answers come, in order",
			Oracle:  "each answer names the user of its own request, and nobody's is 401",
			Run:     tenancyPipelined,
		},
		{
			ID: "tenancy/interleaved-streams", Title: "answers of two users on one HTTP/2 connection are mixed up",
			Requirements: []string{"AUT-06"}, Threats: []string{"PUB-I1"}, Safe: true,
			Attack:  "60 streams of two users at once, half of them for what is the other's",
			Control: "each user's own job is found",
			Oracle:  "the status and id of every stream against its own request",
			Run:     tenancyStreams,
		},
		{
			ID: "tenancy/foreign-key", Title: "an idempotency key of another user leads to that user's job",
			Requirements: []string{"API-04", "AUT-06"}, Threats: []string{"PUB-I1", "PUB-T3"}, Safe: true,
			Attack:  "Bob sends Alice's key with the same file, with another, and with a declared digest alone",
			Control: "Alice's own repetition is answered with her job",
			Oracle:  "Bob gets jobs of his own that she cannot see, and never 422",
			Run:     tenancyForeignKey,
		},
		{
			ID: "tenancy/parallel-users", Title: "under load a job is given to another owner",
			Requirements: []string{"AUT-06", "JOB-13"}, Threats: []string{"PUB-I1"},
			Attack:  "two users submit 12 files each at once over both servers",
			Control: "every submission is taken",
			Oracle:  "each job is seen by its owner and by nobody else",
			Run:     tenancyParallel,
		},
	},
}

// foreignTo asks as a user for a job, by every operation, and returns the answers.
func foreignTo(e *harness.Env, u *harness.User, id string, header ...string) map[string]harness.Answer {
	got := map[string]harness.Answer{}
	for _, route := range jobRoutes() {
		got[route.name()] = e.Do(route.request(id, e.Token(u), header...))
	}
	return got
}

// tells reports whether an answer holds a fact of the job.
func tells(a harness.Answer, job harness.Job) bool {
	for _, fact := range []string{job.ID, job.AssetID, job.SHA256} {
		if fact != "" && holds(a, fact) {
			return true
		}
	}
	return false
}

func tenancyStatus(e *harness.Env) {
	alice, bob := e.Alice(), e.Bob()
	job := e.Submit(alice, harness.Lua())
	e.Control(e.Status(alice, job.ID).ID == job.ID, "Alice reads it")
	for i := range e.Servers() {
		a := e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/jobs/" + job.ID, Token: e.Token(bob), Server: i})
		e.Check(refused(a, http.StatusNotFound, "not_found") && !tells(a, job), "server %d: %s", i, a.Brief())
	}
}

func tenancyResult(e *harness.Env) {
	alice, bob := e.Alice(), e.Bob()
	job := e.Done(alice, harness.Lua(), "completed")
	hers := e.Result(alice, job.ID)
	e.Control(hers.Status == http.StatusOK && harness.Hash(hers.Body) == job.SHA256, "Alice downloads it: %d", hers.Status)
	for i := range e.Servers() {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			for _, ranges := range []string{"", "bytes=0-", "bytes=0-0", "bytes=-1"} {
				e.Input("%s %q server %d", method, ranges, i)
				r := harness.Request{Method: method, Path: "/api/v1/jobs/" + job.ID + "/result", Token: e.Token(bob), Server: i}
				if ranges != "" {
					r.Header = []string{"Range: " + ranges}
				}
				a := e.Do(r)
				e.Check(a.Status == http.StatusNotFound && !tells(a, job) && string(a.Body) != string(hers.Body), "got %s", a.Brief())
			}
		}
	}
}

func tenancyKnownDigest(e *harness.Env) {
	alice, bob := e.Alice(), e.Bob()
	job := e.Done(alice, harness.Lua(), "completed")
	right, wrong := `"`+job.SHA256+`"`, `"`+harness.Hash(nil)+`"`
	questions := []struct {
		lines []string
		alice int
	}{
		{[]string{"If-None-Match: " + right}, 304}, {[]string{"If-None-Match: " + wrong}, 200}, {[]string{"If-None-Match: *"}, 304},
		{[]string{"If-Match: " + right}, 200}, {[]string{"If-Match: " + wrong}, 412}, {[]string{"Range: bytes=0-1"}, 206},
		{[]string{"Range: bytes=99999999-"}, 416}, {[]string{"Range: bytes=0-1", "If-Range: " + right}, 206}, {[]string{"Range: bytes=0-1", "If-Range: " + wrong}, 200},
	}
	plain := e.Result(bob, job.ID)
	for _, q := range questions {
		e.Input("%v", q.lines)
		hers := e.Result(alice, job.ID, q.lines...)
		e.Control(hers.Status == q.alice, "Alice is told %d, not %d", hers.Status, q.alice)
		his := e.Result(bob, job.ID, q.lines...)
		e.Check(his.Status == http.StatusNotFound && sameAnswer(his, plain), "Bob is told %s", his.Brief())
	}
}

func tenancySameAsMissing(e *harness.Env) {
	alice, bob := e.Alice(), e.Bob()
	completed := e.Done(alice, harness.Lua(), "completed")
	failed := e.Done(alice, []byte("this is not lua ("+harness.RandomHex(4)), "failed")
	missing := foreignTo(e, bob, harness.UUID())
	for name, job := range map[string]harness.Job{"completed": completed, "failed": failed} {
		own := foreignTo(e, alice, job.ID)
		for route, a := range foreignTo(e, bob, job.ID) {
			e.Input("%s, %s", name, route)
			e.Control(own[route].Status != http.StatusNotFound, "Alice is told %s", own[route].Brief())
			e.Check(a.Status == http.StatusNotFound && sameAnswer(a, missing[route]), "got %s %v, for nobody's %s %v", a.Brief(), a.Header, missing[route].Brief(), missing[route].Header)
		}
	}
}

func tenancyUnfinished(e *harness.Env) {
	alice, bob := e.Alice(), e.Bob()
	job := e.Submit(alice, harness.Lua())
	missing := foreignTo(e, bob, harness.UUID())
	worker := e.Worker(harness.Spare1)
	for _, state := range []string{"pending", "processing"} {
		if state == "processing" {
			a := worker.ClaimJob(job.ID)
			e.Cleanup(func(ctxDone) error { worker.Fail(a, "invalid_input", false); return nil })
		}
		e.Control(e.Row(job.ID).Status == state, "the observer sees %s", e.Row(job.ID).Status)
		hers := e.Result(alice, job.ID)
		e.Control(refused(hers, http.StatusConflict, "job_not_completed"), "Alice is told %s", hers.Brief())
		for route, a := range foreignTo(e, bob, job.ID) {
			e.Input("%s, %s", state, route)
			e.Check(a.Status == http.StatusNotFound && sameAnswer(a, missing[route]), "got %s", a.Brief())
		}
	}
}

func tenancyExpired(e *harness.Env) {
	alice, bob := renewing(e, e.NewUser()), renewing(e, e.NewUser())
	job := submitFresh(e, alice, harness.Lua())
	const limit = 40 * time.Second
	var hers harness.Answer
	e.Control(e.Await(limit, func() bool {
		hers = alice(harness.Request{Method: http.MethodGet, Path: "/api/v1/jobs/" + job.ID + "/result"})
		return hers.Status == http.StatusGone
	}), "Alice is told %s", hers.Brief())
	for _, route := range jobRoutes() {
		e.Input("%s", route.name())
		missing := bob(route.request(harness.UUID(), ""))
		a := bob(route.request(job.ID, ""))
		e.Check(a.Status == http.StatusNotFound && sameAnswer(a, missing), "got %s", a.Brief())
	}
}

func tenancyFailedDetail(e *harness.Env) {
	alice, bob := e.Alice(), e.Bob()
	job := e.Done(alice, []byte("return (("+harness.RandomHex(4)), "failed")
	e.Control(job.ErrorCode == "invalid_input", "Alice is told %q", job.ErrorCode)
	a := e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/jobs/" + job.ID, Token: e.Token(bob)})
	e.Check(a.Status == http.StatusNotFound && !holds(a, "invalid_input") && !holds(a, "error_detail"), "got %s", a.Brief())
}

// spelled writes an id as a vector of ids.yaml says.
func spelled(form, id string) string {
	rest := id[1:]
	wide := "%EF%BC%" + fmt.Sprintf("%02X", 0x90+id[0]-'0')
	if id[0] > '9' {
		wide = "%EF%BD%" + fmt.Sprintf("%02X", 0x81+id[0]-'a')
	}
	moved := strings.ReplaceAll(id, "-", "")
	moved = moved[:4] + "-" + moved[4:10] + "-" + moved[10:]
	return strings.NewReplacer(
		"UPPER", strings.ToUpper(id), "BARE", strings.ReplaceAll(id, "-", ""), "HEAD", id[:8], "FIRSTREST", fmt.Sprintf("%%%02x%s", id[0], rest),
		"TWICEREST", fmt.Sprintf("%%25%02x%s", id[0], rest), "WIDEREST", wide+rest, "REST8", id[8:], "REST", rest, "MOVED", moved, "ID", id,
	).Replace(form)
}

func tenancyForms(e *harness.Env, foreign bool) {
	alice := e.Alice()
	asker := alice
	if foreign {
		asker = e.Bob()
	}
	job := e.Submit(alice, harness.Lua())
	// An id of digits alone has no other case.
	for strings.ToUpper(job.ID) == job.ID {
		job = e.Submit(alice, harness.Lua())
	}
	e.Control(e.Status(alice, job.ID).ID == job.ID, "Alice reads it")
	for _, v := range load(e, "ids") {
		form := spelled(v.Bytes(), job.ID)
		for _, suffix := range []string{"", "/result"} {
			e.Input("%s%s", v.ID, suffix)
			a := e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/jobs/" + form + suffix, Token: e.Token(asker)})
			ok := a.Status == http.StatusNotFound || a.Status == http.StatusBadRequest
			// What a router cleans up may be the list's path, or a redirect without
			// anything of the job in it.
			ok = ok || a.Status == http.StatusMethodNotAllowed
			e.Check(ok && !strings.Contains(string(a.Body), job.AssetID), "got %s", a.Brief())
		}
	}
}

func tenancyAssetID(e *harness.Env) {
	job := e.Submit(e.Alice(), harness.Lua())
	e.Control(e.Status(e.Alice(), job.ID).AssetID == job.AssetID && job.AssetID != job.ID, "the job is found and has another id than its asset")
	for _, u := range []*harness.User{e.Alice(), e.Bob()} {
		for route, a := range foreignTo(e, u, job.AssetID) {
			e.Input("%s", route)
			e.Check(a.Status == http.StatusNotFound && !tells(a, job), "got %s", a.Brief())
		}
	}
}

func tenancyHeaders(e *harness.Env) {
	alice, bob := e.Alice(), e.Bob()
	job := e.Submit(alice, harness.Lua())
	e.Control(whoami(e.Do(me(e.Token(bob)))) == bob.Login, "Bob is Bob")
	for _, name := range []string{
		"X-User", "X-User-Id", "X-Username", "X-Remote-User", "Remote-User", "X-Forwarded-User", "X-Forwarded-Preferred-Username", "X-Auth-User", "X-Authenticated-User",
		"X-WebAuth-User", "Glovebox-User", "Glovebox-User-Id", "X-Impersonate-User", "Impersonate-User", "X-Sudo", "Sudo", "From", "X-Tenant",
		"X-Tenant-Id", "X-Owner", "X-Account",
	} {
		e.Input("%s", name)
		a := e.Do(me(e.Token(bob), name+": "+alice.Login))
		e.Check(whoami(a) == bob.Login, "Bob is %q: %s", whoami(a), a.Brief())
		a = e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/jobs/" + job.ID, Token: e.Token(bob), Header: []string{name + ": " + alice.Login}})
		e.Check(a.Status == http.StatusNotFound, "the job: %s", a.Brief())
	}
	for _, name := range []string{"X-Original-URL", "X-Rewrite-URL", "X-Original-URI", "X-Forwarded-Path", "X-Override-URL", "Content-Location", "Referer"} {
		e.Input("%s", name)
		a := e.Do(me(e.Token(bob), name+": /api/v1/jobs/"+job.ID))
		e.Check(whoami(a) == bob.Login && !tells(a, job), "got %s", a.Brief())
	}
}

func tenancyPolluted(e *harness.Env) {
	alice, bob := e.Alice(), e.Bob()
	hers, his := e.Submit(alice, harness.Lua()), e.Submit(bob, harness.Lua())
	body, err := json.Marshal(map[string]string{"id": hers.ID, "job_id": hers.ID, "user_id": alice.Login})
	e.Must(err, "write a body")
	path := "/api/v1/jobs/" + his.ID
	plain := e.Do(harness.Request{Method: http.MethodGet, Path: path, Token: e.Token(bob)})
	e.Control(holds(plain, his.ID), "Bob gets his own job: %s", plain.Brief())
	for name, r := range map[string]harness.Request{
		"query id": {Path: path + "?id=" + hers.ID}, "query twice": {Path: path + "?id=" + his.ID + "&id=" + hers.ID}, "query array": {Path: path + "?id[]=" + hers.ID},
		"query user": {Path: path + "?user_id=" + alice.Login + "&owner=" + alice.Login + "&as=" + alice.Login},
		"matrix":     {Path: path + ";id=" + hers.ID}, "fragment": {Path: path + "#/../" + hers.ID},
		"second segment": {Path: path + "/" + hers.ID}, "behind the result": {Path: path + "/result/" + hers.ID}, "semicolon query": {Path: path + "?a=1;id=" + hers.ID},
		"body":   {Path: path, Header: []string{harness.JSONType, "Content-Length: " + itoa(len(body))}, Body: body, NoLength: true},
		"header": {Path: path, Header: []string{"Id: " + hers.ID, "X-Job-Id: " + hers.ID, "Glovebox-Job: " + hers.ID}},
	} {
		e.Input("%s", name)
		r.Method, r.Token = http.MethodGet, e.Token(bob)
		a := e.Do(r)
		e.Check(!holds(a, hers.ID) && !holds(a, hers.AssetID), "got %s", a.Brief())
	}
}

func tenancyPaths(e *harness.Env) {
	alice, bob := e.Alice(), e.Bob()
	hers, his := e.Submit(alice, harness.Lua()), e.Submit(bob, harness.Lua())
	plain := e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/jobs/" + his.ID, Token: e.Token(bob)})
	e.Control(holds(plain, his.ID), "the plain path: %s", plain.Brief())
	const base = "/api/v1/jobs/"
	for _, path := range []string{
		base + his.ID + "/../" + hers.ID, base + his.ID + "/..%2f" + hers.ID, base + his.ID + "/%2e%2e/" + hers.ID, base + "/" + hers.ID, "//api/v1/jobs/" + hers.ID,
		"/api//v1/jobs/" + hers.ID, "/api/v1/jobs/./" + hers.ID, "/API/V1/JOBS/" + hers.ID, "/api/v1/Jobs/" + hers.ID, "/health/../api/v1/jobs/" + hers.ID,
		"/api/v1/openapi.yaml/../jobs/" + hers.ID, "/%61pi/v1/jobs/" + hers.ID, "/api/v1/jobs%2f" + hers.ID, "/api/v1/jobs\\" + hers.ID,
		"/api/v1/jobs/" + his.ID + "%00/../" + hers.ID,
		"https://" + e.Public(0) + base + hers.ID, "https://evil.example" + base + hers.ID, "http://127.0.0.1:9443/internal/v1/jobs/" + hers.ID + "/input", "*",
		"/internal/v1/jobs/" + hers.ID + "/input", base + hers.ID + "/input", base + hers.ID + "/result/../../" + hers.ID,
		"/api/v1/../v1/jobs/" + hers.ID, "/.;/api/v1/jobs/" + hers.ID, "/..;/api/v1/jobs/" + hers.ID,
	} {
		for name, token := range map[string]string{"as Bob": e.Token(bob), "without a token": ""} {
			e.Input("%s %s", path, name)
			a := e.Do(harness.Request{Method: http.MethodGet, Path: path, Token: token})
			e.Check(a.Status >= 300 && !strings.Contains(string(a.Body), hers.AssetID), "got %s", a.Brief())
		}
	}
}

func tenancyNoList(e *harness.Env) {
	alice := e.Alice()
	job := e.Submit(alice, harness.Lua())
	e.Control(e.Status(alice, job.ID).ID == job.ID, "the job is found by its id")
	for _, path := range []string{
		"/api/v1/jobs", "/api/v1/jobs?limit=10", "/api/v1/jobs?user_id=" + alice.Login, "/api/v1/jobs?status=pending", "/api/v1/jobs/",
		"/api/v1/jobs/*", "/api/v1/jobs/all", "/api/v1/jobs/list",
		"/api/v1/jobs/search", "/api/v1/users", "/api/v1/results", "/api/v1/queue", "/api/v1/me/jobs", "/api/v1/auth/me/jobs", "/api/v1", "/api", "/",
		"/api/v1/jobs.json", "/graphql", "/api/v1/export", "/api/v1/events",
	} {
		e.Input("%s", path)
		a := e.Do(harness.Request{Method: http.MethodGet, Path: path, Token: e.Token(alice)})
		want := http.StatusNotFound
		if p, _, _ := strings.Cut(path, "?"); p == "/api/v1/jobs" {
			want = http.StatusMethodNotAllowed
		}
		e.Check(a.Status == want && a.Code() != "" && !holds(a, job.ID), "got %s", a.Brief())
	}
}

func tenancyPipelined(e *harness.Env) {
	alice, bob := e.Alice(), e.Bob()
	turns := []struct{ token, login string }{{e.Token(alice), alice.Login}, {e.Token(bob), bob.Login}, {"", ""}, {e.Token(bob), bob.Login}, {"", ""}, {e.Token(alice), alice.Login}}
	var sent []byte
	const rounds = 5
	for range rounds {
		for _, t := range turns {
			sent = append(sent, me(t.token).Bytes(e.Public(0))...)
		}
	}
	c := e.MustDial(e.Public(0), nil)
	e.Must(c.Send(sent), "send")
	for i := range rounds * len(turns) {
		t := turns[i%len(turns)]
		a, err := c.Receive(http.MethodGet, 10*time.Second)
		e.Control(err == nil, "answer %d does not come: %v", i, err)
		if t.login == "" {
			e.Check(a.Status == http.StatusUnauthorized, "answer %d, to nobody: %s", i, a.Brief())
		} else {
			e.Check(whoami(a) == t.login, "answer %d names %q, not %q", i, whoami(a), t.login)
		}
	}
}

func tenancyStreams(e *harness.Env) {
	alice, bob := e.Alice(), e.Bob()
	users := []*harness.User{alice, bob}
	jobs := []harness.Job{e.Submit(alice, harness.Lua()), e.Submit(bob, harness.Lua())}
	h := e.H2(e.Public(0))
	type asked struct {
		id        uint32
		user, job int
	}
	var all []asked
	for i := range 60 {
		a := asked{user: i % 2, job: (i / 2) % 2}
		var err error
		a.id, err = h.Open(harness.Fields("GET", e.Public(0), "/api/v1/jobs/"+jobs[a.job].ID, [2]string{"authorization", "Bearer " + e.Token(users[a.user])}), true)
		e.Must(err, "open a stream")
		all = append(all, a)
	}
	own := 0
	for _, a := range all {
		s, err := h.Await(a.id, 10*time.Second)
		e.Must(err, "read a stream")
		if a.user == a.job {
			if s.Status == "200" && strings.Contains(string(s.Body), jobs[a.job].ID) {
				own++
			}
			e.Check(!strings.Contains(string(s.Body), jobs[1-a.job].ID), "a stream holds the other's job")
		} else {
			e.Check(s.Status == "404" && !strings.Contains(string(s.Body), jobs[a.job].AssetID), "a foreign job: %s %s", s.Status, s.Body)
		}
	}
	e.Control(own == 30, "%d of 30 own jobs are found", own)
}

func tenancyForeignKey(e *harness.Env) {
	alice, bob := e.Alice(), e.Bob()
	key, content := "Idempotency-Key: "+harness.RandomHex(8), harness.Lua()
	hers := e.Submit(alice, content, key)
	again := e.Do(harness.SubmitRequest(e.Token(alice), content, key))
	e.Control(again.Status == http.StatusOK && holds(again, hers.ID), "Alice's repetition: %s", again.Brief())
	for name, r := range map[string]harness.Request{
		"the same file": harness.SubmitRequest(e.Token(bob), content, key),
		"another file":  harness.SubmitRequest(e.Token(bob), harness.Lua(), "Idempotency-Key: "+harness.RandomHex(8), "X: "+key),
	} {
		e.Input("%s", name)
		a := e.Do(r)
		var his harness.Job
		e.JSON(a, &his)
		e.Check(a.Status == http.StatusCreated && his.ID != hers.ID && !holds(a, hers.ID), "got %s", a.Brief())
		seen := e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/jobs/" + his.ID, Token: e.Token(alice)})
		e.Check(seen.Status == http.StatusNotFound, "Alice sees Bob's job: %s", seen.Brief())
	}
	e.Input("another digest under her key")
	fresh := "Idempotency-Key: " + harness.RandomHex(8)
	e.Submit(alice, harness.Lua(), fresh)
	other := harness.Lua()
	a := e.Do(harness.SubmitRequest(e.Token(bob), other, fresh, "Glovebox-File-Digest: "+harness.Digest(other)))
	e.Check(a.Status == http.StatusCreated, "Bob is told of Alice's key: %s", a.Brief())
}

func tenancyParallel(e *harness.Env) {
	users := []*harness.User{e.NewUser(), e.NewUser()}
	tokens := []string{e.Token(users[0]), e.Token(users[1])}
	var mu sync.Mutex
	jobs := [2][]string{}
	refusals := 0
	conns := make([]*harness.Conn, 6)
	for i := range conns {
		conns[i] = e.MustDial(e.Public(i), nil)
	}
	e.Parallel(len(conns), func(i int) {
		for range 4 {
			who := i % 2
			a, err := exchange(conns[i], harness.SubmitRequest(tokens[who], harness.Lua()), e.Public(i))
			var job harness.Job
			mu.Lock()
			if err != nil || a.Status != http.StatusCreated || json.Unmarshal(a.Body, &job) != nil {
				refusals++
			} else {
				jobs[who] = append(jobs[who], job.ID)
			}
			mu.Unlock()
		}
	})
	e.Control(refusals == 0, "%d submissions were refused", refusals)
	for who, ids := range jobs {
		e.Check(!slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(jobs[1-who], id) }), "one id was given to both")
		for _, id := range ids {
			r := harness.Request{Method: http.MethodGet, Path: "/api/v1/jobs/" + id}
			r.Token = tokens[who]
			e.Check(e.Do(r).Status == http.StatusOK, "its owner does not see %s", id)
			r.Token = tokens[1-who]
			e.Check(e.Do(r).Status == http.StatusNotFound, "the other sees %s", id)
		}
	}
}
