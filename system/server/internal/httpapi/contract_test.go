package httpapi_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"glovebox/docs"
	"glovebox/system/platform/secret"
	"glovebox/system/protocol"
	"glovebox/system/protocol/failure"
	"glovebox/system/server/internal/auth"
	authhttp "glovebox/system/server/internal/auth/adapters/http"
	"glovebox/system/server/internal/httpapi"
	"glovebox/system/server/internal/httpapi/wire"
	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/adapters/http/client"
	"glovebox/system/server/internal/jobs/adapters/http/worker"
	"glovebox/system/server/internal/jobs/domain"
	"glovebox/system/server/internal/platform/httperr"
	"glovebox/threat-model/evidence"
)

const someID = "0197f0aa-0000-7000-8000-000000000001"

// world stands behind the handlers: every service method succeeds, or fails with err.
type world struct {
	err      error // of the service
	authErr  error
	replayed bool
	empty    bool // no job to claim
	denied   bool // the worker is not on the list
	peerErr  error
	notReady bool
}

var content = []byte("the result")

func (f *world) Login(context.Context, auth.Credentials) (auth.Token, error) {
	text, _ := auth.NewMinter(secret.New(strings.Repeat("k", 32))).Mint()
	return auth.Token{Text: text, Expires: time.Now()}, f.err
}

func (f *world) Authenticate(context.Context, secret.Text) (auth.Principal, error) {
	return auth.Principal{UserID: someID, Login: "alice", CreatedAt: time.Now()}, f.authErr
}

func (f *world) Logout(context.Context, secret.Text) error { return f.err }

func (f *world) view() jobs.View {
	return jobs.View{ID: someID, AssetID: someID, Status: domain.Completed, CreatedAt: time.Now(), UpdatedAt: time.Now(), ExpiresAt: time.Now(), SHA256: sha256.Sum256(content), Size: int64(len(content))}
}

func (f *world) Submit(_ context.Context, _ jobs.Submission, body io.Reader) (jobs.Receipt, error) {
	if f.err == nil {
		if _, err := io.Copy(io.Discard, body); err != nil {
			return jobs.Receipt{}, err
		}
	}
	return jobs.Receipt{View: f.view(), Replayed: f.replayed}, f.err
}

func (f *world) Status(context.Context, string, string) (jobs.View, error) { return f.view(), f.err }

func (f *world) OpenResult(context.Context, string, string) (*jobs.ResultFile, error) {
	if f.err != nil {
		return nil, f.err
	}
	return &jobs.ResultFile{Content: seeker{bytes.NewReader(content)}, Size: int64(len(content)), SHA256: sha256.Sum256(content), FileName: "a.lua"}, nil
}

type seeker struct{ *bytes.Reader }

func (seeker) Close() error { return nil }

func (f *world) Claim(context.Context, jobs.ClaimCall) (*protocol.Assignment, error) {
	if f.err != nil || f.empty {
		return nil, f.err
	}
	return &protocol.Assignment{ID: someID, Attempt: 1, FencingToken: 1, LeaseSeconds: 30, HeartbeatSeconds: 10, InputSHA256: strings.Repeat("0", 64), TimeoutSeconds: 60, MaxResultBytes: 1}, nil
}

func (f *world) OpenInput(context.Context, domain.Fence) (*jobs.InputFile, error) {
	if f.err != nil {
		return nil, f.err
	}
	return &jobs.InputFile{Content: seeker{bytes.NewReader(content)}, Size: int64(len(content)), SHA256: sha256.Sum256(content)}, nil
}

func (f *world) Heartbeat(context.Context, domain.Fence, protocol.Saturation) (time.Duration, error) {
	return 30 * time.Second, f.err
}

func (f *world) Finish(_ context.Context, _ domain.Fence, _ [32]byte, _ domain.Provenance, body io.Reader) (jobs.View, error) {
	if f.err == nil {
		if _, err := io.Copy(io.Discard, body); err != nil {
			return jobs.View{}, err
		}
	}
	return f.view(), f.err
}

func (f *world) Fail(context.Context, domain.Fence, failure.Code, bool, string, domain.Provenance) (domain.Status, error) {
	return domain.Failed, f.err
}

// change makes one case out of a good request.
type change func(f *world, r *http.Request)

func fails(code string) change {
	return func(f *world, _ *http.Request) { f.err = &domain.Error{Code: domain.Code(code), Message: "refused"} }
}

func with(name, value string) change {
	return func(_ *world, r *http.Request) { r.Header.Set(name, value) }
}

func twice(name string) change {
	return func(_ *world, r *http.Request) { r.Header[name] = []string{"a", "b"} }
}

func breaks(_ *world, r *http.Request) {
	r.Body = io.NopCloser(iotest.ErrReader(httperr.Refuse(httperr.RequestTimeout, "slow")))
	r.ContentLength = -1
}

func large(_ *world, r *http.Request) { r.ContentLength = 1 << 40 }

var (
	crash     = change(func(f *world, _ *http.Request) { f.err = errors.New("a fault with /inner/path") })
	anonymous = change(func(_ *world, r *http.Request) { r.Header.Del("Authorization") })
	encoded   = with("Content-Encoding", "gzip")
	noPeer    = change(func(f *world, _ *http.Request) { f.peerErr = errors.New("expired") })
	denied    = change(func(f *world, _ *http.Request) { f.denied = true })
	asIngest  = change(func(_ *world, r *http.Request) { r.TLS = peerState("spiffe://glovebox/ingest/i-1") })
)

// common are the changes that have one outcome on every route of a kind.
func common(kind string, more map[string]change) map[string]change {
	all := map[string]change{"400": twice("Range"), "415": encoded, "500": crash, "503": fails("unavailable")}
	switch kind {
	case "user":
		all["401"] = anonymous
	case "worker":
		all["401"], all["403"], all["404"] = noPeer, denied, asIngest
	}
	maps.Copy(all, more)
	return all
}

// operations lists, for each operation, a good request and what changes it into
// each documented answer; "2xx" of the good request is not listed.
var operations = map[string]struct {
	body, contentType string
	cases             map[string]change
}{
	"GET /health":              {cases: map[string]change{}},
	"HEAD /health":             {cases: map[string]change{}},
	"GET /ready":               {cases: map[string]change{"503": func(f *world, _ *http.Request) { f.notReady = true }}},
	"HEAD /ready":              {cases: map[string]change{"503": func(f *world, _ *http.Request) { f.notReady = true }}},
	"GET /api/v1/openapi.yaml": {cases: map[string]change{"304": func(_ *world, r *http.Request) { r.Header.Set("If-None-Match", documentTag) }}},
	"POST /api/v1/auth/token": {`{"login":"alice","password":"x"}`, "application/json", common("", map[string]change{
		"401": fails("unauthenticated"), "408": breaks, "413": large, "429": fails("rate_limited")})},
	"DELETE /api/v1/auth/token": {cases: common("user", nil)},
	"GET /api/v1/auth/me":       {cases: common("user", map[string]change{"500": authFault(errors.New("x")), "503": authFault(httperr.Refuse(httperr.Unavailable, "x"))})},
	"POST /api/v1/jobs": {"--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--b--\r\n", "multipart/form-data; boundary=b", common("user", map[string]change{
		"200": func(f *world, _ *http.Request) { f.replayed = true }, "408": breaks, "409": fails("idempotency_in_flight"), "413": large,
		"422": fails("idempotency_mismatch"), "429": fails("limit_exceeded"), "507": fails("insufficient_storage")})},
	"GET /api/v1/jobs/{id}": {cases: common("user", map[string]change{"404": fails("not_found")})},
	"GET /api/v1/jobs/{id}/result": {cases: common("user", map[string]change{
		"206": with("Range", "bytes=0-1"), "304": with("If-None-Match", "*"), "404": fails("not_found"), "409": fails("job_not_completed"),
		"410": fails("result_expired"), "412": with("If-Match", `"x"`), "416": with("Range", "bytes=99-")})},
	"HEAD /api/v1/jobs/{id}/result": {cases: common("user", map[string]change{
		"304": with("If-None-Match", "*"), "404": fails("not_found"), "409": fails("job_not_completed"), "410": fails("result_expired"), "412": with("If-Match", `"x"`)})},
	"POST /internal/v1/jobs/claim": {`{"slots_free":1,"slots_total":1}`, "application/json", common("worker", map[string]change{
		"204": func(f *world, _ *http.Request) { f.empty = true }, "408": breaks, "409": fails("conflict"), "413": large})},
	"GET /internal/v1/jobs/{id}/input": {cases: common("worker", map[string]change{"409": fails("lease_lost")})},
	"POST /internal/v1/jobs/{id}/heartbeat": {`{"slots_free":1,"slots_total":1}`, "application/json", common("worker", map[string]change{
		"408": breaks, "409": fails("lease_lost"), "413": large})},
	"PUT /internal/v1/jobs/{id}/result": {"x", "application/octet-stream", common("worker", map[string]change{
		"408": breaks, "409": fails("conflict"), "413": large, "507": fails("insufficient_storage")})},
	"POST /internal/v1/jobs/{id}/fail": {`{"code":"invalid_input","retryable":false,"detail":"x"}`, "application/json", common("worker", map[string]change{
		"408": breaks, "409": fails("lease_lost"), "413": large, "422": fails("invalid_failure")})},
}

func authFault(err error) change { return func(f *world, _ *http.Request) { f.authErr = err } }

var documentTag = func() string {
	w := httptest.NewRecorder()
	public, _, _ := apis(&world{})
	public.ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/openapi.yaml", nil))
	return w.Header().Get("ETag")
}()

func apis(f *world) (public, internal http.Handler, routes []string) {
	log := slog.New(slog.DiscardHandler)
	errs := httperr.Responder{Log: log}
	check := httpapi.Check{Name: "all", Run: func(context.Context) error {
		if f.notReady {
			return errors.New("not ready")
		}
		return nil
	}}
	public, publicRouter := httpapi.Public(httpapi.PublicParts{
		Log: log, Errors: errs, OpenAPI: docs.OpenAPI, Health: httpapi.NewHealth(log, errs, check),
		Auth: authhttp.Handlers{Service: f, Errors: errs, Address: func(context.Context) netip.Addr { return netip.Addr{} }},
		Jobs: client.Handlers{Service: f, Errors: errs, MaxInput: 1000},
	})
	internal, internalRouter := httpapi.Internal(httpapi.InternalParts{
		Log: log, Errors: errs,
		Jobs:      worker.Handlers{Service: f, Errors: errs, MaxResult: 1000},
		CheckPeer: func(*tls.ConnectionState) error { return f.peerErr },
		Allowed:   func(context.Context, string) (bool, error) { return !f.denied, nil },
	})
	one, err := httpapi.Routes(publicRouter)
	two, err2 := httpapi.Routes(internalRouter)
	if err := errors.Join(err, err2); err != nil {
		panic(err)
	}
	return public, internal, append(one, two...)
}

func peerState(uri string) *tls.ConnectionState {
	parsed, _ := url.Parse(uri)
	return &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{URIs: []*url.URL{parsed}}}}}
}

func loadDocument(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Fatalf("the document is OpenAPI %s", doc.OpenAPI)
	}
	return doc
}

func documented(doc *openapi3.T) map[string]*openapi3.Operation {
	all := map[string]*openapi3.Operation{}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			all[method+" "+path] = operation
		}
	}
	return all
}

// TestEveryRouteIsInTheContractAndEveryEntryIsARoute compares both directions.
func TestEveryRouteIsInTheContractAndEveryEntryIsARoute(t *testing.T) {
	evidence.Proves(t, "API-08", "API-01", "API-02")
	_, _, routes := apis(&world{})
	want := slices.Sorted(maps.Keys(documented(loadDocument(t))))
	slices.Sort(routes)
	if !slices.Equal(routes, want) {
		t.Errorf("routes    %v\ndocument  %v", routes, want)
	}
}

// TestEveryAnswerIsInTheContractAndEveryEntryIsAnswered: for each operation, each
// documented status is brought about and its answer held to the document; and
// there is no case for a status that is not documented.
func TestEveryAnswerIsInTheContractAndEveryEntryIsAnswered(t *testing.T) {
	evidence.Proves(t, "API-08", "API-03", "API-07")
	for name, operation := range documented(loadDocument(t)) {
		t.Run(name, func(t *testing.T) {
			o, ok := operations[name]
			if !ok {
				t.Fatal("the operation has no cases")
			}
			seen := map[string]bool{}
			good := answer(t, name, o.body, o.contentType, nil)
			if good.StatusCode >= 300 {
				t.Fatalf("the good request is answered %d", good.StatusCode)
			}
			seen[strconv.Itoa(good.StatusCode)] = true
			conforms(t, operation, good)
			for status, c := range o.cases {
				got := answer(t, name, o.body, o.contentType, c)
				if strconv.Itoa(got.StatusCode) != status {
					t.Errorf("the case of %s is answered %d", status, got.StatusCode)
				}
				seen[strconv.Itoa(got.StatusCode)] = true
				conforms(t, operation, got)
			}
			want := slices.Sorted(maps.Keys(operation.Responses.Map()))
			if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, want) {
				t.Errorf("answers   %v\ndocument  %v", got, want)
			}
		})
	}
}

func answer(t *testing.T, name, body, contentType string, c change) *http.Response {
	t.Helper()
	f := &world{}
	method, path, _ := strings.Cut(name, " ")
	r := httptest.NewRequest(method, strings.ReplaceAll(path, "{id}", someID), strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer x")
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	r.Header.Set(protocol.HeaderRequestID, someID)
	r.Header.Set(protocol.HeaderFencingToken, "1")
	r.Header.Set(protocol.HeaderReprDigest, wire.FormatDigest(sha256.Sum256([]byte("x"))))
	r.TLS = peerState("spiffe://glovebox/worker/w-1")
	if c != nil {
		c(f, r)
	}
	public, internal, _ := apis(f)
	handler := public
	if strings.HasPrefix(path, "/internal/") {
		handler = internal
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Result()
}

// conforms holds an answer to its entry: headers that are required, their form,
// the body's type and schema; and no body where none is documented.
func conforms(t *testing.T, operation *openapi3.Operation, got *http.Response) {
	t.Helper()
	entry := operation.Responses.Status(got.StatusCode)
	if entry == nil {
		t.Errorf("status %d is not documented", got.StatusCode)
		return
	}
	for name, h := range entry.Value.Headers {
		value := got.Header.Get(name)
		if value == "" && h.Value.Required {
			t.Errorf("%d has no %s", got.StatusCode, name)
			continue
		}
		if err := h.Value.Schema.Value.VisitJSON(value, openapi3.EnableJSONSchema2020()); err != nil {
			t.Errorf("%d: header %s is %q: %v", got.StatusCode, name, value, err)
		}
	}
	body, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	kind := got.Header.Get("Content-Type")
	if operation.OperationID == "" || strings.HasSuffix(operation.OperationID, "Head") || len(entry.Value.Content) == 0 {
		if len(body) != 0 {
			t.Errorf("%d has a body: %.100q", got.StatusCode, body)
		}
		return
	}
	media := entry.Value.Content[kind]
	if media == nil {
		t.Errorf("%d has the type %q", got.StatusCode, kind)
		return
	}
	if kind != "application/json" {
		return
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		t.Fatal(err)
	}
	if err := media.Schema.Value.VisitJSON(value, openapi3.EnableJSONSchema2020()); err != nil {
		t.Errorf("%d: body %s: %v", got.StatusCode, body, err)
	}
	if bytes.Contains(body, []byte("inner")) {
		t.Errorf("%d shows the cause: %s", got.StatusCode, body)
	}
}

// TestTheProvenanceHeaderHasTheDocumentsForm: where the document takes a value of
// this header, the handlers do, and nowhere else.
func TestTheProvenanceHeaderHasTheDocumentsForm(t *testing.T) {
	evidence.Proves(t, "API-07", "API-08", "ARC-08")
	all := documented(loadDocument(t))
	for name := range operations {
		parameter := all[name].Parameters.GetByInAndName("header", protocol.HeaderProvenance)
		reports := name == "PUT /internal/v1/jobs/{id}/result" || name == "POST /internal/v1/jobs/{id}/fail"
		if (parameter != nil) != reports {
			t.Errorf("%s: the document has the header: %v", name, parameter != nil)
		}
		if parameter == nil {
			continue
		}
		if parameter.Required {
			t.Errorf("%s: the document requires the header", name)
		}
		for _, c := range []struct {
			value string
			good  bool
		}{
			{"image=sha256:00; x", true}, {"~", true}, {"any words at all, {\"json\": 1}", true}, {strings.Repeat("x", protocol.MaxProvenanceBytes), true},
			{"", false}, {strings.Repeat("x", protocol.MaxProvenanceBytes+1), false}, {"a\tb", false}, {"a\x1b[31m", false}, {"a\x7f", false},
			{"é", false}, {"a\xff", false}, {"a\nb", false}, {"a\n", false}, {"a\x00", false},
		} {
			o := operations[name]
			got := answer(t, name, o.body, o.contentType, with(protocol.HeaderProvenance, c.value))
			if (got.StatusCode == http.StatusOK) != c.good || !c.good && got.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: the value %.20q is answered %d", name, c.value, got.StatusCode)
			}
			if err := parameter.Schema.Value.VisitJSON(c.value, openapi3.EnableJSONSchema2020()); (err == nil) != c.good {
				t.Errorf("%s: the document says of %.20q: %v", name, c.value, err)
			}
			conforms(t, all[name], got)
		}
		if got := answer(t, name, operations[name].body, operations[name].contentType, twice(protocol.HeaderProvenance)); got.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: two of the header are answered %d", name, got.StatusCode)
		}
	}
}

// TestTheCodesAreTheDocuments: the table of codes and the document's list.
func TestTheCodesAreTheDocuments(t *testing.T) {
	evidence.Proves(t, "API-03")
	doc := loadDocument(t)
	enum := doc.Components.Schemas["Error"].Value.Properties["error"].Value.Properties["code"].Value.Enum
	var want []string
	for _, code := range enum {
		want = append(want, code.(string))
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(httperr.Codes())); !slices.Equal(got, want) {
		t.Errorf("table     %v\ndocument  %v", got, want)
	}
	var failures []string
	for _, code := range failure.Codes() {
		failures = append(failures, string(code))
	}
	slices.Sort(failures)
	want = nil
	for _, code := range doc.Components.Schemas["Job"].Value.Properties["error_code"].Value.Enum {
		want = append(want, code.(string))
	}
	slices.Sort(want)
	if !slices.Equal(failures, want) {
		t.Errorf("failures  %v\ndocument  %v", failures, want)
	}
}
