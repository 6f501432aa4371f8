package attacks

import (
	"crypto/x509"
	"net/http"
	"net/url"

	"glovebox/attacks/forge"
	"glovebox/attacks/harness"
)

// claimHeader are the header lines of a claim that takes a job if there is one.
func claimHeader() []string {
	return []string{harness.JSONType, "Glovebox-Request-Id: " + harness.UUID()}
}

// workerRoutes are the operations on a job, with a body that would be good.
var workerRoutes = []struct {
	method, operation string
	body              []byte
	header            []string
}{
	{http.MethodGet, "input", nil, nil},
	{http.MethodPost, "heartbeat", harness.Slots, []string{harness.JSONType}},
	{http.MethodPut, "result", []byte("forged"), []string{"Repr-Digest: " + harness.Digest([]byte("forged")), "Content-Type: application/octet-stream"}},
	{http.MethodPost, "fail", []byte(`{"code":"invalid_input","retryable":false,"detail":"x"}`), []string{harness.JSONType}},
}

// everyRoute calls claim and each operation on the assignment's job as w.
func everyRoute(w *harness.Worker, a *harness.Assignment, see func(route string, answer harness.Answer)) {
	see("claim", w.Must(http.MethodPost, "/internal/v1/jobs/claim", harness.Slots, claimHeader()...))
	operations(w, a, see)
}

// operations calls each operation on the assignment's job as w.
func operations(w *harness.Worker, a *harness.Assignment, see func(route string, answer harness.Answer)) {
	for _, r := range workerRoutes {
		see(r.operation, w.Must(r.method, a.Path(r.operation), r.body, append([]string{a.Fenced()}, r.header...)...))
	}
}

// given submits a job of a new user's and has a listed worker claim it.
func given(e *harness.Env) (owner *harness.User, w *harness.Worker, a *harness.Assignment) {
	owner, w = e.NewUser(), ownWorker(e)
	a = w.ClaimJob(e.Submit(owner, harness.Lua()).ID)
	return owner, w, a
}

// notNamed is a case in which a certificate of the right authority names nobody
// who may work, and so opens nothing.
func notNamed(name, title, attack string, leaves func(id string) map[string]forge.Leaf) harness.Case {
	return harness.Case{
		ID: "mtls/" + name, Title: title, World: harness.Quiet, Lock: "queue",
		Requirements: []string{"MTL-02"}, Threats: []string{"INT-S1", "INT-S2"},
		Attack:  attack + ", on claim and on every operation of a job that the real worker holds",
		Control: "the real worker's heartbeat of that job is taken",
		Oracle:  "status of the answer; observer's row and history of the job; when the list last saw the worker",
		Run: func(e *harness.Env) {
			_, w, a := given(e)
			hb := w.Must(http.MethodPost, a.Path("heartbeat"), harness.Slots, a.Fenced(), harness.JSONType)
			e.Control(hb.Status == http.StatusOK, "the real worker's heartbeat: %s", hb.Brief())
			waiting := e.Submit(e.NewUser(), harness.Lua()) // a claim would find it
			db := observer(e)
			same, free := untouched(e, db, a.ID), untouched(e, db, waiting.ID)
			for what, leaf := range leaves(w.ID) {
				e.Input("%s", what)
				intruder := e.WorkerWith(what, showing(e, forged(e, leaf)))
				everyRoute(intruder, a, func(route string, got harness.Answer) {
					e.Check(got.Status == http.StatusForbidden || got.Status == http.StatusNotFound, "%s got %s", route, got.Brief())
				})
			}
			same("with a certificate of no worker")
			free("with a certificate of no worker")
			w.Fail(a, "core_error", false)
			w.Fail(w.ClaimJob(waiting.ID), "core_error", false)
		},
	}
}

func withURIs(uris ...string) map[string]forge.Leaf {
	all := map[string]forge.Leaf{}
	for _, u := range uris {
		all[u] = forge.Client(u)
	}
	return all
}

var mtlsNames = []harness.Case{
	notNamed("not-listed", "a worker that is on no list works", "a good certificate of the right authority, of an id that was never listed",
		func(string) map[string]forge.Leaf { return withURIs(workerName + "y" + harness.RandomHex(6)) }),
	notNamed("name-forms", "a name that is almost a worker's counts as its name", "URIs that differ from the worker's by case, scheme, host, port, path, query, fragment, encoding",
		func(id string) map[string]forge.Leaf {
			return withURIs(
				"spiffe://glovebox/worker/"+id+"/", "spiffe://glovebox/worker//"+id, "spiffe://glovebox/worker/./"+id, "spiffe://glovebox/worker/../worker/"+id,
				"spiffe://glovebox/worker/"+id+"?x=1", "spiffe://glovebox/worker/"+id+"#x", "spiffe://glovebox:443/worker/"+id, "spiffe://user@glovebox/worker/"+id,
				"spiffe://GLOVEBOX/worker/"+id, "SPIFFE://glovebox/worker/"+id+"%20", "spiffe://glovebox/Worker/"+id, "spiffe://glovebox/worker/%78"+id[1:],
				"spiffe://glovebox/worker/"+id+"%00", "https://glovebox/worker/"+id, "spiffe://glovebox.example/worker/"+id, "spiffe://example/glovebox/worker/"+id,
				"spiffe:/glovebox/worker/"+id, "spiffe:glovebox/worker/"+id, "glovebox/worker/"+id, "spiffe://glovebox/worker/", "spiffe://glovebox/worker/*",
				"spiffe://glovebox/workers/"+id, "spiffe://glovebox/ingest/../worker/"+id, "spiffe://glovebox/worker/X"+id[1:])
		}),
	notNamed("other-fields", "a name outside the URI counts as a worker's", "the worker's id and its URI in the subject, the host names, the e-mail addresses",
		func(id string) map[string]forge.Leaf {
			leaf := func(change func(*x509.Certificate)) forge.Leaf {
				l := forge.Client()
				l.Change = change
				return l
			}
			return map[string]forge.Leaf{
				"no name at all": leaf(nil),
				"common name":    leaf(func(c *x509.Certificate) { c.Subject.CommonName = id }),
				"URI as common name": leaf(func(c *x509.Certificate) {
					c.Subject.CommonName = workerName + id
					c.Subject.OrganizationalUnit = []string{"worker"}
				}),
				"host name": leaf(func(c *x509.Certificate) { c.DNSNames = []string{id, "glovebox-worker-" + id} }),
				"e-mail":    leaf(func(c *x509.Certificate) { c.EmailAddresses = []string{id + "@glovebox"} }),
			}
		}),
	notNamed("two-names", "a certificate of two names chooses one", "the worker's URI beside another: of a worker, of an ingest, of nobody, and itself twice",
		func(id string) map[string]forge.Leaf {
			other := "y" + harness.RandomHex(6)
			return map[string]forge.Leaf{
				"another worker before": forge.Client(workerName+other, workerName+id),
				"another worker behind": forge.Client(workerName+id, workerName+other),
				"an ingest":             forge.Client(ingestName+id, workerName+id),
				"a page":                forge.Client(workerName+id, "https://glovebox.example/"),
				"itself twice":          forge.Client(workerName+id, workerName+id),
				"a hundred":             forge.Client(append(many(workerName+"z", 100), workerName+id)...),
			}
		}),
	{
		ID: "mtls/name-in-request", Title: "a request says which worker it is from", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"MTL-02"}, Threats: []string{"INT-S2"},
		Attack:  "one listed worker claims with another's id in headers that proxies set, in the query, in the body and as a user name",
		Control: "the worker claims under its own name",
		Oracle:  "observer's row: who holds the job",
		Run: func(e *harness.Env) {
			victim, w := listed(e), ownWorker(e)
			db := observer(e)
			job := e.Submit(e.NewUser(), harness.Lua())
			header := claimHeader()
			for _, name := range []string{
				"X-Worker-Id", "Worker-Id", "Glovebox-Worker-Id", "X-Forwarded-User", "X-Remote-User", "X-Ssl-Client-S-Dn", "X-Client-Cert-San", "X-Spiffe-Id",
			} {
				header = append(header, name+": "+victim)
			}
			header = append(header, "X-Forwarded-Client-Cert: URI="+workerName+victim, "Authorization: Bearer "+victim)
			got := w.Must(http.MethodPost, "/internal/v1/jobs/claim?wait=0s&worker_id="+url.QueryEscape(victim), harness.Slots, header...)
			e.Control(got.Status == http.StatusOK, "the claim: %s", got.Brief())
			var a harness.Assignment
			e.JSON(got, &a)
			e.Check(jobRow(e, db, a.ID).WorkerID == w.ID, "the job is held by %q, claimed by %q", jobRow(e, db, a.ID).WorkerID, w.ID)
			w.Fail(&a, "core_error", false)
			if a.ID != job.ID {
				w.Fail(w.ClaimJob(job.ID), "core_error", false)
			}
			for _, body := range []string{`{"slots_free":1,"slots_total":1,"worker_id":"` + victim + `"}`, `{"slots_free":1,"slots_total":1,"WorkerID":"` + victim + `"}`} {
				got := w.Must(http.MethodPost, "/internal/v1/jobs/claim", []byte(body), claimHeader()...)
				e.Check(got.Status == http.StatusBadRequest, "the body %s got %s", body, got.Brief())
			}
			held, err := db.HeldBy(e.Context(), victim)
			e.Must(err, "look what the victim holds")
			e.Check(len(held) == 0, "the victim holds %v", held)
		},
	},
}

// many numbers a name.
func many(name string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = name + string(rune('a'+i/26)) + string(rune('a'+i%26))
	}
	return all
}
