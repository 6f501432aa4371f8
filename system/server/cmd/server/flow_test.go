package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"glovebox/system/protocol"
	"glovebox/threat-model/evidence"
)

// TestUploadClaimResultDownload is the seed's main path at the server's edge:
// both listeners, real TLS, the real database and storage.
func TestUploadClaimResultDownload(t *testing.T) {
	evidence.Proves(t, "API-01", "API-02", "STO-04", "ARC-01", "API-05", "ARC-09")
	s := startOne(t, nil)
	alice, w := s.user("alice"), s.worker("w-1")
	input, result := []byte("print('hello')"), bytes.Repeat([]byte("result "), 300_000)

	w.tryClaim("0s").want(http.StatusNoContent)
	created := alice.upload("hello.lua", input).want(http.StatusCreated)
	j := created.job()
	if created.Header.Get("Location") != "/api/v1/jobs/"+j.ID || j.Status != "pending" || j.SHA256 != "" || j.Size != nil {
		t.Fatalf("created %+v, location %q", j, created.Header.Get("Location"))
	}

	a := w.claim()
	sum := sha256.Sum256(input)
	if a.ID != j.ID || a.Attempt != 1 || a.FencingToken != 1 || a.InputSize != int64(len(input)) || a.InputSHA256 != hex.EncodeToString(sum[:]) {
		t.Fatalf("assignment %+v", a)
	}
	got := w.get(attemptPath(protocol.PathInput, a.ID), fenced(a.FencingToken)).want(http.StatusOK)
	if !bytes.Equal(got.body, input) || got.Header.Get("Repr-Digest") != digestOf(input) {
		t.Fatal("the worker got another input")
	}
	var beat protocol.HeartbeatAnswer
	w.json("POST", attemptPath(protocol.PathHeartbeat, a.ID), twoSlots, fenced(a.FencingToken)).want(http.StatusOK).decode(&beat)
	if beat.LeaseSeconds != 30 || alice.status(j.ID).Status != "processing" {
		t.Fatalf("lease is %d s", beat.LeaseSeconds)
	}

	var stored protocol.ResultAnswer
	w.finish(a, result).want(http.StatusOK).decode(&stored)
	sum = sha256.Sum256(result)
	if stored.Status != "completed" || stored.SHA256 != hex.EncodeToString(sum[:]) || stored.Size != int64(len(result)) {
		t.Fatalf("answer to the result: %+v", stored)
	}
	done := alice.status(j.ID)
	if done.Status != "completed" || done.SHA256 != stored.SHA256 || *done.Size != stored.Size || done.ExpiresAt == "" {
		t.Fatalf("job: %+v", done)
	}
	down := alice.get("/api/v1/jobs/" + j.ID + "/result").want(http.StatusOK)
	if !bytes.Equal(down.body, result) {
		t.Fatal("the result differs")
	}
	s.nothingStored(2)
	if strings.Contains(s.logs.String(), "print('hello')") {
		t.Fatal("file content is in the log")
	}
}

func TestFailureReports(t *testing.T) {
	evidence.Proves(t, "JOB-09", "JOB-11", "JOB-04", "API-05")
	s := startOne(t, nil)
	alice, w := s.user("alice"), s.worker("w-1")
	report := func(a protocol.Assignment, body string) *answer {
		t.Helper()
		return w.do("POST", attemptPath(protocol.PathFail, a.ID), strings.NewReader(body), fenced(a.FencingToken), header("Content-Type", "application/json"))
	}

	j := alice.submit([]byte("not lua"))
	a := w.claim()
	for _, bad := range []struct {
		body   string
		status int
		code   string
	}{
		{`{"code":"no_such_code","retryable":false,"detail":""}`, 422, "invalid_failure"},
		{`{"code":"worker_lost","retryable":true,"detail":""}`, 422, "invalid_failure"},
		{`{"code":"invalid_input","retryable":true,"detail":""}`, 422, "invalid_failure"},
		{`{"code":"timeout","retryable":false,"detail":""}`, 422, "invalid_failure"},
		{`{"code":"invalid_input","detail":""}`, 400, "invalid_request"},
		{`{"retryable":false,"detail":""}`, 400, "invalid_request"},
		{`{"code":"invalid_input","retryable":false,"detail":"","status":"completed"}`, 400, "invalid_request"},
		{`{"code":"invalid_input","retryable":false,"retryable":true,"detail":""}`, 400, "invalid_request"},
		{`{"code":"invalid_input","retryable":false,"detail":"` + strings.Repeat("x", 1025) + `"}`, 400, "invalid_request"},
		{`{"code":"invalid_input","retryable":false,"detail":"\u001b[2J"}`, 400, "invalid_request"},
		{`{"code":"invalid_input","retryable":false,"detail":""} {}`, 400, "invalid_request"},
		{`[]`, 400, "invalid_request"},
		{``, 400, "invalid_request"},
	} {
		report(a, bad.body).refused(bad.status, bad.code)
	}
	if got := alice.status(j.ID).Status; got != "processing" {
		t.Fatalf("after refused reports the job is %s", got)
	}

	const final = `{"code":"invalid_input","retryable":false,"detail":"line 1, column 5: unexpected symbol"}`
	for range 2 { // the repeat gets the same answer
		var status protocol.FailureAnswer
		report(a, final).want(http.StatusOK).decode(&status)
		if status.Status != "failed" {
			t.Fatalf("status is %s", status.Status)
		}
	}
	got := alice.status(j.ID)
	if got.Status != "failed" || got.ErrorCode != "invalid_input" || !strings.Contains(got.ErrorDetail, "column 5") {
		t.Fatalf("job: %+v", got)
	}
	alice.get("/api/v1/jobs/"+j.ID+"/result").refused(http.StatusConflict, "job_not_completed")

	j = alice.submit([]byte("slow"))
	a = w.claim()
	var status protocol.FailureAnswer
	report(a, `{"code":"timeout","retryable":true,"detail":"secret inner detail"}`).want(http.StatusOK).decode(&status)
	if got := alice.status(j.ID); status.Status != "pending" || got.Status != "pending" || got.ErrorDetail != "" || got.ErrorCode != "" {
		t.Fatalf("after a retryable failure: %s, %+v", status.Status, got)
	}
}
