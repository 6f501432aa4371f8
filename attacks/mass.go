package attacks

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"glovebox/attacks/harness"
)

// mass attacks what only the system may decide: owner, status, ids, attempts.
var mass = harness.Family{
	Name: "mass", About: "mass assignment and forged states",
	Cases: []harness.Case{
		{
			ID: "mass/form-fields", Title: "an upload's form sets the job's owner, status or limits",
			Requirements: []string{"AUT-06", "API-07"}, Threats: []string{"PUB-T1"}, Safe: true,
			Attack:  "a further part of the form, before and behind the file, under the name of every column",
			Control: "the form with the file alone makes a job",
			Oracle:  "status 400",
			Run:     massForm,
		},
		{
			ID: "mass/query-and-headers", Title: "query or headers of an upload set the job's owner, status or id",
			Requirements: []string{"AUT-06", "API-07"}, Threats: []string{"PUB-T1"},
			Attack:  "an upload with the job's columns in the query and in headers",
			Control: "the job is made and is its uploader's",
			Oracle:  "the row as the observer sees it: pending or further by the system's own doing, first attempt, an id of the server's making",
			Run:     massQuery,
		},
		{
			ID: "mass/write-status", Title: "a client sets a job's status",
			Requirements: []string{"AUT-06", "JOB-01"}, Threats: []string{"PUB-T1"}, World: harness.Quiet, Lock: "queue",
			Attack:  "PUT, PATCH, POST and DELETE of the owner to his job and below it, with states in the body",
			Control: "the owner reads the job as pending",
			Oracle:  "the row and the job's history as the observer sees them are as before",
			Run:     massStatus,
		},
		{
			ID: "mass/write-result", Title: "a client replaces a result",
			Requirements: []string{"AUT-06", "JOB-01"}, Threats: []string{"PUB-T1", "PUB-T3"}, Safe: true,
			Attack:  "PUT, POST, PATCH and DELETE of the owner to his completed job's result",
			Control: "the owner downloads the result",
			Oracle:  "the result's bytes and digest afterwards",
			Run:     massResult,
		},
		{
			ID: "mass/worker-routes", Title: "a user works as a worker through the public interface",
			Requirements: []string{"MTL-03", "AUT-06"}, Threats: []string{"PUB-E1"}, World: harness.Quiet,
			Attack:  "claim, input, heartbeat, result and fail at the public address, with token, fencing token and digests",
			Control: "a worker with a certificate can claim at the internal address",
			Oracle:  "status 404 for each; the row as the observer sees it is pending",
			Lock:    "queue",
			Run:     massWorkerRoutes,
		},
		{
			ID: "mass/method-override", Title: "a header turns a harmless method into another",
			Requirements: []string{"API-07", "AUT-06"}, Threats: []string{"PUB-T1", "PUB-T2"}, Safe: true,
			Attack:  "GET and POST with X-HTTP-Method-Override, X-Method-Override, _method",
			Control: "the plain requests have their answers",
			Oracle:  "the answers are the same; the token has not been revoked",
			Run:     massOverride,
		},
		{
			ID: "mass/status-keys", Title: "the state of a job shows the inside: owner, worker, paths, attempts",
			Requirements: []string{"API-05", "ARC-09"}, Threats: []string{"PUB-I2"}, World: harness.Quiet, Lock: "queue",
			Attack:  "a job is led through pending, processing, completed and failed, and read by its owner each time",
			Control: "the observer sees the same state in the row",
			Oracle:  "the keys of the answer are exactly those of the contract; no value holds the worker's name or the storage's",
			Run:     massKeys,
		},
		{
			ID: "mass/assignment-keys", Title: "a worker learns from a claim whose file it is",
			Requirements: []string{"ARC-09"}, Threats: []string{"INT-I1"}, World: harness.Quiet, Lock: "queue",
			Attack:  "a file with a telling name is submitted and claimed, and its input is fetched",
			Control: "the claim names the job that was submitted",
			Oracle:  "keys and values of the claim, headers of the input: no login, no file name, no path",
			Run:     massAssignment,
		},
		{
			ID: "mass/me-keys", Title: "the profile shows the inside: ids, hashes, flags",
			Requirements: []string{"API-05", "API-03"}, Threats: []string{"PUB-I2"}, Safe: true,
			Attack:  "/auth/me is read, also with queries that ask for more",
			Control: "it names its user",
			Oracle:  "its keys are exactly those of the contract",
			Run:     massMe,
		},
	},
}

// columns are what a job or a user has and no client may set.
var columns = []string{
	"id", "job_id", "asset_id", "user_id", "owner", "owner_id", "status", "state", "attempt", "max_attempts", "fencing_token", "worker_id", "lease_expires_at",
	"error_code", "error_retryable", "created_at", "updated_at", "expires_at", "sha256", "size", "result_key", "input_key", "priority", "role",
	"admin", "is_admin", "timeout", "image", "command", "args", "env",
}

// formWith is a form with another part before or behind the file.
func formWith(name, value string, first bool) []byte {
	extra := fmt.Sprintf("--%s\r\nContent-Disposition: form-data; name=\"%s\"\r\n\r\n%s\r\n", harness.Boundary, name, value)
	file := string(harness.Form("a.lua", harness.Lua()))
	if first {
		return []byte(extra + file)
	}
	closing := "--" + harness.Boundary + "--\r\n"
	return []byte(strings.TrimSuffix(file, closing) + extra + closing)
}

func massForm(e *harness.Env) {
	bob := e.Bob()
	e.Control(e.Submit(bob, harness.Lua()).ID != "", "the file alone")
	for _, name := range append([]string{"file", "File", "file[]", "", "name", "__proto__"}, columns...) {
		for _, first := range []bool{true, false} {
			e.Input("%q, before the file: %v", name, first)
			a := e.Do(harness.Request{Method: http.MethodPost, Path: "/api/v1/jobs", Token: e.Token(bob), Header: []string{harness.FormType}, Body: formWith(name, "completed", first)})
			e.Check(refused(a, http.StatusBadRequest, "invalid_request"), "got %s", a.Brief())
		}
	}
}

func massQuery(e *harness.Env) {
	bob := e.Bob()
	wanted := harness.UUID()
	var query []string
	header := []string{harness.FormType}
	for _, c := range columns {
		value := "completed"
		if strings.HasSuffix(c, "id") {
			value = wanted
		}
		if strings.HasPrefix(c, "max") || c == "attempt" || c == "fencing_token" {
			value = "9"
		}
		query = append(query, c+"="+value)
		header = append(header, "X-"+strings.ReplaceAll(c, "_", "-")+": "+value, "Glovebox-"+strings.ReplaceAll(c, "_", "-")+": "+value)
	}
	header = slices.DeleteFunc(header, func(line string) bool { return strings.HasPrefix(line, "Glovebox-fencing-token") })
	a := e.Do(harness.Request{Method: http.MethodPost, Path: "/api/v1/jobs?" + strings.Join(query, "&"), Token: e.Token(bob), Header: header, Body: harness.Form("a.lua", harness.Lua())})
	e.Control(a.Status == http.StatusCreated, "the upload: %s", a.Brief())
	var job harness.Job
	e.JSON(a, &job)
	e.Control(e.Status(bob, job.ID).ID == job.ID, "the job is its uploader's")
	row := e.Row(job.ID)
	e.Check(job.Status == "pending" && job.ID != wanted && job.AssetID != wanted, "the answer took over a value: %s", a.Brief())
	e.Check(row.Attempt <= 1 && row.FencingToken <= 1 && row.WorkerID != wanted, "the row took over a value: %+v", row)
	history, err := e.Database().History(e.Context(), job.ID)
	e.Must(err, "read the history")
	e.Check(len(history) > 0 && history[0].To == "pending", "its history begins otherwise: %v", history)
}

var states = []string{"completed", "failed", "processing", "pending", "cancelled"}

func massStatus(e *harness.Env) {
	alice := e.Alice()
	job := e.Submit(alice, harness.Lua())
	e.Control(e.Status(alice, job.ID).Status == "pending", "it is read as pending")
	before := e.Row(job.ID)
	for _, path := range []string{"", "/status", "/cancel", "/retry", "/complete", "/fail", "/claim", "/heartbeat"} {
		for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodPost, http.MethodDelete} {
			for _, state := range states {
				e.Input("%s %s %s", method, path, state)
				a := e.Do(harness.Request{Method: method, Path: "/api/v1/jobs/" + job.ID + path, Token: e.Token(alice), Header: []string{harness.JSONType, "Content-Length: " + itoa(len(`{"status":""}`)+len(state))}, Body: []byte(`{"status":"` + state + `"}`), NoLength: true})
				e.Check(a.Status == http.StatusMethodNotAllowed || a.Status == http.StatusNotFound, "got %s", a.Brief())
			}
		}
	}
	e.Input("")
	e.Check(e.Row(job.ID) == before, "the row is %+v, was %+v", e.Row(job.ID), before)
	history, err := e.Database().History(e.Context(), job.ID)
	e.Must(err, "read the history")
	e.Check(len(history) == 1, "something happened to it: %v", history)
}

func massResult(e *harness.Env) {
	alice := e.Alice()
	job := e.Done(alice, harness.Lua(), "completed")
	before := e.Result(alice, job.ID)
	e.Control(before.Status == http.StatusOK && harness.Hash(before.Body) == job.SHA256, "the result: %d", before.Status)
	forged := []byte("return 'forged'")
	for _, method := range []string{http.MethodPut, http.MethodPost, http.MethodPatch, http.MethodDelete} {
		e.Input("%s", method)
		a := e.Do(harness.Request{Method: method, Path: "/api/v1/jobs/" + job.ID + "/result", Token: e.Token(alice), Header: []string{
			"Content-Type: application/octet-stream", "Glovebox-Fencing-Token: 1", "Repr-Digest: " + harness.Digest(forged),
			"Content-Range: bytes 0-2/10", "Content-Length: " + itoa(len(forged)),
		}, Body: forged, NoLength: true})
		e.Check(refused(a, http.StatusMethodNotAllowed, "method_not_allowed"), "got %s", a.Brief())
	}
	after := e.Result(alice, job.ID)
	e.Check(string(after.Body) == string(before.Body) && after.Header.Get("ETag") == before.Header.Get("ETag"), "the result is another")
}

func massWorkerRoutes(e *harness.Env) {
	alice := e.Alice()
	job := e.Submit(alice, harness.Lua())
	content := []byte("forged")
	for _, r := range []harness.Request{
		{Method: http.MethodPost, Path: "/internal/v1/jobs/claim?wait=0s", Header: []string{harness.JSONType, "Glovebox-Request-Id: " + harness.UUID()}, Body: harness.Slots},
		{Method: http.MethodGet, Path: "/internal/v1/jobs/" + job.ID + "/input"},
		{Method: http.MethodPost, Path: "/internal/v1/jobs/" + job.ID + "/heartbeat", Header: []string{harness.JSONType}, Body: harness.Slots},
		{Method: http.MethodPut, Path: "/internal/v1/jobs/" + job.ID + "/result", Header: []string{"Repr-Digest: " + harness.Digest(content)}, Body: content},
		{Method: http.MethodPost, Path: "/internal/v1/jobs/" + job.ID + "/fail", Header: []string{harness.JSONType}, Body: []byte(`{"code":"invalid_input","retryable":false}`)},
		{Method: http.MethodPost, Path: "/internal/v1/ingest/events", Header: []string{harness.JSONType}, Body: []byte(`{}`)},
		{Method: http.MethodGet, Path: "/internal/v1"}, {Method: http.MethodGet, Path: "/internal"},
	} {
		for name, token := range map[string]string{"with a token": e.Token(alice), "without": ""} {
			e.Input("%s %s %s", r.Method, r.Path, name)
			r := r
			r.Token = token
			if strings.Contains(r.Path, job.ID) {
				r.Header = append(slices.Clone(r.Header), "Glovebox-Fencing-Token: 1", "X-Client-Cert: spiffe://glovebox/worker/spare-1", "X-SSL-Client-Verify: SUCCESS")
			}
			a := e.Do(r)
			e.Check(refused(a, http.StatusNotFound, "not_found"), "got %s", a.Brief())
		}
	}
	e.Input("")
	e.Check(e.Row(job.ID).Status == "pending", "the job is %s", e.Row(job.ID).Status)
	worker := e.Worker(harness.Spare1)
	a := worker.ClaimJob(job.ID)
	e.Control(a.ID == job.ID, "a worker claims it")
	worker.Fail(a, "invalid_input", false)
}

func massOverride(e *harness.Env) {
	u := e.Bob()
	token := e.FreshToken(u)
	e.Control(whoami(e.Do(me(token))) == u.Login, "the plain request")
	for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "_method", "X-Override-Method"} {
		e.Input("%s", name)
		a := e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/auth/me?_method=DELETE", Token: token, Header: []string{name + ": DELETE"}})
		e.Check(whoami(a) == u.Login, "GET became %s", a.Brief())
		a = e.Do(harness.Request{Method: http.MethodPost, Path: "/api/v1/auth/token?_method=DELETE", Token: token, Header: []string{harness.JSONType, name + ": DELETE"}, Body: []byte(`{"login":"n","password":"p"}`)})
		e.Check(a.Status != http.StatusNoContent, "POST became %s", a.Brief())
		a = e.Do(harness.Request{Method: http.MethodPost, Path: "/api/v1/auth/me", Token: token, Header: []string{name + ": GET"}})
		e.Check(refused(a, http.StatusMethodNotAllowed, "method_not_allowed"), "POST became %s", a.Brief())
	}
	e.Check(whoami(e.Do(me(token))) == u.Login, "the token has been revoked")
}

// keysOf returns the keys of a JSON object, sorted.
func keysOf(e *harness.Env, a harness.Answer) []string {
	var body map[string]json.RawMessage
	e.JSON(a, &body)
	return slices.Sorted(maps.Keys(body))
}

func massKeys(e *harness.Env) {
	alice := e.Alice()
	worker := e.Worker(harness.Spare1)
	read := func(id, state string, want ...string) {
		e.Input("%s", state)
		e.Control(e.Row(id).Status == state, "the row is %s", e.Row(id).Status)
		a := e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/jobs/" + id, Token: e.Token(alice)})
		want = append(want, "id", "asset_id", "status", "created_at", "updated_at")
		slices.Sort(want)
		e.Check(slices.Equal(keysOf(e, a), want), "its keys are %v, not %v", keysOf(e, a), want)
		e.Check(!holds(a, harness.Spare1) && !holds(a, "spiffe") && !holds(a, e.Endpoint.StorageRoot) && !holds(a, alice.Login) && !holds(a, "fencing"), "it tells the inside: %s", a.Brief())
	}
	one, two := e.Submit(alice, harness.Lua()), e.Submit(alice, harness.Lua())
	read(one.ID, "pending")
	a := worker.ClaimJob(one.ID)
	read(one.ID, "processing")
	done := worker.Finish(a, []byte("return 2"))
	e.Control(done.Status == http.StatusOK, "the result is taken: %s", done.Brief())
	read(one.ID, "completed", "expires_at", "sha256", "size")
	b := worker.ClaimJob(two.ID)
	worker.Fail(b, "invalid_input", false)
	read(two.ID, "failed", "expires_at", "error_code")
}

func massAssignment(e *harness.Env) {
	alice := e.Alice()
	name := "secret-name-" + harness.RandomHex(6) + ".lua"
	content := harness.Lua()
	a := e.Do(harness.Request{Method: http.MethodPost, Path: "/api/v1/jobs", Token: e.Token(alice), Header: []string{harness.FormType}, Body: harness.Form(name, content)})
	var job harness.Job
	e.JSON(a, &job)
	worker := e.Worker(harness.Spare1)
	var claim harness.Answer
	e.Await(harness.Patience, func() bool {
		claim = worker.Must(http.MethodPost, "/internal/v1/jobs/claim?wait=0s", harness.Slots, harness.JSONType, "Glovebox-Request-Id: "+harness.UUID())
		if claim.Status == http.StatusOK && !holds(claim, job.ID) {
			var other harness.Assignment
			e.JSON(claim, &other)
			worker.Fail(&other, "invalid_input", false)
			return false
		}
		return claim.Status == http.StatusOK
	})
	e.Control(holds(claim, job.ID), "the claim is %s", claim.Brief())
	var got harness.Assignment
	e.JSON(claim, &got)
	want := []string{"attempt", "fencing_token", "heartbeat_seconds", "id", "input_sha256", "input_size", "lease_seconds", "max_result_bytes", "timeout_seconds"}
	e.Check(slices.Equal(keysOf(e, claim), want), "its keys are %v", keysOf(e, claim))
	input := worker.Must(http.MethodGet, got.Path("input"), nil, got.Fenced())
	e.Control(string(input.Body) == string(content), "the input is not the file")
	for what, answer := range map[string]harness.Answer{"claim": claim, "input": {Header: input.Header}} {
		e.Input("%s", what)
		for _, secret := range []string{alice.Login, name, e.Endpoint.StorageRoot, job.AssetID, "filename"} {
			e.Check(!holds(answer, secret), "it holds %q", secret)
		}
	}
	worker.Fail(&got, "invalid_input", false)
}

func massMe(e *harness.Env) {
	u := e.Alice()
	for _, query := range []string{"", "?fields=*", "?include=tokens,password_hash", "?expand=all", "?debug=1", "?verbose=true", "?pretty", "?format=xml"} {
		e.Input("%s", query)
		a := e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/auth/me" + query, Token: e.Token(u)})
		e.Control(whoami(a) == u.Login, "it names %q", whoami(a))
		e.Check(slices.Equal(keysOf(e, a), []string{"created_at", "login"}), "its keys are %v", keysOf(e, a))
	}
}
