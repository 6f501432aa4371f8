package attacks

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"time"

	"glovebox/attacks/forge"
	"glovebox/attacks/harness"
)

// worker attacks from within: a worker that was taken over, with a good
// certificate and a place on the list.
var worker = harness.Family{
	Name: "worker", About: "a worker that was taken over",
	Cases: join(workerFences, workerResults, workerFailures, workerClaims),
}

const leaseLost = "lease_lost"

// jobWait is longer than a lease of these worlds and the look for those that ran out.
const jobWait = 15 * time.Second

// refusedEach calls every operation and checks that each is refused as a lost lease.
func refusedEach(e *harness.Env, w *harness.Worker, a *harness.Assignment, why string) {
	operations(w, a, func(route string, got harness.Answer) {
		e.Check(got.Status == http.StatusConflict && got.Code() == leaseLost, "%s %s: %s", route, why, got.Brief())
	})
}

// heartbeatControl shows that the holder's own request is taken.
func heartbeatControl(e *harness.Env, w *harness.Worker, a *harness.Assignment) {
	got := w.Must(http.MethodPost, a.Path("heartbeat"), harness.Slots, a.Fenced(), harness.JSONType)
	e.Control(got.Status == http.StatusOK, "the holder's heartbeat: %s", got.Brief())
}

// workerConn is a connection of the worker's on which the case writes bytes.
func workerConn(e *harness.Env, id string) *harness.Conn {
	config := showing(e, forged(e, forge.Client(workerName+id)))
	config.NextProtos = []string{"http/1.1"}
	return e.MustDial(e.Internal(0), config)
}

// workerTLS is a configuration with a certificate of that worker's name.
func workerTLS(e *harness.Env, id string) *tls.Config {
	return showing(e, forged(e, forge.Client(workerName+id)))
}

var workerFences = []harness.Case{
	{
		ID: "worker/stale-token", Title: "an attempt that was given to another still counts", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"JOB-03", "MTL-04"}, Threats: []string{"INT-T1", "LIF-T1"},
		Attack:  "every operation with the token of an attempt whose lease ran out: before the job is given out again, while another has it, and after the other has finished",
		Control: "before that the same token is good for a heartbeat",
		Oracle:  "observer's row and history; the bytes that the owner downloads",
		Run: func(e *harness.Env) {
			owner, w, old := given(e)
			heartbeatControl(e, w, old)
			db := observer(e)
			if !e.Await(jobWait, func() bool { return jobRow(e, db, old.ID).Status == "pending" }) {
				e.Fail("the lease does not run out: %+v", jobRow(e, db, old.ID))
			}
			same := untouched(e, db, old.ID)
			refusedEach(e, w, old, "before it is given out again")
			same("before it is given out again")
			other := ownWorker(e)
			now := other.ClaimJob(old.ID)
			e.Control(now.FencingToken > old.FencingToken, "the new token is %d, the old %d", now.FencingToken, old.FencingToken)
			same = untouched(e, db, old.ID)
			refusedEach(e, w, old, "while another has it")
			refusedEach(e, other, old, "of the other worker, with the old token")
			refusedEach(e, w, now, "of the old worker, with the new token")
			same("while another has it")
			good := []byte("by the other")
			e.Control(other.Finish(now, good).Status == http.StatusOK, "the other's result")
			same = untouched(e, db, old.ID)
			refusedEach(e, w, old, "after the other has finished")
			same("after the other has finished")
			e.Check(string(e.Result(owner, old.ID).Body) == string(good), "the owner downloads something else")
		},
	},
	{
		ID: "worker/lease-over", Title: "an attempt goes on after its lease, because nobody has noticed yet", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"MTL-04", "JOB-06"}, Threats: []string{"INT-T1"},
		Attack:  "a heartbeat and a result at the instant the lease ends, again and again until the job is taken back",
		Control: "in the middle of the lease the heartbeat is taken",
		Oracle:  "superuser's look at the database's own clock: no heartbeat is taken at a time after the lease it renews",
		Run: func(e *harness.Env) {
			_, w, a := given(e)
			heartbeatControl(e, w, a)
			admin := asSuperuser(e)
			left := func() float64 {
				var seconds float64
				e.Must(admin.QueryRow(e.Context(), `SELECT coalesce(extract(epoch FROM lease_expires_at - clock_timestamp()), -1) FROM app.jobs WHERE id::text = $1`, a.ID).Scan(&seconds), "ask for the lease")
				return seconds
			}
			e.Await(jobWait, func() bool { return left() < 0.03 })
			e.Await(time.Second, func() bool { return left() < 0 })
			for range 20 {
				hb := w.Must(http.MethodPost, a.Path("heartbeat"), harness.Slots, a.Fenced(), harness.JSONType)
				e.Check(hb.Status == http.StatusConflict && hb.Code() == leaseLost, "a heartbeat after the lease: %s", hb.Brief())
			}
			e.Check(w.Finish(a, []byte("late")).Status == http.StatusConflict, "a result after the lease was taken")
			e.Check(left() < 0, "the lease lives again: %f s", left())
			other := ownWorker(e)
			other.Fail(other.ClaimJob(a.ID), "core_error", false)
		},
	},
	{
		ID: "worker/foreign-job", Title: "a worker reads, finishes or fails what another was given", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"JOB-03", "MTL-04"}, Threats: []string{"INT-S2", "INT-I1"},
		Attack:  "every operation on another worker's live job, with the other's true token and with the own job's, and with tokens that were guessed",
		Control: "each worker's heartbeat of its own job is taken",
		Oracle:  "observer's row and history; the answer's bytes hold nothing of the input",
		Run: func(e *harness.Env) {
			owner, thief, victim := e.NewUser(), ownWorker(e), ownWorker(e)
			secret := harness.Lua()
			job := e.Submit(owner, secret)
			theirs := victim.ClaimJob(job.ID)
			own := thief.ClaimJob(e.Submit(e.NewUser(), harness.Lua()).ID)
			heartbeatControl(e, victim, theirs)
			heartbeatControl(e, thief, own)
			same := untouched(e, observer(e), job.ID)
			for _, token := range []int64{theirs.FencingToken, own.FencingToken, 1, 2, 3, 7, 1 << 40, 1<<63 - 1} {
				forged := *theirs
				forged.FencingToken = token
				operations(thief, &forged, func(route string, got harness.Answer) {
					e.Check(got.Status == http.StatusConflict && got.Code() == leaseLost, "%s with token %d: %s", route, token, got.Brief())
					e.Check(!strings.Contains(string(got.Body), "local mark"), "%s gave the input away", route)
				})
			}
			same("by another worker")
			in := victim.Must(http.MethodGet, theirs.Path("input"), nil, theirs.Fenced())
			e.Check(string(in.Body) == string(secret), "the holder reads something else")
			victim.Fail(theirs, "core_error", false)
			thief.Fail(own, "core_error", false)
		},
	},
	{
		ID: "worker/unclaimed-job", Title: "a worker finishes a job that nobody was given", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"JOB-03", "MTL-04", "JOB-01"}, Threats: []string{"INT-T1", "INT-I1"},
		Attack:  "every operation on a pending job, with tokens that a first claim would give",
		Control: "after a claim the same operation is taken",
		Oracle:  "observer's row and history",
		Run: func(e *harness.Env) {
			w := ownWorker(e)
			job := e.Submit(e.NewUser(), harness.Lua())
			same := untouched(e, observer(e), job.ID)
			for _, token := range []int64{1, 2, 1<<63 - 1} {
				refusedEach(e, w, &harness.Assignment{ID: job.ID, FencingToken: token}, "before any claim")
			}
			same("before any claim")
			a := w.ClaimJob(job.ID)
			heartbeatControl(e, w, a)
			w.Fail(a, "core_error", false)
		},
	},
	{
		ID: "worker/which-jobs-exist", Title: "a worker learns which jobs exist", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"MTL-04", "ARC-09"}, Threats: []string{"INT-I1"},
		Attack:  "every operation on a job that is another's, one that is pending, one that has ended, one that never was, and on ids of every bad form",
		Control: "the answers are compared whole: two requests that differ in one byte of a heartbeat's body are told apart",
		Oracle:  "status, headers and bytes of the answers, which must be the same",
		Run: func(e *harness.Env) {
			victim, w := ownWorker(e), ownWorker(e)
			held := victim.ClaimJob(e.Submit(e.NewUser(), harness.Lua()).ID)
			ended := victim.ClaimJob(e.Submit(e.NewUser(), harness.Lua()).ID)
			victim.Fail(ended, "core_error", false)
			pending := e.Submit(e.NewUser(), harness.Lua())
			ids := []string{harness.UUID(), held.ID, ended.ID, pending.ID, strings.ToUpper(held.ID), strings.ReplaceAll(held.ID, "-", ""), "1", "x", strings.Repeat("a", 300)}
			for _, r := range workerRoutes {
				var first string
				for _, id := range ids {
					a := &harness.Assignment{ID: id, FencingToken: held.FencingToken}
					got := w.Must(r.method, a.Path(r.operation), r.body, append([]string{a.Fenced()}, r.header...)...)
					got.Header.Del("Date")
					got.Header.Del("X-Request-Id")
					text := fmt.Sprintf("%d %v %s", got.Status, got.Header, got.Body)
					if first == "" {
						first = text
					}
					e.Check(text == first, "%s of %s: %q, of a job that never was: %q", r.operation, id, text, first)
				}
			}
			bad := victim.Must(http.MethodPost, held.Path("heartbeat"), []byte("{"), held.Fenced(), harness.JSONType)
			good := victim.Must(http.MethodPost, held.Path("heartbeat"), harness.Slots, held.Fenced(), harness.JSONType)
			e.Control(string(bad.Body) != string(good.Body), "answers that differ look the same")
			victim.Fail(held, "core_error", false)
			victim.Fail(victim.ClaimJob(pending.ID), "core_error", false)
		},
	},
	{
		ID: "worker/token-forms", Title: "a token is read as another number than the one that was sent", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"MTL-04", "API-07"}, Threats: []string{"INT-T1", "PUB-T2"},
		Attack:  "the true token signed, padded, with a fraction, in other bases and digits, twice, in a list, beyond 64 bits, and no token",
		Control: "the token as it was given is taken",
		Oracle:  "status of the answer; observer's row and history",
		Run: func(e *harness.Env) {
			_, w, a := given(e)
			same := untouched(e, observer(e), a.ID)
			token := fmt.Sprint(a.FencingToken)
			name := "Glovebox-Fencing-Token: "
			inputs := map[string][]string{"none": nil, "twice": {name + token, name + token}, "two different": {name + token, name + "2"}}
			for _, v := range []string{
				"", "0", "-" + token, "+" + token, "0" + token, token + ".0", token + "e0", "0x" + token, "0b1", "0o1", token + ",2", token + " 2", token + ";", "\u0661", "\uff11", "1_0", "nan", "9223372036854775808", strings.Repeat("9", 400), "18446744073709551617",
			} {
				inputs[fmt.Sprintf("%q", v)] = []string{name + v}
			}
			for what, lines := range inputs {
				for _, r := range workerRoutes {
					got := w.Must(r.method, a.Path(r.operation), r.body, append(append([]string{}, lines...), r.header...)...)
					e.Check(got.Status == http.StatusBadRequest, "%s with token %s: %s", r.operation, what, got.Brief())
				}
			}
			same("with a malformed token")
			heartbeatControl(e, w, a)
			w.Fail(a, "core_error", false)
		},
	},
	{
		ID: "worker/after-the-end", Title: "something of a job can be done after its end", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"JOB-01", "MTL-04"}, Threats: []string{"INT-T1", "INT-I1", "LIF-T1"},
		Attack:  "input, heartbeat, failure and another result with the true token, after completion and after failure",
		Control: "the same result again after completion is answered as before",
		Oracle:  "observer's row and history, whose lease stays away; the owner's download",
		Run: func(e *harness.Env) {
			owner, w, done := given(e)
			result := []byte("the result")
			e.Control(w.Finish(done, result).Status == http.StatusOK, "the result")
			e.Control(w.Finish(done, result).Status == http.StatusOK, "the same result again")
			failed := w.ClaimJob(e.Submit(owner, harness.Lua()).ID)
			w.Fail(failed, "invalid_input", false)
			db := observer(e)
			for _, a := range []*harness.Assignment{done, failed} {
				row := jobRow(e, db, a.ID)
				e.Input("%s", row.Status)
				same := untouched(e, db, a.ID)
				operations(w, a, func(route string, got harness.Answer) {
					again := route == "fail" && a == failed // the same report again is answered as before
					e.Check(got.Status == http.StatusConflict || again && got.Status == http.StatusOK, "%s: %s", route, got.Brief())
				})
				other := w.Must(http.MethodPost, a.Path("fail"), []byte(`{"code":"timeout","retryable":true}`), a.Fenced(), harness.JSONType)
				e.Check(other.Status == http.StatusConflict, "another failure: %s", other.Brief())
				same("after the end")
				e.Check(row.WorkerID == "" && row.LeaseExpires.Unix() == 0, "the ended job is held: %+v", row)
			}
			e.Check(string(e.Result(owner, done.ID).Body) == string(result), "the owner downloads something else")
		},
	},
	{
		ID: "worker/heartbeat-reach", Title: "heartbeats reach further than a lease", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"JOB-06"}, Threats: []string{"INT-D1"},
		Attack:  "two hundred heartbeats at once and in a row, with bodies and headers that ask for a longer lease",
		Control: "a heartbeat moves the end of the lease",
		Oracle:  "superuser's look: the lease ends no later than its length from now",
		Run: func(e *harness.Env) {
			_, w, a := given(e)
			admin := asSuperuser(e)
			left := func() int64 {
				return number(e, admin, `SELECT (extract(epoch FROM lease_expires_at - clock_timestamp()) * 1000)::bigint FROM app.jobs WHERE id::text = $1`, a.ID)
			}
			e.Await(3*time.Second, func() bool { return left() < int64(a.LeaseSeconds)*1000-500 })
			before := left()
			heartbeatControl(e, w, a)
			e.Control(left() > before, "the lease ended in %d ms and now in %d ms", before, left())
			e.Parallel(8, func(int) {
				for range 25 {
					_, _ = w.Call(http.MethodPost, a.Path("heartbeat")+"?lease=1h&lease_seconds=3600", harness.Slots, a.Fenced(), harness.JSONType, "Lease-Seconds: 3600", "Prefer: wait=3600")
				}
			})
			e.Check(left() <= int64(a.LeaseSeconds)*1000, "the lease ends in %d ms", left())
			long := w.Must(http.MethodPost, a.Path("heartbeat"), []byte(`{"slots_free":1,"slots_total":1,"lease_seconds":3600}`), a.Fenced(), harness.JSONType)
			e.Check(long.Status == http.StatusBadRequest && left() <= int64(a.LeaseSeconds)*1000, "a lease asked for: %s", long.Brief())
			w.Fail(a, "core_error", false)
		},
	},
	{
		ID: "worker/paths", Title: "a path leads from one job's operation to another's", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"MTL-04", "API-07"}, Threats: []string{"INT-S2", "PUB-T2"},
		Attack:  "dots, double and encoded slashes, parameters, NUL, absolute addresses and fragments between two jobs' ids",
		Control: "the plain path is taken",
		Oracle:  "observer's rows and histories of both jobs",
		Run: func(e *harness.Env) {
			_, w, a := given(e)
			victim := ownWorker(e)
			theirs := victim.ClaimJob(e.Submit(e.NewUser(), harness.Lua()).ID)
			db := observer(e)
			same, own := untouched(e, db, theirs.ID), untouched(e, db, a.ID)
			body := []byte("forged")
			for _, path := range []string{
				a.Path("") + "../" + theirs.ID + "/result", a.Path("") + "%2e%2e/" + theirs.ID + "/result", a.Path("") + "..%2f" + theirs.ID + "/result",
				a.Path("") + ".%2e%2f" + theirs.ID + "%2fresult", "/internal/v1/jobs//" + theirs.ID + "/result", "/internal/v1/jobs/./" + theirs.ID + "/result",
				"//internal/v1/jobs/" + theirs.ID + "/result", "/internal/v1/jobs/" + theirs.ID + ";" + a.ID + "/result", "/internal/v1/jobs/" + theirs.ID + "%00/result",
				theirs.Path("result") + "/", theirs.Path("result") + "/..", "/internal/v1/jobs/" + a.ID + "%2f" + theirs.ID + "/result", "/INTERNAL/v1/jobs/" + theirs.ID + "/result",
				"https://127.0.0.1/internal/v1/jobs/" + theirs.ID + "/result", theirs.Path("result") + "#" + a.ID, "*", theirs.Path("result") + "\\..\\" + a.ID,
			} {
				e.Input("%q", path)
				c := workerConn(e, w.ID)
				r := harness.Request{Method: http.MethodPut, Path: path, Header: []string{a.Fenced(), "Repr-Digest: " + harness.Digest(body)}, Body: body}
				e.Must(c.Send(r.Bytes(e.Internal(0))), "send")
				got, err := c.Receive(http.MethodPut, 5*time.Second)
				e.Check(err != nil || got.Status >= 400, "got %s", got.Brief())
				c.Close()
			}
			e.Input("afterwards")
			same("by paths")
			own("by paths")
			heartbeatControl(e, w, a)
			w.Fail(a, "core_error", false)
			victim.Fail(theirs, "core_error", false)
		},
	},
	{
		ID: "worker/methods", Title: "a method that is not offered moves a job", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"API-07", "JOB-01"}, Threats: []string{"INT-T1", "PUB-T2"},
		Attack:  "every other method, known and made up, on every route; methods overridden by header and query",
		Control: "the offered method is taken",
		Oracle:  "status of the answer; observer's row and history",
		Run: func(e *harness.Env) {
			_, w, a := given(e)
			heartbeatControl(e, w, a)
			same := untouched(e, observer(e), a.ID)
			offered := map[string]string{"input": "GET", "heartbeat": "POST", "result": "PUT", "fail": "POST"}
			for operation, right := range offered {
				for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "CLAIM"} {
					if method == right {
						continue
					}
					got := w.Must(method, a.Path(operation), nil, a.Fenced(), "X-Http-Method-Override: "+right, "X-Method-Override: "+right)
					e.Check(got.Status == http.StatusMethodNotAllowed, "%s %s: %d %s", method, operation, got.Status, got.Body)
				}
			}
			same("by another method")
			w.Fail(a, "core_error", false)
		},
	},
	{
		ID: "worker/facts-of-users", Title: "a worker learns who its user is", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"ARC-09", "ARC-02"}, Threats: []string{"INT-I1"},
		Attack:  "a whole attempt: claim, input, heartbeat, wrong and right result; every byte that comes back is kept",
		Control: "the search finds the job's id in the same bytes",
		Oracle:  "search of all headers and bodies for login, file name, user and asset ids, storage paths, names of tables and roles",
		Run: func(e *harness.Env) {
			owner, w := e.NewUser(), ownWorker(e)
			name := "name-" + harness.RandomHex(8) + ".lua"
			content := harness.Lua()
			r := harness.SubmitRequest(e.Token(owner), content)
			r.Body = harness.Form(name, content)
			made := e.Do(r)
			var job harness.Job
			e.JSON(made, &job)
			var seen strings.Builder
			keep := func(got harness.Answer) harness.Answer {
				fmt.Fprintf(&seen, "%d %v %s\n", got.Status, got.Header, got.Body)
				return got
			}
			a := w.ClaimJob(job.ID)
			keep(w.Must(http.MethodPost, "/internal/v1/jobs/claim", harness.Slots, claimHeader()...))
			keep(w.Must(http.MethodGet, a.Path("input"), nil, a.Fenced()))
			operations(w, &harness.Assignment{ID: a.ID, FencingToken: a.FencingToken + 1}, func(_ string, got harness.Answer) { keep(got) })
			keep(w.Must(http.MethodPut, a.Path("result"), []byte("x"), a.Fenced(), "Repr-Digest: "+harness.Digest([]byte("y"))))
			keep(w.Finish(a, []byte("done")))
			claimed := fmt.Sprintf("%+v", a)
			all := seen.String() + claimed
			e.Control(strings.Contains(all, a.ID) && strings.Contains(all, string(content)), "the job's id or its input is not in what came back")
			admin := asSuperuser(e)
			var user string
			e.Must(admin.QueryRow(e.Context(), "SELECT id::text FROM app.users WHERE login = $1", owner.Login).Scan(&user), "ask for the user's id")
			for what, fact := range map[string]string{
				"login": owner.Login, "user id": user, "file name": name, "asset id": job.AssetID, "storage root": e.Endpoint.StorageRoot,
				"storage key": "input/", "token": e.Token(owner), "a table": "app.", "a role": "glovebox_",
			} {
				e.Check(!strings.Contains(all, fact), "the worker was told the %s", what)
			}
		},
	},
	{
		ID: "worker/fail-and-finish", Title: "a job ends twice when its worker says two things at once", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"JOB-01", "JOB-03"}, Threats: []string{"LIF-T1", "DBS-T2"},
		Attack:  "ten jobs: result, another result, failure and a hand-back of each sent at the same instant, to two servers",
		Control: "one of them is taken",
		Oracle:  "observer's history: one end; the owner's view and download agree with it",
		Run: func(e *harness.Env) {
			owner, w := e.NewUser(), ownWorker(e)
			db := observer(e)
			for i := range 10 {
				e.Input("job %d", i)
				a := w.ClaimJob(e.Submit(owner, harness.Lua()).ID)
				texts := []string{"first", "second"}
				taken := make([]bool, 4)
				e.Parallel(4, func(k int) {
					var got harness.Answer
					switch k {
					case 0, 1:
						got, _ = w.CallAt(k, http.MethodPut, a.Path("result"), []byte(texts[k]), a.Fenced(), "Repr-Digest: "+harness.Digest([]byte(texts[k])))
					case 2:
						got, _ = w.CallAt(0, http.MethodPost, a.Path("fail"), []byte(`{"code":"invalid_input","retryable":false}`), a.Fenced(), harness.JSONType)
					case 3:
						got, _ = w.CallAt(1, http.MethodPost, a.Path("fail"), []byte(`{"code":"core_error","retryable":false}`), a.Fenced(), harness.JSONType)
					}
					taken[k] = got.Status == http.StatusOK
				})
				ends := 0
				history, err := db.History(e.Context(), a.ID)
				e.Must(err, "look at the history")
				for _, event := range history {
					if event.From == "processing" {
						ends++
					}
				}
				winners := 0
				for _, ok := range taken {
					if ok {
						winners++
					}
				}
				e.Control(winners > 0, "none was taken: %v", taken)
				e.Check(ends == 1 && winners == 1, "%d ends, taken %v, history %v", ends, taken, history)
				if row := jobRow(e, db, a.ID); row.Status == "completed" {
					got := string(e.Result(owner, a.ID).Body)
					e.Check(taken[0] && got == texts[0] || taken[1] && got == texts[1], "the owner downloads %q, taken were %v", got, taken)
				}
			}
		},
	},
}
