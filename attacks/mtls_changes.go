package attacks

import (
	"crypto/tls"
	"net/http"
	"time"

	"glovebox/attacks/forge"
	"glovebox/attacks/harness"
)

// mtlsChanges are certificates that were good when the connection was made.
var mtlsChanges = []harness.Case{
	{
		ID: "mtls/removed-while-connected", Title: "a worker that was taken off the list works on over its open connection", World: harness.Quiet, Lock: "queue", Slow: true,
		Requirements: []string{"MTL-02", "MTL-04"}, Threats: []string{"INT-S1", "INT-T1"},
		Attack:  "claim a job, be removed, then claim, heartbeat, read, finish and fail over the same connection and over a new one",
		Control: "before the removal the same connection is answered, and the job is given",
		Oracle:  "status of the answers; observer's row and history: the job goes to another worker, which finishes it",
		Run: func(e *harness.Env) {
			owner, w, a := given(e)
			hb := w.Must(http.MethodPost, a.Path("heartbeat"), harness.Slots, a.Fenced(), harness.JSONType)
			e.Control(hb.Status == http.StatusOK, "before the removal: %s", hb.Brief())
			db := observer(e)
			same := untouched(e, db, a.ID)
			waiting := e.Submit(e.NewUser(), harness.Lua())
			_, err := e.Admin(e.Context(), "", "worker", "remove", w.ID)
			e.Must(err, "remove the worker")
			for server := range e.Servers() {
				got, err := w.CallAt(server, http.MethodPost, "/internal/v1/jobs/claim", harness.Slots, claimHeader()...)
				e.Must(err, "claim")
				e.Check(got.Status == http.StatusForbidden && got.Code() == "worker_not_allowed", "a claim at server %d: %s", server, got.Brief())
			}
			operations(w, a, func(route string, got harness.Answer) {
				e.Check(got.Status == http.StatusForbidden, "%s got %s", route, got.Brief())
			})
			same("by a removed worker")
			e.Check(jobRow(e, db, waiting.ID).Status == "pending", "the waiting job is %+v", jobRow(e, db, waiting.ID))
			other := ownWorker(e)
			other.Fail(other.ClaimJob(waiting.ID), "core_error", false)
			again := other.ClaimJob(a.ID) // when the lease has run out
			result := []byte("by the other")
			got := other.Finish(again, result)
			e.Check(got.Status == http.StatusOK && string(e.Result(owner, a.ID).Body) == string(result), "the other worker's result: %s", got.Brief())
		},
	},
	{
		ID: "mtls/removed-while-waiting", Title: "a worker that was taken off the list is given a job by the claim it had open", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"MTL-02"}, Threats: []string{"INT-S1", "INT-I1"},
		Attack:  "a long poll is open when the worker is removed; then a job is submitted",
		Control: "a long poll of a listed worker is given the job that comes",
		Oracle:  "observer's row: who holds the job",
		Run: func(e *harness.Env) {
			db := observer(e)
			poll := func(w *harness.Worker) <-chan harness.Answer {
				answer := make(chan harness.Answer, 1)
				go func() {
					got, _ := w.Call(http.MethodPost, "/internal/v1/jobs/claim?wait=4s", harness.Slots, claimHeader()...)
					answer <- got
				}()
				return answer
			}
			drain(e)
			good := ownWorker(e)
			open := poll(good)
			e.Must(awaitSeen(e, good.ID), "await the long poll")
			job := e.Submit(e.NewUser(), harness.Lua())
			got := <-open
			e.Control(got.Status == http.StatusOK && jobRow(e, db, job.ID).WorkerID == good.ID, "the listed worker's long poll: %s", got.Brief())
			var a harness.Assignment
			e.JSON(got, &a)
			good.Fail(&a, "core_error", false)

			// A job that another case left behind may come first: then again, so that the
			// poll is known to have been open when the worker had been removed.
			waiting := false
			for range 5 {
				bad := ownWorker(e)
				open = poll(bad)
				e.Must(awaitSeen(e, bad.ID), "await the long poll")
				_, err := e.Admin(e.Context(), "", "worker", "remove", bad.ID)
				e.Must(err, "remove the worker")
				select {
				case got := <-open:
					e.Note("answered before: %s", got.Brief())
					continue
				default:
					waiting = true
				}
				break
			}
			e.Control(waiting, "no poll was open when its worker had been removed")
			job = e.Submit(e.NewUser(), harness.Lua())
			got = <-open
			row := jobRow(e, db, job.ID)
			e.Check(got.Status != http.StatusOK && row.WorkerID == "" && row.Status == "pending", "the removed worker's long poll: %s; the job is %+v", got.Brief(), row)
			good.Fail(good.ClaimJob(job.ID), "core_error", false)
		},
	},
	{
		ID: "mtls/expires-while-connected", Title: "a certificate that has ended works on over its open connection", World: harness.Quiet,
		Requirements: []string{"MTL-01", "MTL-02"}, Threats: []string{"INT-S1"},
		Attack:  "a certificate that ends in three seconds; a request before and one after, on one connection that requests keep busy",
		Control: "before its end the same connection is answered by the route",
		Oracle:  "status and code of the answer, and that the server ends the connection",
		Run: func(e *harness.Env) {
			id := listed(e)
			leaf := forge.Client(workerName + id)
			leaf.To = time.Now().Add(3 * time.Second).Truncate(time.Second)
			c := e.MustDial(e.Internal(0), showing(e, forged(e, leaf)))
			ask := func() (harness.Answer, error) {
				r := harness.Request{Method: http.MethodPost, Path: "/internal/v1/jobs/claim", Header: []string{harness.JSONType}, Body: harness.Slots}
				if err := c.Send(r.Bytes(e.Internal(0))); err != nil {
					return harness.Answer{}, err
				}
				return c.Receive(http.MethodPost, 5*time.Second)
			}
			a, err := ask()
			e.Control(err == nil && a.Status == http.StatusBadRequest, "before the end: %s (%v)", a.Brief(), err)
			ended := e.Await(6*time.Second, func() bool { return time.Now().After(leaf.To.Add(100 * time.Millisecond)) })
			a, err = ask()
			e.Check(ended && (err != nil || a.Status == http.StatusUnauthorized && a.Close), "after the end: %s (%v)", a.Brief(), err)
		},
	},
	{
		ID: "mtls/resumption", Title: "a session of an earlier connection takes the place of a certificate", World: harness.Quiet,
		Requirements: []string{"MTL-01", "MTL-02"}, Threats: []string{"INT-S1", "INT-E1"},
		Attack:  "sessions of the internal listener, and of the public one, offered to the internal one without a certificate",
		Control: "the public listener's sessions are resumed by the public listener",
		Oracle:  "whether a handshake is resumed, and whether the route answers",
		Run: func(e *harness.Env) {
			id := letIn(e)
			for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				e.Input("%s", tls.VersionName(version))
				sessions := tls.NewLRUClientSessionCache(8)
				own := showing(e, forged(e, forge.Client(workerName+id)))
				own.ClientSessionCache, own.ServerName, own.MaxVersion = sessions, "localhost", version
				for range 2 {
					a, err := claimOver(e, own)
					e.Control(err == nil && a.Status == http.StatusBadRequest, "with the certificate: %s (%v)", a.Brief(), err)
				}
				bare, err := e.InternalTLS("")
				e.Must(err, "trust the internal authority")
				bare.ClientSessionCache, bare.ServerName, bare.MaxVersion = sessions, "localhost", version
				a, err := claimOver(e, bare)
				e.Check(err != nil, "a session of the worker's without its certificate: %s", a.Brief())

				public := e.TLS()
				public.ClientSessionCache, public.ServerName, public.MaxVersion, public.NextProtos = tls.NewLRUClientSessionCache(8), "localhost", version, []string{"http/1.1"}
				e.Control(resumed(e, public), "a session of the public listener is not resumed by it")
				bare.ClientSessionCache, bare.RootCAs, bare.InsecureSkipVerify = public.ClientSessionCache, public.RootCAs, true // nothing is to stop the client
				bare.NextProtos = public.NextProtos
				a, err = claimOver(e, bare)
				e.Check(err != nil, "a session of the public listener at the internal one: %s", a.Brief())
			}
		},
	},
}

// resumed makes two connections to the public listener, a request on each, and
// reports whether the second was resumed.
func resumed(e *harness.Env, config *tls.Config) (yes bool) {
	for range 2 {
		c := e.MustDial(e.Public(0), config)
		e.Must(c.Send(harness.Request{Method: http.MethodGet, Path: "/health"}.Bytes(e.Public(0))), "ask for health")
		_, err := c.Receive(http.MethodGet, 5*time.Second)
		e.Must(err, "ask for health")
		yes = c.ConnectionState().DidResume
	}
	return yes
}

// awaitSeen waits until the list has seen the worker speak: its long poll is open.
func awaitSeen(e *harness.Env, id string) error {
	admin := asSuperuser(e)
	if !e.Await(5*time.Second, func() bool {
		return number(e, admin, "SELECT count(*) FROM app.workers WHERE id = $1 AND last_seen_at IS NOT NULL", id) == 1
	}) {
		return errNotSeen
	}
	return nil
}

// drain ends the jobs that earlier cases left, so that what comes next is this
// case's own. Only for cases that hold the lock "queue".
func drain(e *harness.Env) {
	w := ownWorker(e)
	for a := w.Claim(); a != nil; a = w.Claim() {
		w.Fail(a, "core_error", false)
	}
}
