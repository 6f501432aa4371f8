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

// claimWith sends a claim with these header lines and body.
func claimWith(w *harness.Worker, query, body string, header ...string) harness.Answer {
	return w.Must(http.MethodPost, "/internal/v1/jobs/claim"+query, []byte(body), header...)
}

var workerClaims = []harness.Case{
	{
		ID: "worker/one-job-two-workers", Title: "one job is given to two workers", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"JOB-02"}, Threats: []string{"LIF-T1", "DBS-T2"},
		Attack:  "twenty jobs, and for each eight claims of four workers at the same instant, at two servers",
		Control: "each job is given to somebody",
		Oracle:  "observer's history: one claim of each attempt; the answers: each job once",
		Run: func(e *harness.Env) {
			drain(e)
			owner, db := e.NewUser(), observer(e)
			workers := make([]*harness.Worker, 4)
			for i := range workers {
				workers[i] = ownWorker(e)
			}
			for round := range 20 {
				e.Input("round %d", round)
				job := e.Submit(owner, harness.Lua())
				var mu sync.Mutex
				var got []harness.Assignment
				var holder *harness.Worker
				e.Parallel(8, func(i int) {
					w := workers[i%4]
					answer, err := w.CallAt(i/4, http.MethodPost, "/internal/v1/jobs/claim?wait=0s", harness.Slots, claimHeader()...)
					if err != nil || answer.Status != http.StatusOK {
						return
					}
					var a harness.Assignment
					if json.Unmarshal(answer.Body, &a) == nil {
						mu.Lock()
						got, holder = append(got, a), w
						mu.Unlock()
					}
				})
				e.Control(len(got) > 0, "nobody was given the job")
				history, err := db.History(e.Context(), job.ID)
				e.Must(err, "look at the history")
				row := jobRow(e, db, job.ID)
				e.Check(len(got) == 1 && got[0].ID == job.ID && row.WorkerID == holder.ID && row.FencingToken == 1 && len(history) == 2, "given %d times: %+v, row %+v, history %v", len(got), got, row, history)
				holder.Fail(&got[0], "core_error", false)
			}
		},
	},
	{
		ID: "worker/repeated-claim", Title: "a claim that is sent twice takes two jobs", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"JOB-04", "JOB-02"}, Threats: []string{"INT-D1"},
		Attack:  "one request id twenty times at once at both servers, then after the assignment has ended, in upper case, and by another worker",
		Control: "another id takes the next job",
		Oracle:  "observer's rows: what the worker holds",
		Run: func(e *harness.Env) {
			drain(e)
			w, other, db := ownWorker(e), ownWorker(e), observer(e)
			owner := e.NewUser()
			jobs := []string{e.Submit(owner, harness.Lua()).ID, e.Submit(owner, harness.Lua()).ID, e.Submit(owner, harness.Lua()).ID}
			id := harness.UUID()
			var mu sync.Mutex
			given := map[string]harness.Assignment{}
			e.Parallel(20, func(i int) {
				name := id
				if i%2 == 1 {
					name = strings.ToUpper(id)
				}
				got, err := w.CallAt(i, http.MethodPost, "/internal/v1/jobs/claim", harness.Slots, harness.JSONType, "Glovebox-Request-Id: "+name)
				var a harness.Assignment
				if err == nil && got.Status == http.StatusOK && json.Unmarshal(got.Body, &a) == nil {
					mu.Lock()
					given[a.ID] = a
					mu.Unlock()
				}
			})
			held, err := db.HeldBy(e.Context(), w.ID)
			e.Must(err, "look what the worker holds")
			e.Check(len(given) == 1 && len(held) == 1, "one request was given %d jobs, the worker holds %v", len(given), held)
			for _, a := range given {
				w.Fail(&a, "core_error", false)
			}
			again := claimWith(w, "", string(harness.Slots), harness.JSONType, "Glovebox-Request-Id: "+id)
			e.Check(again.Status == http.StatusConflict, "after its end: %s", again.Brief())
			theirs := claimWith(other, "", string(harness.Slots), harness.JSONType, "Glovebox-Request-Id: "+id)
			var a harness.Assignment
			e.Control(theirs.Status == http.StatusOK, "another worker's same id: %s", theirs.Brief())
			e.JSON(theirs, &a)
			_, stolen := given[a.ID]
			e.Check(!stolen && slices.Contains(jobs, a.ID), "another worker got %s by the same id", a.ID)
			other.Fail(&a, "core_error", false)
			drain(e)
		},
	},
	{
		ID: "worker/claim-bodies", Title: "a claim chooses its job, its lease or its place", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"API-07", "JOB-02"}, Threats: []string{"PUB-T1", "INT-D1"},
		Attack:  "claims with further keys and parameters, impossible slots, waits of every bad form, ids that are no UUID, twice, missing; bodies that are not JSON, deep or large",
		Control: "the plain claim is given the job afterwards",
		Oracle:  "status of the answer; observer's row: the job is still pending",
		Run: func(e *harness.Env) {
			drain(e)
			w := ownWorker(e)
			job := e.Submit(e.NewUser(), harness.Lua())
			db := observer(e)
			same := untouched(e, db, job.ID)
			good := string(harness.Slots)
			for _, body := range []string{
				`{"slots_free":1,"slots_total":1,"job_id":"` + job.ID + `"}`, `{"slots_free":1,"slots_total":1,"count":10}`, `{"slots_free":1,"slots_total":1,"lease_seconds":3600}`,
				`{"slots_free":2,"slots_total":1}`, `{"slots_free":-1,"slots_total":1}`, `{"slots_free":1,"slots_total":10001}`, `{"slots_free":1.5,"slots_total":2}`, `{"slots_free":1e3,"slots_total":1e3}`, `{"slots_free":"1","slots_total":1}`,
				`{"slots_free":9223372036854775808,"slots_total":9223372036854775808}`, `{"slots_free":1}`, `{}`, ``, `null`, `[]`, `1`, good + good, `{"slots_free":1,"slots_free":1,"slots_total":1}`, strings.Repeat("[", 9000), strings.Repeat(" ", 17<<10) + good, "\xff",
			} {
				e.Input("body %.60q", body)
				got := claimWith(w, "", body, claimHeader()...)
				e.Check(got.Status == http.StatusBadRequest || got.Status == http.StatusRequestEntityTooLarge, "got %s", got.Brief())
			}
			for _, query := range []string{"?wait=", "?wait=-1s", "?wait=1", "?wait=1h1", "?wait=x", "?wait=1s&wait=2s", "?wait=%00", "?wait=1s;x", "?wait=9e99s", "?%zz"} {
				e.Input("query %s", query)
				got := claimWith(w, query, good, claimHeader()...)
				e.Check(got.Status == http.StatusBadRequest, "got %s", got.Brief())
			}
			id := harness.UUID()
			for _, lines := range [][]string{
				nil, {id, id}, {id, harness.UUID()}, {""}, {"x"}, {"{" + id + "}"}, {"urn:uuid:" + id}, {strings.ReplaceAll(id, "-", "")}, {id + "," + id}, {"'; DROP TABLE app.jobs; --"}, {strings.Repeat("a", 4000)},
			} {
				e.Input("id %.60q", lines)
				header := []string{harness.JSONType}
				for _, l := range lines {
					header = append(header, "Glovebox-Request-Id: "+l)
				}
				got := claimWith(w, "", good, header...)
				e.Check(got.Status == http.StatusBadRequest, "got %s", got.Brief())
			}
			e.Input("afterwards")
			same("by a hostile claim")
			a := w.Claim()
			e.Control(a != nil && a.ID == job.ID, "the plain claim got %+v", a)
			w.Fail(a, "core_error", false)
		},
	},
	{
		ID: "worker/claims-without-end", Title: "a worker that takes every job and does none stops the work of all", World: harness.Quiet, Lock: "queue", Slow: true,
		Requirements: []string{"JOB-06", "JOB-05", "JOB-09"}, Threats: []string{"INT-D1", "LIF-D1"},
		Attack:  "thirty jobs of two users are claimed by one worker, which then says nothing",
		Control: "the worker holds all of them",
		Oracle:  "observer: after one lease each is pending again, none is lost, none failed, and another worker finishes them; the owners download them",
		Run: func(e *harness.Env) {
			drain(e)
			w, db := ownWorker(e), observer(e)
			people := []*harness.User{e.NewUser(), e.NewUser()}
			owner := map[string]*harness.User{}
			for i := range 30 {
				u := people[i%2]
				owner[e.Submit(u, harness.Lua()).ID] = u
			}
			for a := w.Claim(); a != nil; a = w.Claim() {
				e.Note("claimed %s", a.ID) // one that an earlier case left may be among them
			}
			held, err := db.HeldBy(e.Context(), w.ID)
			e.Must(err, "look what the worker holds")
			e.Control(len(held) >= 30, "the worker holds %d", len(held))
			free := func() bool {
				held, err := db.HeldBy(e.Context(), w.ID)
				return err == nil && len(held) == 0
			}
			e.Check(e.Await(jobWait, free), "it still holds jobs after its leases")
			_, err = e.Admin(e.Context(), "", "worker", "remove", w.ID)
			e.Must(err, "remove the worker")
			other := ownWorker(e)
			finished := map[string]bool{}
			e.Await(30*time.Second, func() bool {
				a := other.Claim()
				if a == nil {
					return len(finished) == 30
				}
				got := other.Finish(a, []byte("of "+a.ID))
				if owner[a.ID] != nil {
					finished[a.ID] = got.Status == http.StatusOK
				}
				return false
			})
			e.Check(len(finished) == 30, "only %d were finished", len(finished))
			for id, u := range owner {
				e.Check(string(e.Result(u, id).Body) == "of "+id, "the owner of %s downloads something else", id)
			}
		},
	},
	{
		ID: "worker/fair-share", Title: "one user's many jobs keep another's from being claimed", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"JOB-02", "UPL-03"}, Threats: []string{"PUB-D3"},
		Attack:  "one user submits thirty jobs, then another submits one",
		Control: "the first user's jobs are claimed too",
		Oracle:  "order of the claims that a worker is given",
		Run: func(e *harness.Env) {
			drain(e)
			greedy, modest, w := e.NewUser(), e.NewUser(), ownWorker(e)
			for range 30 {
				e.Submit(greedy, harness.Lua())
			}
			one := e.Submit(modest, harness.Lua())
			place := 0
			claimed := 0
			for a := w.Claim(); a != nil; a = w.Claim() {
				claimed++
				if a.ID == one.ID {
					place = claimed
				}
				w.Fail(a, "core_error", false)
			}
			e.Control(claimed == 31, "%d were claimed", claimed)
			const soon = 3
			e.Check(place >= 1 && place <= soon, "the other user's job came as number %d", place)
		},
	},
	{
		ID: "worker/poison-job", Title: "a job that kills its workers is given out for ever", World: harness.Quiet, Lock: "queue", Slow: true,
		Requirements: []string{"JOB-09", "JOB-06"}, Threats: []string{"LIF-D2", "INT-D1"},
		Attack:  "a job is claimed and its lease let go, or reported as a fault of the sandbox, until the end; then twenty hand-backs",
		Control: "after the first time the job is pending again",
		Oracle:  "observer's row and history: attempts end at their number, hand-backs at theirs, and the job is failed with the last attempt's own code",
		Run: func(e *harness.Env) {
			drain(e)
			w, db := ownWorker(e), observer(e)
			job := e.Submit(e.NewUser(), harness.Lua())
			tries := 0
			e.Await(60*time.Second, func() bool {
				if a := w.Claim(); a != nil {
					tries++
					w.Fail(a, "sandbox_failure", true)
				}
				return jobRow(e, db, job.ID).Status == "failed"
			})
			row := jobRow(e, db, job.ID)
			e.Control(tries >= 2, "it was tried %d times", tries)
			e.Check(row.Status == "failed" && tries == 3 && row.ErrorCode == "sandbox_failure", "after %d tries the job is %+v", tries, row)
			back := e.Submit(e.NewUser(), harness.Lua())
			handed := 0
			e.Await(20*time.Second, func() bool {
				if a := w.Claim(); a != nil {
					handed++
					w.Fail(a, "worker_shutdown", true)
				}
				row = jobRow(e, db, back.ID)
				return handed >= 40 || row.Status == "failed" || row.Status == "pending" && handed > 10 && row.Attempt > 0
			})
			e.Check(handed <= 14, "it was handed back %d times and is %+v", handed, jobRow(e, db, back.ID))
		},
	},
	{
		ID: "worker/slots-lies", Title: "what a worker says of its slots gives it more, or takes from others", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"JOB-02", "MTL-02"}, Threats: []string{"INT-D1", "INT-S2"},
		Attack:  "claims and heartbeats that say ten thousand free slots",
		Control: "the lie stands in the worker's own line of the list",
		Oracle:  "observer: one claim holds one job; superuser: no other worker's line has changed",
		Run: func(e *harness.Env) {
			drain(e)
			admin := asSuperuser(e)
			w, other, db := ownWorker(e), ownWorker(e), observer(e)
			for range 3 {
				e.Submit(e.NewUser(), harness.Lua())
			}
			lines := func() (sum string) {
				e.Must(admin.QueryRow(e.Context(), `SELECT coalesce(string_agg(w::text, '|' ORDER BY id), '') FROM app.workers w WHERE id <> $1`, w.ID).Scan(&sum), "read the list")
				return sum
			}
			before := lines()
			got := claimWith(w, "", `{"slots_free":10000,"slots_total":10000}`, claimHeader()...)
			var a harness.Assignment
			e.JSON(got, &a)
			w.Must(http.MethodPost, a.Path("heartbeat"), []byte(`{"slots_free":9999,"slots_total":10000}`), a.Fenced(), harness.JSONType)
			held, err := db.HeldBy(e.Context(), w.ID)
			e.Must(err, "look what the worker holds")
			e.Check(len(held) == 1, "it holds %v", held)
			e.Control(number(e, admin, "SELECT slots_free FROM app.workers WHERE id = $1", w.ID) == 9999, "the lie does not stand in its own line")
			e.Check(lines() == before, "other lines of the list have changed: %s", fmt.Sprint(other.ID))
			w.Fail(&a, "core_error", false)
			drain(e)
		},
	},
	{
		ID: "worker/input-ranges", Title: "a worker reads beyond its input, or the server holds it in memory", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"MTL-04", "UPL-02"}, Threats: []string{"INT-I1", "PUB-D2"},
		Attack:  "the own input with ranges, conditions, negotiated codings and parameters",
		Control: "the plain request gives the input byte by byte",
		Oracle:  "bytes of the answer: the whole input or a part of it, and nothing else",
		Run: func(e *harness.Env) {
			owner, w := e.NewUser(), ownWorker(e)
			content := harness.Lua()
			a := w.ClaimJob(e.Submit(owner, content).ID)
			plain := w.Must(http.MethodGet, a.Path("input"), nil, a.Fenced())
			e.Control(string(plain.Body) == string(content) && plain.Header.Get("Repr-Digest") == harness.Digest(content), "the plain request: %s", plain.Brief())
			for _, line := range []string{
				"Range: bytes=0-99999999", "Range: bytes=-1000000", "Range: bytes=9999999-", "Range: bytes=0-0,1-1,2-2", "Range: lines=1-2", "Accept-Encoding: gzip, br", "If-None-Match: *", "If-Range: x", "X-Sendfile: /etc/passwd", "X-Accel-Redirect: /etc/passwd",
			} {
				e.Input("%s", line)
				got := w.Must(http.MethodGet, a.Path("input")+"?path=/etc/passwd&offset=-1", nil, a.Fenced(), line)
				e.Check(got.Status >= 400 || strings.Contains(string(content), string(got.Body)), "got %d bytes: %.80q", len(got.Body), got.Body)
			}
			w.Fail(a, "core_error", false)
		},
	},
}
