package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	platform "glovebox/system/platform/config"
	"glovebox/system/platform/logging"
	"glovebox/system/platform/pki"
	"glovebox/system/platform/pki/pkitest"
	"glovebox/system/platform/secret"
	"glovebox/system/protocol"
	"glovebox/system/server/internal/auth"
	"glovebox/system/server/internal/config"
	"glovebox/system/server/internal/httpapi/wire"
	"glovebox/system/server/internal/users"
	userstore "glovebox/system/server/internal/users/adapters/postgres"
	"glovebox/system/testdb"
)

// installation is what several servers of one test share: a database, a storage,
// keys, users. Everything is real.
type installation struct {
	t       *testing.T
	db      *testdb.Database
	admin   *pgxpool.Pool
	pki     *pkitest.Installation
	storage string
	secret  secret.Text
	logs    *syncBuffer
	users   *users.Service
}

// server is one serving process of an installation, in this process.
type server struct {
	*installation
	main   *Main
	cancel context.CancelFunc
	ended  chan error
	once   sync.Once
}

// syncBuffer collects the log of a test.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func install(t *testing.T) *installation {
	t.Helper()
	db := testdb.New(t)
	in := &installation{
		t: t, db: db, admin: db.Pool(t, testdb.Admin), pki: pkitest.New(t), storage: filepath.Join(t.TempDir(), "storage"),
		secret: secret.New(randomHex(32)), logs: &syncBuffer{},
	}
	in.users = users.NewService(userstore.New(db.Pool(t, testdb.Operator)), auth.NewHasher(cheap, 4, time.Minute))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", tail(in.logs.String(), 6000))
		}
	})
	return in
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// cheap are the least costs that configuration allows.
var cheap = auth.Params{Time: 1, MemoryKiB: 8 << 10, Threads: 1}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// start runs a server with defaults that edit may change.
func (in *installation) start(edit func(*config.Config)) *server {
	in.t.Helper()
	c := config.Defaults()
	c.Listen.Public, c.Listen.Internal, c.Metrics.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	c.TLS.PublicCert, c.TLS.PublicKey = in.pki.PublicServer()
	c.TLS.InternalCert, c.TLS.InternalKey = in.pki.InternalServer()
	c.TLS.InternalClientCA = in.pki.Bundle(pki.Internal)
	c.Database.URL = in.db.URL(testdb.ServerRole)
	c.Database.MaxConns = 16
	c.Auth.TokenSecret = in.secret
	c.Auth.Argon2Time, c.Auth.Argon2Memory = int(cheap.Time), platform.Bytes(cheap.MemoryKiB<<10)
	c.Storage.Root = in.storage
	c.Limits.MinFreeBytes = 0
	c.Jobs.ClaimPoll = platform.Duration(100 * time.Millisecond)
	c.HTTP.ShutdownGrace = platform.Duration(5 * time.Second)
	if edit != nil {
		edit(c)
	}
	if problems := c.Validate(); len(problems) > 0 {
		in.t.Fatal(problems)
	}
	level, _ := logging.ParseLevel("debug")
	m := NewMain(nil)
	m.Config, m.Log = c, logging.New(in.logs, "server", level)
	if err := m.Open(in.t.Context()); err != nil {
		_ = m.Close()
		in.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{installation: in, main: m, cancel: cancel, ended: make(chan error, 1)}
	go func() { s.ended <- m.Run(ctx) }()
	in.t.Cleanup(s.stop)
	return s
}

// stop ends the server as a signal does and waits for its end.
func (s *server) stop() {
	s.once.Do(func() {
		s.cancel()
		if err := <-s.ended; err != nil {
			s.t.Errorf("the server ended with: %v", err)
		}
		if err := s.main.Close(); err != nil {
			s.t.Errorf("close: %v", err)
		}
	})
}

func startOne(t *testing.T, edit func(*config.Config)) *server {
	t.Helper()
	return install(t).start(edit)
}

func (s *server) publicURL(path string) string {
	return "https://" + s.main.PublicAddr().String() + path
}
func (s *server) internalURL(path string) string {
	return "https://" + s.main.InternalAddr().String() + path
}

// tlsPublic is how a user's program connects.
func (in *installation) tlsPublic(protocols ...string) *tls.Config {
	return &tls.Config{RootCAs: in.pki.Pool(pki.Public), ServerName: "127.0.0.1", NextProtos: protocols, MinVersion: tls.VersionTLS12}
}

// tlsWorker is how a worker connects with the given certificate.
func (in *installation) tlsWorker(cert, key string) *tls.Config {
	in.t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		in.t.Fatal(err)
	}
	return &tls.Config{RootCAs: in.pki.Pool(pki.Internal), ServerName: "127.0.0.1", Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
}

// caller makes requests with one identity.
type caller struct {
	t     *testing.T
	base  func(path string) string
	http  *http.Client
	token string
}

func (in *installation) client(config *tls.Config, http2 bool) *http.Client {
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: http2, MaxIdleConnsPerHost: 64}
	in.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 2 * time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// anonymous calls the public API without a token.
func (s *server) anonymous() *caller {
	return &caller{t: s.t, base: s.publicURL, http: s.client(s.tlsPublic(), false)}
}

const password = "correct horse battery staple"

// user adds a user and logs it in.
func (s *server) user(login string) *caller {
	s.t.Helper()
	if _, err := s.users.Add(s.t.Context(), login, secret.New(password)); err != nil {
		s.t.Fatal(err)
	}
	return s.login(login)
}

func (s *server) login(login string) *caller {
	s.t.Helper()
	c := s.anonymous()
	r := c.json("POST", "/api/v1/auth/token", map[string]string{"login": login, "password": password})
	var answer struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	r.want(http.StatusOK).decode(&answer)
	c.token = answer.Token
	return c
}

// worker calls the internal API as a worker on the allow-list.
func (s *server) worker(id string) *caller {
	s.t.Helper()
	s.allow(id)
	return s.peer(s.pki.Worker(id))
}

func (in *installation) allow(id string) {
	in.t.Helper()
	if _, err := in.admin.Exec(in.t.Context(), `INSERT INTO app.workers (id) VALUES ($1) ON CONFLICT (id) DO UPDATE SET removed_at = NULL`, id); err != nil {
		in.t.Fatal(err)
	}
}

func (s *server) peer(cert, key string) *caller {
	s.t.Helper()
	return &caller{t: s.t, base: s.internalURL, http: s.client(s.tlsWorker(cert, key), false)}
}

// answer is a response read to its end.
type answer struct {
	*http.Response
	t    *testing.T
	body []byte
	err  error // of the body
}

type option func(*http.Request)

func header(name, value string) option {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

func length(n int64) option { return func(r *http.Request) { r.ContentLength = n } }

func (c *caller) request(method, path string, body io.Reader, options ...option) *http.Request {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.base(path), body)
	if err != nil {
		c.t.Fatal(err)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	for _, o := range options {
		o(req)
	}
	return req
}

func (c *caller) do(method, path string, body io.Reader, options ...option) *answer {
	c.t.Helper()
	a, err := c.try(method, path, body, options...)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

func (c *caller) try(method, path string, body io.Reader, options ...option) (*answer, error) {
	res, err := c.http.Do(c.request(method, path, body, options...))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	a := &answer{Response: res, t: c.t}
	a.body, a.err = io.ReadAll(res.Body)
	return a, nil
}

func (c *caller) get(path string, options ...option) *answer {
	c.t.Helper()
	return c.do("GET", path, nil, options...)
}

func (c *caller) json(method, path string, body any, options ...option) *answer {
	c.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.do(method, path, bytes.NewReader(text), append([]option{header("Content-Type", "application/json")}, options...)...)
}

func (a *answer) want(status int) *answer {
	a.t.Helper()
	if a.StatusCode != status {
		a.t.Fatalf("%s %s: status %d, want %d; body: %s", a.Request.Method, a.Request.URL.Path, a.StatusCode, status, tail(string(a.body), 300))
	}
	return a
}

// refused requires the one error form with this status and code.
func (a *answer) refused(status int, code string) *answer {
	a.t.Helper()
	a.want(status)
	if a.Request.Method == http.MethodHead {
		return a
	}
	var form protocol.Error
	dec := json.NewDecoder(bytes.NewReader(a.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&form); err != nil || form.Error.Code != code || form.Error.Message == "" {
		a.t.Fatalf("%s %s: body %q, want the error form with code %s (%v)", a.Request.Method, a.Request.URL.Path, a.body, code, err)
	}
	if kind := a.Header.Get("Content-Type"); kind != "application/json" {
		a.t.Errorf("the error has content type %q", kind)
	}
	return a
}

func (a *answer) decode(v any) {
	a.t.Helper()
	dec := json.NewDecoder(bytes.NewReader(a.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		a.t.Fatalf("decode %q: %v", a.body, err)
	}
}

// job is the public form of a job, as INTERFACES has it.
type job struct {
	ID          string `json:"id"`
	AssetID     string `json:"asset_id"`
	Status      string `json:"status"`
	CreatedAt   string `json:"created_at"`
	UpdatedAt   string `json:"updated_at"`
	ExpiresAt   string `json:"expires_at"`
	ErrorCode   string `json:"error_code"`
	ErrorDetail string `json:"error_detail"`
	SHA256      string `json:"sha256"`
	Size        *int64 `json:"size"`
}

func (a *answer) job() job {
	a.t.Helper()
	var j job
	a.decode(&j)
	return j
}

// form is a multipart body with one file.
func form(name string, content []byte) (body *bytes.Buffer, contentType option) {
	body = &bytes.Buffer{}
	w := multipart.NewWriter(body)
	part, _ := w.CreateFormFile("file", name) // a buffer does not fail
	_, _ = part.Write(content)
	_ = w.Close()
	return body, header("Content-Type", w.FormDataContentType())
}

func (c *caller) upload(name string, content []byte, options ...option) *answer {
	c.t.Helper()
	body, kind := form(name, content)
	return c.do("POST", "/api/v1/jobs", body, append(options, kind)...)
}

func (c *caller) submit(content []byte) job {
	c.t.Helper()
	return c.upload("a.lua", content).want(http.StatusCreated).job()
}

func (c *caller) status(id string) job {
	c.t.Helper()
	return c.get("/api/v1/jobs/" + id).want(http.StatusOK).job()
}

var twoSlots = protocol.Saturation{SlotsFree: 1, SlotsTotal: 2}

func (c *caller) tryClaim(wait string, options ...option) *answer {
	c.t.Helper()
	options = append([]option{header(protocol.HeaderRequestID, uuid.NewString())}, options...)
	return c.json("POST", protocol.PathClaim+"?wait="+wait, twoSlots, options...)
}

func (c *caller) claim() protocol.Assignment {
	c.t.Helper()
	var a protocol.Assignment
	c.tryClaim("10s").want(http.StatusOK).decode(&a)
	return a
}

func attemptPath(pattern, id string) string { return strings.Replace(pattern, "{id}", id, 1) }

func fenced(token int64) option { return header(protocol.HeaderFencingToken, fmt.Sprint(token)) }

func digestOf(content []byte) string { return wire.FormatDigest(sha256.Sum256(content)) }

func (c *caller) finish(a protocol.Assignment, content []byte, options ...option) *answer {
	c.t.Helper()
	options = append([]option{fenced(a.FencingToken), header(protocol.HeaderReprDigest, digestOf(content))}, options...)
	return c.do("PUT", attemptPath(protocol.PathResult, a.ID), bytes.NewReader(content), options...)
}

// completed submits as user and lets worker complete it.
func completed(user, worker *caller, input, result []byte) job {
	user.t.Helper()
	j := user.submit(input)
	a := worker.claim()
	if a.ID != j.ID {
		user.t.Fatalf("claimed %s, want %s", a.ID, j.ID)
	}
	worker.finish(a, result).want(http.StatusOK)
	return user.status(j.ID)
}

// nothingStored requires that storage holds exactly n objects and no temporary file.
func (in *installation) nothingStored(n int) {
	in.t.Helper()
	objects, _ := filepath.Glob(filepath.Join(in.storage, "objects", "*", "*"))
	temporary, _ := filepath.Glob(filepath.Join(in.storage, "tmp", "*"))
	if len(objects) != n || len(temporary) != 0 {
		in.t.Errorf("storage holds %d objects and %d temporary files, want %d and none", len(objects), len(temporary), n)
	}
}

// count runs a query that gives one number.
func (in *installation) count(query string, args ...any) (n int) {
	in.t.Helper()
	if err := in.admin.QueryRow(in.t.Context(), query, args...).Scan(&n); err != nil {
		in.t.Fatal(err)
	}
	return n
}

// eventually waits for a condition that another process brings about; it looks
// again whenever that may have happened.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
		<-tick.C
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
