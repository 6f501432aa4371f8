package harness

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Spare workers are on the server's list and run nowhere: a case may be one of
// them. Outsider has a certificate of the right authority and stands on no list.
const (
	Spare1   = "spare-1"
	Spare2   = "spare-2"
	Outsider = "outsider"
)

// Worker speaks the internal API with a certificate, as a hostile worker would.
type Worker struct {
	ID     string
	e      *Env
	client *http.Client
}

// Assignment is a claim's answer.
type Assignment struct {
	ID           string `json:"id"`
	Attempt      int    `json:"attempt"`
	FencingToken int64  `json:"fencing_token"`
	LeaseSeconds int    `json:"lease_seconds"`
	InputSize    int64  `json:"input_size"`
	InputSHA256  string `json:"input_sha256"`
	MaxResult    int64  `json:"max_result_bytes"`
}

// Worker returns a client of the internal API with the named certificate.
func (e *Env) Worker(id string) *Worker {
	config, err := e.InternalTLS(id)
	e.Must(err, "be the worker %s", id)
	return e.WorkerWith(id, config)
}

// WorkerWith is Worker with a TLS configuration of the case's choosing.
func (e *Env) WorkerWith(id string, config *tls.Config) *Worker {
	transport := &http.Transport{
		TLSClientConfig: config,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return e.DialTCP(ctx, address)
		},
	}
	e.Cleanup(func(context.Context) error { transport.CloseIdleConnections(); return nil })
	return &Worker{ID: id, e: e, client: &http.Client{Transport: transport, Timeout: 40 * time.Second}}
}

// Call makes a request of the internal API; header are "Name: value" lines. The
// error is the transport's, such as a refused handshake.
func (w *Worker) Call(method, path string, body []byte, header ...string) (Answer, error) {
	return w.CallAt(0, method, path, body, header...)
}

// CallAt is Call to one of several servers.
func (w *Worker) CallAt(server int, method, path string, body []byte, header ...string) (Answer, error) {
	req, err := http.NewRequestWithContext(w.e.ctx, method, "https://"+w.e.Internal(server)+path, bytes.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	for _, line := range header {
		name, value, _ := bytes.Cut([]byte(line), []byte(": "))
		req.Header[http.CanonicalHeaderKey(string(name))] = append(req.Header[http.CanonicalHeaderKey(string(name))], string(value))
	}
	began := time.Now()
	w.e.tape.record("> " + w.ID + ": " + method + " " + path + "\n> " + clip(string(body), tapeEntry))
	resp, err := w.client.Do(req)
	if err != nil {
		w.e.tape.record("< " + err.Error())
		return Answer{}, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	a := Answer{resp.StatusCode, resp.Header, content, resp.Proto, resp.Close, time.Since(began)}
	w.e.tape.record("< " + a.transcript())
	return a, err
}

// Must is Call that ends the case where there is no answer.
func (w *Worker) Must(method, path string, body []byte, header ...string) Answer {
	a, err := w.Call(method, path, body, header...)
	w.e.Must(err, "%s: %s %s", w.ID, method, path)
	return a
}

// JSONType is the Content-Type line of JSON.
const JSONType = "Content-Type: application/json"

// Slots is the body of a claim or heartbeat.
var Slots = []byte(`{"slots_free":1,"slots_total":1}`)

// UUID makes a random id in the canonical form.
func UUID() string {
	h := RandomHex(16)
	return fmt.Sprintf("%s-%s-4%s-8%s-%s", h[:8], h[8:12], h[13:16], h[17:20], h[20:])
}

// Claim asks for a job; nil when there is none.
func (w *Worker) Claim() *Assignment {
	a := w.Must(http.MethodPost, "/internal/v1/jobs/claim?wait=0s", Slots, JSONType, "Glovebox-Request-Id: "+UUID())
	if a.Status == http.StatusNoContent {
		return nil
	}
	if a.Status != http.StatusOK {
		w.e.Fail("claim as %s: %s", w.ID, a.Brief())
	}
	var got Assignment
	w.e.JSON(a, &got)
	return &got
}

// ClaimJob claims until it has the job; others that stand before it are handed
// back. Cases that claim hold the lock "queue" and run in Quiet.
func (w *Worker) ClaimJob(id string) *Assignment {
	var got *Assignment
	var others []*Assignment
	w.e.Await(20*time.Second, func() bool {
		if got = w.Claim(); got != nil && got.ID != id {
			others = append(others, got)
			got = nil
		}
		return got != nil
	})
	for _, o := range others {
		w.Fail(o, "worker_shutdown", true)
	}
	if got == nil {
		w.e.Fail("the job %s was not given out", id)
	}
	return got
}

// Fenced is the header line of the assignment's token.
func (a *Assignment) Fenced() string {
	return "Glovebox-Fencing-Token: " + strconv.FormatInt(a.FencingToken, 10)
}

// Path is the path of an operation on the assignment's job: "input", "result".
func (a *Assignment) Path(operation string) string {
	return "/internal/v1/jobs/" + a.ID + "/" + operation
}

// Finish puts content as the result.
func (w *Worker) Finish(a *Assignment, content []byte) Answer {
	return w.Must(http.MethodPut, a.Path("result"), content, a.Fenced(), "Repr-Digest: "+Digest(content), "Content-Type: application/octet-stream")
}

// Fail reports a failure.
func (w *Worker) Fail(a *Assignment, code string, retryable bool) Answer {
	body, err := json.Marshal(map[string]any{"code": code, "retryable": retryable})
	w.e.Must(err, "write a failure")
	return w.Must(http.MethodPost, a.Path("fail"), body, a.Fenced(), JSONType)
}
