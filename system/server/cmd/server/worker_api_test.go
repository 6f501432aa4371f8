package main

import (
	"bytes"
	"crypto/tls"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	platform "glovebox/system/platform/config"
	"glovebox/system/platform/pki/pkitest"
	"glovebox/system/protocol"
	"glovebox/system/server/internal/config"
	"glovebox/threat-model/evidence"
)

func TestAWorkerWithoutAValidCertificateIsRefused(t *testing.T) {
	evidence.Proves(t, "MTL-01")
	s := startOne(t, nil)
	s.allow("w-1")
	dial := func(config *tls.Config) error {
		c := &caller{t: t, base: s.internalURL, http: s.client(config, false)}
		_, err := c.try("POST", protocol.PathClaim, strings.NewReader("{}"))
		return err
	}
	none := s.tlsWorker(s.pki.Worker("w-1"))
	none.Certificates = nil
	foreign := s.tlsWorker(pkitest.New(t).Worker("w-1"))
	expired := s.tlsWorker(s.pki.At(time.Now().Add(-400 * 24 * time.Hour)).Worker("w-1"))
	serverCert := s.tlsWorker(s.pki.InternalServer())
	public := s.tlsWorker(s.pki.PublicServer())
	old := s.tlsWorker(s.pki.Worker("w-1"))
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	for name, config := range map[string]*tls.Config{
		"no certificate": none, "a foreign authority's": foreign, "an expired one": expired, "the server's own": serverCert,
		"the public authority's": public, "TLS 1.1": old,
	} {
		if err := dial(config); err == nil {
			t.Errorf("%s: the connection was taken", name)
		}
	}
	if err := dial(s.tlsWorker(s.pki.Worker("w-1"))); err != nil {
		t.Fatalf("control: %v", err)
	}
}

func TestAWorkerThatIsNotAllowedIsRefused(t *testing.T) {
	evidence.Proves(t, "MTL-02")
	s := startOne(t, nil)
	s.peer(s.pki.Worker("w-2")).tryClaim("0s").refused(http.StatusForbidden, "worker_not_allowed")
}

// TestRemovalOfAWorkerActsOnOpenConnections uses one connection throughout, in the
// middle of an attempt.
func TestRemovalOfAWorkerActsOnOpenConnections(t *testing.T) {
	evidence.Proves(t, "MTL-02")
	s := startOne(t, nil)
	alice, w := s.user("alice"), s.worker("w-1")
	j := alice.submit([]byte("x"))
	a := w.claim()
	if _, err := s.admin.Exec(t.Context(), `UPDATE app.workers SET removed_at = now() WHERE id = 'w-1'`); err != nil {
		t.Fatal(err)
	}
	w.get(attemptPath(protocol.PathInput, a.ID), fenced(a.FencingToken)).refused(http.StatusForbidden, "worker_not_allowed")
	w.json("POST", attemptPath(protocol.PathHeartbeat, a.ID), twoSlots, fenced(a.FencingToken)).refused(http.StatusForbidden, "worker_not_allowed")
	w.finish(a, []byte("result")).refused(http.StatusForbidden, "worker_not_allowed")
	w.json("POST", attemptPath(protocol.PathFail, a.ID), protocol.FailureReport{Code: "invalid_input"}, fenced(a.FencingToken)).refused(http.StatusForbidden, "worker_not_allowed")
	w.tryClaim("0s").refused(http.StatusForbidden, "worker_not_allowed")
	if got := alice.status(j.ID).Status; got != "processing" {
		t.Errorf("the job is %s", got)
	}
	s.nothingStored(1)
}

func TestTheTwoAPIsDoNotOpenForEachOther(t *testing.T) {
	evidence.Proves(t, "MTL-03", "MTL-06")
	s := startOne(t, nil)
	alice, w := s.user("alice"), s.worker("w-1")

	// A worker's certificate on the public API is nothing, with or without its routes.
	onPublic := &caller{t: t, base: s.publicURL, http: s.client(func() *tls.Config {
		c := s.tlsPublic()
		c.Certificates = s.tlsWorker(s.pki.Worker("w-1")).Certificates
		return c
	}(), false)}
	for _, route := range protected {
		onPublic.do(route.method, route.path, nil).refused(http.StatusUnauthorized, "unauthenticated")
	}
	onPublic.tryClaim("0s").refused(http.StatusNotFound, "not_found")
	// A user's token on the internal API is nothing: without a certificate there is
	// no connection, and with one the token changes nothing.
	userOnInternal := &caller{t: t, base: s.internalURL, token: alice.token, http: s.client(func() *tls.Config {
		c := s.tlsWorker(s.pki.Worker("w-1"))
		c.Certificates = nil
		return c
	}(), false)}
	if _, err := userOnInternal.try("GET", "/api/v1/auth/me", nil); err == nil {
		t.Error("a user reached the internal API")
	}
	w.token = alice.token
	for _, route := range protected {
		w.do(route.method, route.path, nil).refused(http.StatusNotFound, "not_found")
	}
	// An ingest certificate sees none of the worker's routes, a worker none of ingest's.
	ingest := s.peer(s.pki.Ingest("i-1"))
	unknown := ingest.get("/internal/v1/no-such-route").refused(http.StatusNotFound, "not_found")
	for _, route := range internalRoutes {
		got := ingest.do(route.method, attemptPath(route.path, "0197f0aa-0000-7000-8000-000000000001"), strings.NewReader("{}"), header("Content-Type", "application/json")).refused(http.StatusNotFound, "not_found")
		if !bytes.Equal(got.body, unknown.body) {
			t.Errorf("%s tells the ingest that it exists: %s", route.path, got.body)
		}
	}
	ingest.get(protocol.PathClaim).refused(http.StatusNotFound, "not_found") // not 405
	w.do("POST", "/internal/v1/ingest/assets", strings.NewReader("{}")).refused(http.StatusNotFound, "not_found")
}

var internalRoutes = []struct{ method, path string }{
	{"POST", protocol.PathClaim}, {"GET", protocol.PathInput}, {"POST", protocol.PathHeartbeat}, {"PUT", protocol.PathResult}, {"POST", protocol.PathFail},
}

// fencedRequests are the four requests about an attempt.
func fencedRequests(w *caller, a protocol.Assignment, options ...option) map[string]*answer {
	w.t.Helper()
	result := []byte("a stale result")
	json := header("Content-Type", "application/json")
	return map[string]*answer{
		"input":     w.do("GET", attemptPath(protocol.PathInput, a.ID), nil, options...),
		"heartbeat": w.do("POST", attemptPath(protocol.PathHeartbeat, a.ID), strings.NewReader(`{"slots_free":0,"slots_total":1}`), append(options, json)...),
		"result":    w.do("PUT", attemptPath(protocol.PathResult, a.ID), bytes.NewReader(result), append(options, header(protocol.HeaderReprDigest, digestOf(result)))...),
		"fail":      w.do("POST", attemptPath(protocol.PathFail, a.ID), strings.NewReader(`{"code":"invalid_input","retryable":false,"detail":""}`), append(options, json)...),
	}
}

// TestResultsFromAnybodyButTheHolderAreRefused: not assigned, an old token, a
// future one, a lease that ran out but was not yet taken back, a finished job.
func TestResultsFromAnybodyButTheHolderAreRefused(t *testing.T) {
	evidence.Proves(t, "MTL-04", "JOB-03", "JOB-08")
	s := startOne(t, func(c *config.Config) { c.Jobs.ExpiryInterval = platform.Duration(time.Minute) })
	alice, w, other := s.user("alice"), s.worker("w-1"), s.worker("w-2")
	j := alice.submit([]byte("x"))
	allLost := func(what string, w *caller, a protocol.Assignment) {
		t.Helper()
		for name, got := range fencedRequests(w, a, fenced(a.FencingToken)) {
			t.Log(what, name)
			got.refused(http.StatusConflict, "lease_lost")
		}
		s.nothingStored(s.count(`SELECT count(*) + count(result_key) FROM app.jobs`))
	}
	allLost("a pending job", w, protocol.Assignment{ID: j.ID, FencingToken: 1})
	a := w.claim()
	allLost("another worker", other, a)
	allLost("a future token", w, protocol.Assignment{ID: a.ID, FencingToken: a.FencingToken + 1})
	allLost("a job that is not there", w, protocol.Assignment{ID: uuid.NewString(), FencingToken: 1})
	allLost("an id that is none", w, protocol.Assignment{ID: "not-an-id", FencingToken: 1})
	allLost("the owner's id in upper case", w, protocol.Assignment{ID: strings.ToUpper(a.ID), FencingToken: a.FencingToken})

	s.expire(a.ID)
	allLost("a lease that ran out and was not taken back", w, a)
	s.main.expireNow(t)
	second := other.claimAfterBackoff(s, j.ID)
	if second.FencingToken != a.FencingToken+1 || second.Attempt != 2 {
		t.Fatalf("second assignment %+v", second)
	}
	allLost("a reassigned job", w, a)
	allLost("the new worker with the old token", other, a)
	other.finish(second, []byte("good")).want(http.StatusOK)
	allLost("a finished job, by the worker that lost it", w, a)
	if got := alice.get("/api/v1/jobs/" + j.ID + "/result").want(http.StatusOK); string(got.body) != "good" {
		t.Fatalf("the result is %q", got.body)
	}
}

// expire lets the lease of a job run out, by the database's clock.
func (in *installation) expire(id string) {
	in.t.Helper()
	if _, err := in.admin.Exec(in.t.Context(), `UPDATE app.jobs SET lease_expires_at = now() - interval '1 second' WHERE id = $1`, id); err != nil {
		in.t.Fatal(err)
	}
}

func (m *Main) expireNow(t *testing.T) {
	t.Helper()
	if _, err := m.service.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// claimAfterBackoff claims a job whose retry is due.
func (c *caller) claimAfterBackoff(s *server, id string) protocol.Assignment {
	c.t.Helper()
	if _, err := s.admin.Exec(c.t.Context(), `UPDATE app.jobs SET next_attempt_at = now() WHERE id = $1`, id); err != nil {
		c.t.Fatal(err)
	}
	return c.claim()
}

func TestAJobWhoseLeaseRanOutGoesBackToPendingAndFailsInTheEnd(t *testing.T) {
	evidence.Proves(t, "JOB-06")
	s := startOne(t, nil)
	alice, w := s.user("alice"), s.worker("w-1")
	j := alice.submit([]byte("x"))
	for attempt := 1; attempt <= 3; attempt++ {
		a := w.claimAfterBackoff(s, j.ID)
		if a.Attempt != attempt {
			t.Fatalf("attempt %d, want %d", a.Attempt, attempt)
		}
		s.expire(j.ID)
		want := "pending"
		if attempt == 3 {
			want = "failed"
		}
		eventually(t, 10*time.Second, "the expiry loop takes the job back", func() bool { return alice.status(j.ID).Status == want })
	}
	if got := alice.status(j.ID); got.ErrorCode != "attempts_exhausted" {
		t.Fatalf("job: %+v", got)
	}
}

func TestTheFencingTokenHasOneForm(t *testing.T) {
	evidence.Proves(t, "MTL-04", "API-07")
	s := startOne(t, nil)
	alice, w := s.user("alice"), s.worker("w-1")
	alice.submit([]byte("x"))
	a := w.claim()
	for _, bad := range []string{"", "0", "01", "+1", "-1", "1.0", "1e0", "0x1", " ", "1,1", "1 1", "٣", strconv.FormatUint(math.MaxInt64+1, 10), strings.Repeat("9", 400)} {
		for _, got := range fencedRequests(w, a, header(protocol.HeaderFencingToken, bad)) {
			got.refused(http.StatusBadRequest, "invalid_request")
		}
	}
	for _, got := range fencedRequests(w, a) { // none
		got.refused(http.StatusBadRequest, "invalid_request")
	}
	for _, got := range fencedRequests(w, a, fenced(a.FencingToken), fenced(a.FencingToken)) { // two
		got.refused(http.StatusBadRequest, "invalid_request")
	}
	for _, got := range fencedRequests(w, a, header(protocol.HeaderFencingToken, strconv.FormatInt(math.MaxInt64, 10))) {
		got.refused(http.StatusConflict, "lease_lost")
	}
}

func TestClaimHasOneForm(t *testing.T) {
	evidence.Proves(t, "API-07", "JOB-04")
	s := startOne(t, nil)
	alice, w := s.user("alice"), s.worker("w-1")
	for _, wait := range []string{"", "x", "-1s", "5", "1s&wait=2s", "1s;", "%zz", "999999999999h"} {
		w.json("POST", protocol.PathClaim+"?wait="+wait, twoSlots, header(protocol.HeaderRequestID, uuid.NewString())).refused(http.StatusBadRequest, "invalid_request")
	}
	for _, id := range []string{"", "x", "0197f0aa00007000800000000000001", "{0197f0aa-0000-7000-8000-000000000001}", "urn:uuid:0197f0aa-0000-7000-8000-000000000001"} {
		w.json("POST", protocol.PathClaim, twoSlots, header(protocol.HeaderRequestID, id)).refused(http.StatusBadRequest, "invalid_request")
	}
	w.json("POST", protocol.PathClaim, twoSlots).refused(http.StatusBadRequest, "invalid_request")
	w.json("POST", protocol.PathClaim, twoSlots, header(protocol.HeaderRequestID, uuid.NewString()), header(protocol.HeaderRequestID, uuid.NewString())).refused(http.StatusBadRequest, "invalid_request")
	for _, body := range []string{`{}`, `{"slots_free":1}`, `{"slots_free":2,"slots_total":1}`, `{"slots_free":-1,"slots_total":1}`, `{"slots_free":1,"slots_total":1,"worker_id":"w-2"}`, `{"slots_free":0.5,"slots_total":1}`, `{"slots_free":1,"slots_total":99999}`} {
		w.do("POST", protocol.PathClaim, strings.NewReader(body), header("Content-Type", "application/json"), header(protocol.HeaderRequestID, uuid.NewString())).refused(http.StatusBadRequest, "invalid_request")
	}

	// The same request again: the same assignment while its lease lives, then 409.
	j := alice.submit([]byte("x"))
	alice.submit([]byte("y"))
	id := header(protocol.HeaderRequestID, uuid.NewString())
	var first, again protocol.Assignment
	w.json("POST", protocol.PathClaim+"?wait=1h", twoSlots, id).want(http.StatusOK).decode(&first)
	w.json("POST", protocol.PathClaim, twoSlots, id).want(http.StatusOK).decode(&again)
	if first != again || first.ID != j.ID {
		t.Fatalf("assignments %+v and %+v", first, again)
	}
	s.expire(first.ID)
	w.json("POST", protocol.PathClaim, twoSlots, id).refused(http.StatusConflict, "conflict")
}

func TestAResultSentAgainHasTheSameAnswer(t *testing.T) {
	evidence.Proves(t, "JOB-04", "STO-02")
	s := startOne(t, nil)
	alice, w := s.user("alice"), s.worker("w-1")
	alice.submit([]byte("x"))
	a := w.claim()
	result := []byte("result")

	path := attemptPath(protocol.PathResult, a.ID)
	for _, bad := range []option{
		header("X-Nothing", ""), header(protocol.HeaderReprDigest, ""), header(protocol.HeaderReprDigest, "sha-256=:AAAA:"),
		header(protocol.HeaderReprDigest, "md5=:AAAAAAAAAAAAAAAAAAAAAA==:"), header(protocol.HeaderReprDigest, digestOf(result)+", sha-512=:AA==:"),
		header(protocol.HeaderReprDigest, strings.ToUpper(digestOf(result))),
	} {
		w.do("PUT", path, bytes.NewReader(result), fenced(a.FencingToken), bad).refused(http.StatusBadRequest, "invalid_request")
	}
	w.do("PUT", path, bytes.NewReader(result), fenced(a.FencingToken), header(protocol.HeaderReprDigest, digestOf([]byte("other")))).refused(http.StatusBadRequest, "invalid_request")
	w.finish(a, result, header("Content-Type", "text/html")).refused(http.StatusUnsupportedMediaType, "unsupported_media_type")
	s.nothingStored(1)

	first := w.finish(a, result).want(http.StatusOK)
	again := w.finish(a, result).want(http.StatusOK)
	if !bytes.Equal(first.body, again.body) {
		t.Errorf("answers differ: %s and %s", first.body, again.body)
	}
	w.finish(a, []byte("other")).refused(http.StatusConflict, "conflict")
	s.nothingStored(2)
}

// TestAReportWithMalformedProvenanceReportsNothing: refused whole, before a byte of
// the result is kept; the same report in order is taken afterwards.
func TestAReportWithMalformedProvenanceReportsNothing(t *testing.T) {
	evidence.Proves(t, "API-07", "ARC-08")
	s := startOne(t, nil)
	alice, w := s.user("alice"), s.worker("w-1")
	j := alice.submit([]byte("x"))
	a := w.claim()
	said := func(text string) option { return header(protocol.HeaderProvenance, text) }
	for _, bad := range [][]option{
		{said("")}, {said(" ")}, {said("a\tb")}, {said("\u00e9")}, {said("\xff")}, {said(strings.Repeat("x", protocol.MaxProvenanceBytes+1))}, {said("one"), said("two")},
	} {
		w.finish(a, []byte("result"), bad...).refused(http.StatusBadRequest, "invalid_request")
		w.json("POST", attemptPath(protocol.PathFail, a.ID), protocol.FailureReport{Code: "invalid_input"}, append(bad, fenced(a.FencingToken))...).refused(http.StatusBadRequest, "invalid_request")
	}
	s.nothingStored(1)
	if got := alice.status(j.ID).Status; got != "processing" {
		t.Fatalf("the job is %s", got)
	}
	most := strings.Repeat("x", protocol.MaxProvenanceBytes)
	w.finish(a, []byte("result"), said(most)).want(http.StatusOK)
	if n := s.count(`SELECT count(*) FROM app.job_events WHERE cause = 'finished' AND provenance = '` + most + `'`); n != 1 {
		t.Errorf("%d events hold what was said", n)
	}
}

func TestAResultOverTheLimitIsRefused(t *testing.T) {
	evidence.Proves(t, "UPL-01")
	s := startOne(t, func(c *config.Config) { c.Limits.MaxResultBytes = 1000 })
	alice, w := s.user("alice"), s.worker("w-1")
	j := alice.submit([]byte("x"))
	a := w.claim()
	large := make([]byte, 1001)
	w.finish(a, large).refused(http.StatusRequestEntityTooLarge, "too_large")
	w.do("PUT", attemptPath(protocol.PathResult, a.ID), onlyReader{bytes.NewReader(large)}, fenced(a.FencingToken), header(protocol.HeaderReprDigest, digestOf(large))).refused(http.StatusRequestEntityTooLarge, "too_large")
	s.nothingStored(1)
	if got := alice.status(j.ID).Status; got != "processing" {
		t.Fatalf("the job is %s", got)
	}
	w.finish(a, large[:1000]).want(http.StatusOK)
}

// onlyReader hides the length: the request goes out in chunks.
type onlyReader struct{ io.Reader }

// TestAResultThatCannotBeStoredDoesNotComplete: a second server on the same
// database and storage has no room by its own floor.
func TestAResultThatCannotBeStoredDoesNotComplete(t *testing.T) {
	evidence.Proves(t, "STO-02", "UPL-04")
	in := install(t)
	s := in.start(nil)
	full := in.start(func(c *config.Config) { c.Limits.MinFreeBytes = 1 << 49 })
	alice, w := s.user("alice"), s.worker("w-1")
	j := alice.submit([]byte("x"))
	a := w.claim()
	toFull := &caller{t: t, base: full.internalURL, http: w.http}
	toFull.finish(a, []byte("result")).refused(http.StatusInsufficientStorage, "insufficient_storage")
	if got := alice.status(j.ID).Status; got != "processing" {
		t.Fatalf("the job is %s", got)
	}
	in.nothingStored(1)
	uploadToFull := &caller{t: t, base: full.publicURL, http: alice.http, token: alice.token}
	uploadToFull.upload("a", []byte("x")).refused(http.StatusInsufficientStorage, "insufficient_storage")
	in.nothingStored(1)
	w.finish(a, []byte("result")).want(http.StatusOK) // space returned
}

func TestALongPollEndsWhenAJobComesAndWhenTheServerStops(t *testing.T) {
	evidence.Proves(t, "REL-05", "API-02")
	s := startOne(t, func(c *config.Config) { c.Jobs.ClaimPoll = platform.Duration(30 * time.Second) })
	alice, w := s.user("alice"), s.worker("w-1")
	waiting := make(chan *answer, 1)
	go func() { waiting <- w.tryClaim("30s") }()
	eventually(t, 10*time.Second, "the worker waits", func() bool { return s.count(`SELECT count(*) FROM app.workers WHERE last_seen_at IS NOT NULL`) == 1 })
	began := time.Now()
	alice.submit([]byte("x"))
	(<-waiting).want(http.StatusOK)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("a waiting worker was woken after %s", took)
	}

	w2 := s.worker("w-2")
	go func() { waiting <- w2.tryClaim("30s") }()
	eventually(t, 10*time.Second, "the second worker waits", func() bool { return s.count(`SELECT count(*) FROM app.workers WHERE last_seen_at IS NOT NULL`) == 2 })
	began = time.Now()
	s.stop()
	(<-waiting).want(http.StatusNoContent)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the server stopped after %s", took)
	}
}
