package traffic

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"glovebox/chaos/history"
)

// requestTime bounds one request, so that a link that went silent is left.
const requestTime = 8 * time.Second

// maxAnswer bounds an answer that is not a result.
const maxAnswer = 64 << 10

// Client is one user at one desk. It speaks HTTP itself: the product's client
// would retry and tidy, and its faults would hide the server's. Each request is
// one event of the history.
type Client struct {
	Name     string // of the desk, "alice-2"
	Login    string
	Recorder *Recorder

	http  *http.Client
	bases []string // of the servers
	token string
}

// Trust reads the authorities that a client believes.
func Trust(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return pool, nil
}

// NewClient makes a desk that calls the servers at bases.
func NewClient(name, login string, bases []string, trust *x509.CertPool, recorder *Recorder) *Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust}, MaxIdleConnsPerHost: 4, IdleConnTimeout: 10 * time.Second}
	return &Client{Name: name, Login: login, Recorder: recorder, bases: bases, http: &http.Client{Transport: transport}}
}

// Close ends the client's connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Authenticate gets a token from the first server.
func (c *Client) Authenticate(ctx context.Context, password string) error {
	body, err := json.Marshal(map[string]string{"login": c.Login, "password": password})
	if err != nil {
		return err
	}
	a, err := c.ask(ctx, 0, http.MethodPost, "/api/v1/auth/token", bytes.NewReader(body), "Content-Type", "application/json")
	if err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	var answer struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(a.body, &answer); err != nil || answer.Token == "" {
		return fmt.Errorf("log in: status %d", a.status)
	}
	c.token = answer.Token
	return nil
}

// Colleague is the same user at another desk, with the same token.
func (c *Client) Colleague(name string) *Client {
	other := *c
	other.Name = name
	other.http = &http.Client{Transport: c.http.Transport.(*http.Transport).Clone()}
	return &other
}

// Of is the same user at a desk that calls server i alone, over the same
// connections.
func (c *Client) Of(i int, name string) *Client {
	other := *c
	other.Name, other.bases = name, []string{c.bases[i%len(c.bases)]}
	return &other
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) code() string {
	var form struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	_ = json.Unmarshal(a.body, &form)
	return form.Error.Code
}

// ask sends one request to server i and reads a small answer whole.
func (c *Client) ask(ctx context.Context, i int, method, path string, body io.Reader, headers ...string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	resp, err := c.send(ctx, i, method, path, body, headers...)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return answer{resp.StatusCode, resp.Header, content}, err
}

func (c *Client) send(ctx context.Context, i int, method, path string, body io.Reader, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.bases[i%len(c.bases)]+path, body)
	if err != nil {
		return nil, err
	}
	// The standard transport repeats requests it takes for harmless by itself; each
	// must be an event of its own.
	req.GetBody = nil
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	for n := 0; n+1 < len(headers); n += 2 {
		req.Header.Set(headers[n], headers[n+1])
	}
	return c.http.Do(req)
}

// refusals are the answers by which a server says that nothing happened, and that
// a friendly user may meet. Whatever else comes with 4xx is a surprise.
var refusals = map[history.Op][]string{
	history.Submit:   {"idempotency_in_flight", "rate_limited", "limit_exceeded", "overloaded", "insufficient_storage"},
	history.Download: {"job_not_completed", "result_expired"},
}

// settle fills in how the request of e ended.
func (c *Client) settle(e history.Event, a answer, err error) history.Event {
	code := a.code()
	switch {
	case err != nil:
		e.Outcome = history.Maybe
	case a.status < 300:
		e.Outcome = history.OK
	case slices.Contains(refusals[e.Op], code):
		e.Outcome, e.Refusal = history.Refused, code
	case a.status >= 500:
		e.Outcome = history.Maybe
	default:
		e.Outcome, e.Refusal = history.Refused, code
		c.Recorder.Surprise(fmt.Sprintf("%s: %s was answered %d %s", c.Name, e.String(), a.status, code))
	}
	if e.Outcome != history.Maybe {
		e.Return = c.Recorder.Now()
	}
	return e
}

func (c *Client) begin(op history.Op) history.Event {
	return history.Event{Op: op, Caller: c.Name, User: c.Login, Call: c.Recorder.Now()}
}

type jobAnswer struct {
	ID        string `json:"id"`
	Status    string `json:"status"`
	ErrorCode string `json:"error_code"`
}

// Submit sends the file to server i once, under the key.
func (c *Client) Submit(ctx context.Context, i int, file File, key string) history.Event {
	e := c.begin(history.Submit)
	e.Key, e.Digest = key, file.Sent
	const boundary = "a-boundary-that-stands-in-no-file"
	form := bytes.Join([][]byte{
		[]byte("--" + boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + file.Name + "\"\r\n\r\n"),
		file.Content, []byte("\r\n--" + boundary + "--\r\n"),
	}, nil)
	a, err := c.ask(ctx, i, http.MethodPost, "/api/v1/jobs", bytes.NewReader(form), "Content-Type", "multipart/form-data; boundary="+boundary, "Idempotency-Key", key)
	e = c.settle(e, a, err)
	if e.Outcome == history.OK {
		var job jobAnswer
		if err := json.Unmarshal(a.body, &job); err != nil || job.ID == "" {
			c.Recorder.Surprise(fmt.Sprintf("%s: a submission was acknowledged without an id: %q", c.Name, a.body))
		}
		e.Job, e.Status = job.ID, job.Status
	}
	c.Recorder.Add(e)
	return e
}

// Status asks server i for the job once.
func (c *Client) Status(ctx context.Context, i int, id string) history.Event {
	e := c.begin(history.Status)
	e.Job = id
	a, err := c.ask(ctx, i, http.MethodGet, "/api/v1/jobs/"+id, nil)
	e = c.settle(e, a, err)
	if e.Outcome == history.OK {
		var job jobAnswer
		if err := json.Unmarshal(a.body, &job); err != nil || job.ID != id {
			c.Recorder.Surprise(fmt.Sprintf("%s: the status of %s is %q", c.Name, id, a.body))
		}
		e.Status, e.Code = job.Status, job.ErrorCode
	}
	c.Recorder.Add(e)
	return e
}

// Download fetches the result from server i once, to its last byte.
func (c *Client) Download(ctx context.Context, i int, id, want string) history.Event {
	e := c.begin(history.Download)
	e.Job, e.Want = id, want
	ctx, cancel := context.WithTimeout(ctx, 3*requestTime)
	defer cancel()
	resp, err := c.send(ctx, i, http.MethodGet, "/api/v1/jobs/"+id+"/result", nil)
	if err != nil {
		e = c.settle(e, answer{}, err)
		c.Recorder.Add(e)
		return e
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		content, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		e = c.settle(e, answer{resp.StatusCode, resp.Header, content}, err)
		c.Recorder.Add(e)
		return e
	}
	hash := sha256.New()
	// A body shorter than announced is an error of the copy, so a whole one is what
	// the server took for the result.
	_, err = io.Copy(hash, resp.Body)
	e = c.settle(e, answer{status: resp.StatusCode}, err)
	if e.Outcome == history.OK {
		e.Digest = hex.EncodeToString(hash.Sum(nil))
	}
	c.Recorder.Add(e)
	return e
}

// Ready asks server i whether it takes work; it is no part of the history.
func (c *Client) Ready(ctx context.Context, i int) error {
	a, err := c.ask(ctx, i, http.MethodGet, "/ready", nil)
	if err != nil {
		return err
	}
	if a.status != http.StatusOK {
		return fmt.Errorf("server %d answers /ready with %d: %s", i, a.status, a.body)
	}
	return nil
}
