package attacks

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"glovebox/attacks/forge"
	"glovebox/attacks/harness"
)

var errNotSeen = errors.New("the list has not seen the worker")

// publicRoutes are the operations of the public API that need a token.
func publicRoutes(id string) []harness.Request {
	return []harness.Request{
		{Method: http.MethodGet, Path: "/api/v1/auth/me"}, {Method: http.MethodDelete, Path: "/api/v1/auth/token"},
		{Method: http.MethodPost, Path: "/api/v1/jobs", Header: []string{harness.FormType}, Body: harness.Form("x.lua", harness.Lua())},
		{Method: http.MethodGet, Path: "/api/v1/jobs/" + id}, {Method: http.MethodGet, Path: "/api/v1/jobs/" + id + "/result"},
	}
}

// over sends one request over a connection of the given configuration.
func over(e *harness.Env, address string, config *tls.Config, r harness.Request) (harness.Answer, error) {
	c, err := e.Dial(address, config)
	if err != nil {
		return harness.Answer{}, err
	}
	defer c.Close()
	if err := c.Send(r.Bytes(address)); err != nil {
		return harness.Answer{}, err
	}
	return c.Receive(r.Method, 10*time.Second)
}

// mtlsCrossing are credentials of one interface at the other.
var mtlsCrossing = []harness.Case{
	{
		ID: "mtls/worker-on-public", Title: "a worker's certificate opens the users' API", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"MTL-03"}, Threats: []string{"INT-E1", "PUB-I1"},
		Attack:  "every protected route of the public API with the certificate of the worker that holds the job, and with an ingest's",
		Control: "the job's owner is answered on the same routes with a token",
		Oracle:  "status of the answer, the number of jobs that the observer sees",
		Run: func(e *harness.Env) {
			owner, w, a := given(e)
			e.Control(e.Status(owner, a.ID).Status == "processing", "the owner sees the job")
			for _, kind := range []string{workerName, ingestName} {
				config := e.TLS()
				show(forged(e, forge.Client(kind+w.ID)))(config)
				config.NextProtos = []string{"http/1.1"}
				for _, r := range publicRoutes(a.ID) {
					e.Input("%s%s %s %s", kind, w.ID, r.Method, r.Path)
					got, err := over(e, e.Public(0), config, r)
					e.Check(err != nil || got.Status == http.StatusUnauthorized, "got %s", got.Brief())
				}
			}
			e.Input("afterwards")
			_, jobs := asSuperuser(e), observer(e)
			e.Check(jobRow(e, jobs, a.ID).Status == "processing", "the job is %+v", jobRow(e, jobs, a.ID))
			w.Fail(a, "core_error", false)
		},
	},
	{
		ID: "mtls/token-on-internal", Title: "a user's token opens the workers' API", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"MTL-03"}, Threats: []string{"PUB-E1", "INT-S1"},
		Attack:  "claim and every operation on the user's own job with its token: without a certificate, and with one that is on no list",
		Control: "the token is good on the public API",
		Oracle:  "bytes on the wire and status; observer's row and history of the job",
		Run: func(e *harness.Env) {
			owner, w, a := given(e)
			token := e.Token(owner)
			e.Control(e.Status(owner, a.ID).Status == "processing", "the token is good")
			same := untouched(e, observer(e), a.ID)
			bare, err := e.InternalTLS("")
			e.Must(err, "trust the internal authority")
			unlisted := showing(e, forged(e, forge.Client(workerName+"y"+harness.RandomHex(6))))
			requests := []harness.Request{{Method: http.MethodPost, Path: "/internal/v1/jobs/claim", Header: claimHeader(), Body: harness.Slots}}
			for _, r := range workerRoutes {
				requests = append(requests, harness.Request{Method: r.method, Path: a.Path(r.operation), Header: append([]string{a.Fenced()}, r.header...), Body: r.body})
			}
			for _, r := range requests {
				r.Token = token
				e.Input("%s %s", r.Method, r.Path)
				got, err := over(e, e.Internal(0), bare, r)
				e.Check(err != nil, "without a certificate: %s", got.Brief())
				got, err = over(e, e.Internal(0), unlisted, r)
				e.Check(err == nil && got.Status == http.StatusForbidden, "with an unlisted one: %s (%v)", got.Brief(), err)
			}
			same("with a user's token")
			w.Fail(a, "core_error", false)
		},
	},
	{
		ID: "mtls/internal-routes-on-public", Title: "the public listener serves the workers' routes", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"MTL-03", "ARC-02"}, Threats: []string{"PUB-E1", "INT-E1"},
		Attack:  "claim and every operation on a held job at the public listener, with the owner's token and the holder's certificate together",
		Control: "the same requests at the internal listener are taken",
		Oracle:  "status of the answer; observer's row and history",
		Run: func(e *harness.Env) {
			owner, w, a := given(e)
			config := e.TLS()
			show(forged(e, forge.Client(workerName+w.ID)))(config)
			config.NextProtos = []string{"http/1.1"}
			same := untouched(e, observer(e), a.ID)
			for _, r := range workerRoutes {
				request := harness.Request{Method: r.method, Path: a.Path(r.operation), Token: e.Token(owner), Header: append([]string{a.Fenced()}, r.header...), Body: r.body}
				e.Input("%s", r.operation)
				got, err := over(e, e.Public(0), config, request)
				e.Check(err == nil && got.Status == http.StatusNotFound, "got %s (%v)", got.Brief(), err)
			}
			got, err := over(e, e.Public(0), config, harness.Request{Method: http.MethodPost, Path: "/internal/v1/jobs/claim", Token: e.Token(owner), Header: claimHeader(), Body: harness.Slots})
			e.Check(err == nil && got.Status == http.StatusNotFound, "claim got %s (%v)", got.Brief(), err)
			same("at the public listener")
			hb := w.Must(http.MethodPost, a.Path("heartbeat"), harness.Slots, a.Fenced(), harness.JSONType)
			e.Control(hb.Status == http.StatusOK, "at the internal listener: %s", hb.Brief())
			w.Fail(a, "core_error", false)
		},
	},
	{
		ID: "mtls/public-routes-on-internal", Title: "the internal listener serves the users' routes", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"MTL-03"}, Threats: []string{"INT-E1", "PUB-I1"},
		Attack:  "every operation of the users' API at the internal listener, with the holder's certificate and the owner's token, and logging in there",
		Control: "the same token is good on the public listener",
		Oracle:  "status and body of the answer",
		Run: func(e *harness.Env) {
			owner, w, a := given(e)
			config := showing(e, forged(e, forge.Client(workerName+w.ID)))
			e.Control(e.Status(owner, a.ID).ID == a.ID, "the token is good")
			requests := append(publicRoutes(a.ID), harness.LoginRequest(owner.Login, owner.Password))
			for _, r := range requests {
				r.Token = e.Token(owner)
				e.Input("%s %s", r.Method, r.Path)
				got, err := over(e, e.Internal(0), config, r)
				e.Check(err == nil && got.Status == http.StatusNotFound, "got %s (%v)", got.Brief(), err)
			}
			e.Input("afterwards")
			e.Check(e.Status(owner, a.ID).Status == "processing", "the token or the job has gone")
			w.Fail(a, "core_error", false)
		},
	},
	{
		ID: "mtls/false-server", Title: "a worker shows a false server what it has", World: harness.Quiet, Lock: "worker-program",
		Requirements: []string{"MTL-01", "ARC-01"}, Threats: []string{"INT-S1", "PUB-S3"},
		Attack:  "the worker's own program is led to servers that are self-signed, of another authority, of the public one, expired, for clients only, of another host",
		Control: "a server with a good certificate of the internal authority is asked",
		Oracle:  "the false server: no request reaches it",
		Run: func(e *harness.Env) {
			own, err := forge.NewAuthority("glovebox internal-ca 1", nil)
			e.Must(err, "make an authority")
			real := stolen(e, internalCA)
			good := forge.Leaf{Common: "server", DNS: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Use: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
			asked, err := asks(e, real, good)
			e.Must(err, "run the worker's program")
			e.Control(asked > 0, "a good server was asked %d times", asked)
			late, client, host := good, good, good
			late.To = time.Now().Add(-time.Minute)
			client.Use = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
			host.IPs, host.DNS = []net.IP{net.IPv4(127, 9, 9, 9)}, []string{"example"}
			for what, c := range map[string]struct {
				by   *forge.Authority
				leaf forge.Leaf
			}{
				"self-signed": {nil, good}, "another authority": {own, good}, "the public authority": {stolen(e, publicCA), good},
				"expired": {real, late}, "for clients": {real, client}, "another host": {real, host},
			} {
				e.Input("%s", what)
				asked, err := asks(e, c.by, c.leaf)
				e.Must(err, "run the worker's program")
				e.Check(asked == 0, "the false server was asked %d times", asked)
			}
		},
	},
}

// asks stands in for the server with a certificate, has the worker's program look
// at it, and returns how many requests came.
func asks(e *harness.Env, by *forge.Authority, leaf forge.Leaf) (int64, error) {
	pair, err := by.Sign(leaf)
	if err != nil {
		return 0, err
	}
	var requests atomic.Int64
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second, ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNotFound)
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert}))
	}()
	defer func() { _ = server.Close(); <-served }()
	cmd := exec.CommandContext(e.Context(), filepath.Join(e.Endpoint.BinDir, "glovebox-worker"), "check", "--json", "--config", e.Endpoint.Configs.Worker)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "GLOVEBOX_SERVER_URL=https://" + l.Addr().String(), "GLOVEBOX_METRICS_LISTEN=127.0.0.1:1"}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	if len(out) == 0 {
		return 0, errors.Join(os.ErrInvalid, err)
	}
	return requests.Load(), nil
}
