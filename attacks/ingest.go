package attacks

import (
	"net/http"

	"glovebox/attacks/forge"
	"glovebox/attacks/harness"
)

// ingest attacks with the certificate of the process that takes other systems'
// events: it may do its own work and no worker's, no user's.
var ingest = harness.Family{
	Name: "ingest", About: "an ingest's certificate that fell into wrong hands",
	Cases: []harness.Case{
		{
			ID: "ingest/worker-routes", Title: "an ingest claims, reads, finishes or fails a job", World: harness.Quiet, Lock: "queue",
			Requirements: []string{"MTL-06"}, Threats: []string{"INT-E1", "INT-I1"},
			Attack:  "claim and every operation of a held job, with the holder's token, as an ingest of the system and as one that bears the worker's own id",
			Control: "the holder's heartbeat is taken",
			Oracle:  "status of the answer; observer's row and history of the held job and of a waiting one",
			Run: func(e *harness.Env) {
				_, w, a := given(e)
				heartbeatControl(e, w, a)
				waiting := e.Submit(e.NewUser(), harness.Lua())
				db := observer(e)
				same, free := untouched(e, db, a.ID), untouched(e, db, waiting.ID)
				for _, id := range []string{"main", w.ID} {
					e.Input("ingest %s", id)
					everyRoute(e.WorkerWith(id, showing(e, forged(e, forge.Client(ingestName+id)))), a, func(route string, got harness.Answer) {
						e.Check(got.Status == http.StatusNotFound, "%s got %s", route, got.Brief())
					})
				}
				e.Input("afterwards")
				same("by an ingest")
				free("by an ingest")
				w.Fail(a, "core_error", false)
				w.Fail(w.ClaimJob(waiting.ID), "core_error", false)
			},
		},
		{
			ID: "ingest/path-forms", Title: "a path leads from the ingest's routes to the workers'", World: harness.Quiet, Lock: "queue",
			Requirements: []string{"MTL-06", "API-07"}, Threats: []string{"INT-E1", "PUB-T2"},
			Attack:  "dots, encoded and doubled slashes, letters, parameters, NUL and absolute addresses that a router and a guard may read differently",
			Control: "the same claim by a worker is given the job",
			Oracle:  "observer's row: the waiting job stays pending",
			Run: func(e *harness.Env) {
				drain(e)
				db := observer(e)
				job := e.Submit(e.NewUser(), harness.Lua())
				config := showing(e, forged(e, forge.Client(ingestName+"main")))
				for _, path := range []string{
					"/internal/v1/ingest/../jobs/claim", "/internal/v1/ingest/%2e%2e/jobs/claim", "/internal/v1/ingest/..%2fjobs/claim", "/internal/v1/ingest%2f../jobs/claim", "//internal/v1/jobs/claim",
					"/internal//v1/jobs/claim", "/internal/v1//jobs/claim", "/internal/v1/./jobs/claim", "/internal/v1/jobs%2fclaim", "/internal/v1/%6aobs/claim", "/internal/v1/jobs/./claim", "/internal/v1/Jobs/claim", "/INTERNAL/V1/JOBS/CLAIM",
					"/internal/v1/jobs;x/claim", "/internal/v1/jobs/claim/", "/internal/v1/jobs/claim%00", "/internal/v1/jobs/claim%20", "/internal/v1/jobs/x/../claim", "https://x/internal/v1/jobs/claim", "/internal/v1/ingest/jobs/claim", "/internal/v1/jobs\\claim", "/./internal/v1/jobs/claim",
				} {
					e.Input("%q", path)
					got, err := over(e, e.Internal(0), config, harness.Request{Method: http.MethodPost, Path: path, Header: claimHeader(), Body: harness.Slots})
					e.Check(err != nil || got.Status == http.StatusNotFound || got.Status == http.StatusBadRequest, "got %s", got.Brief())
					row := jobRow(e, db, job.ID)
					e.Check(row.Status == "pending" && row.FencingToken == 0, "the job is %+v", row)
				}
				e.Input("afterwards")
				w := ownWorker(e)
				a := w.Claim()
				e.Control(a != nil && a.ID == job.ID, "a worker's claim got %+v", a)
				w.Fail(a, "core_error", false)
			},
		},
		{
			ID: "ingest/user-routes", Title: "an ingest acts as a user", World: harness.Quiet, Lock: "queue",
			Requirements: []string{"MTL-06", "MTL-03"}, Threats: []string{"INT-E1", "PUB-I1"},
			Attack:  "every operation of the users' API with the ingest's certificate, at both listeners, naming the owner in headers and body",
			Control: "the owner is answered with a token",
			Oracle:  "status of the answer; number of jobs that the observer sees",
			Run: func(e *harness.Env) {
				owner, w, a := given(e)
				e.Control(e.Status(owner, a.ID).ID == a.ID, "the owner is answered")
				db := observer(e)
				same := untouched(e, db, a.ID)
				pair := forged(e, forge.Client(ingestName+"main"))
				public := e.TLS()
				show(pair)(public)
				public.NextProtos = []string{"http/1.1"}
				for _, r := range publicRoutes(a.ID) {
					r.Header = append(r.Header, "X-User: "+owner.Login, "X-Forwarded-User: "+owner.Login, "On-Behalf-Of: "+owner.Login)
					e.Input("%s %s", r.Method, r.Path)
					got, err := over(e, e.Public(0), public, r)
					e.Check(err != nil || got.Status == http.StatusUnauthorized, "public listener: %s", got.Brief())
					got, err = over(e, e.Internal(0), showing(e, pair), r)
					e.Check(err == nil && got.Status == http.StatusNotFound, "internal listener: %s (%v)", got.Brief(), err)
				}
				e.Input("afterwards")
				same("by an ingest")
				w.Fail(a, "core_error", false)
			},
		},
		{
			ID: "ingest/worker-at-ingest", Title: "a worker uses the ingest's routes", World: harness.Quiet,
			Requirements: []string{"MTL-06"}, Threats: []string{"INT-E1"},
			Attack:  "paths below the ingest's routes with a listed worker's certificate, and with one that is on no list",
			Control: "the worker is answered on its own routes",
			Oracle:  "status and bytes of the answer: the same as for a path that never was",
			Run: func(e *harness.Env) {
				id := letIn(e)
				never, err := over(e, e.Internal(0), workerTLS(e, id), harness.Request{Method: http.MethodPost, Path: "/internal/v1/never"})
				e.Must(err, "ask for what never was")
				e.Control(never.Status == http.StatusNotFound, "what never was: %s", never.Brief())
				for _, path := range []string{"/internal/v1/ingest", "/internal/v1/ingest/", "/internal/v1/ingest/assets", "/internal/v1/ingest/events", "/internal/v1/ingest/connections", "/internal/v1/ingest/../ingest/assets", "/internal/v1/jobs/../ingest/assets"} {
					for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
						e.Input("%s %s", method, path)
						got, err := over(e, e.Internal(0), workerTLS(e, id), harness.Request{Method: method, Path: path, Header: []string{harness.JSONType}, Body: []byte("{}")})
						e.Check(err == nil && got.Status == http.StatusNotFound && string(got.Body) == string(never.Body), "got %s (%v)", got.Brief(), err)
						got, err = over(e, e.Internal(0), workerTLS(e, "y"+id), harness.Request{Method: method, Path: path, Header: []string{harness.JSONType}, Body: []byte("{}")})
						e.Check(err == nil && (got.Status == http.StatusNotFound || got.Status == http.StatusForbidden), "unlisted: %s (%v)", got.Brief(), err)
					}
				}
			},
		},
		{
			ID: "ingest/names", Title: "a name that is almost an ingest's counts as its name", World: harness.Quiet,
			Requirements: []string{"MTL-06", "MTL-02"}, Threats: []string{"INT-S1", "INT-E1"},
			Attack:  "certificates whose URIs are almost an ingest's, and of both kinds at once",
			Control: "a good worker's certificate is let in by its routes",
			Oracle:  "status of the answer: never that of the route",
			Run: func(e *harness.Env) {
				letIn(e)
				for _, uris := range [][]string{
					{ingestName}, {ingestName + "main/"}, {ingestName + "../worker/main"}, {"spiffe://glovebox/Ingest/main"}, {"spiffe://glovebox/ingest/main?x"}, {ingestName + "main", workerName + "spare-1"}, {ingestName + "*"}, {ingestName + "MAIN"},
				} {
					e.Input("%v", uris)
					for _, path := range []string{"/internal/v1/ingest/assets", "/internal/v1/jobs/claim"} {
						got, err := over(e, e.Internal(0), showing(e, forged(e, forge.Client(uris...))), harness.Request{Method: http.MethodPost, Path: path, Header: claimHeader(), Body: harness.Slots})
						e.Check(err == nil && (got.Status == http.StatusForbidden || got.Status == http.StatusNotFound), "%s: %s (%v)", path, got.Brief(), err)
					}
				}
			},
		},
	},
}
