package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"glovebox/system/protocol"
	"glovebox/system/protocol/failure"
	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
	"glovebox/threat-model/evidence"
)

var slots = protocol.Saturation{SlotsFree: 0, SlotsTotal: 1}

// TestEveryFencedRequestIsRefusedToWhoeverDoesNotHoldTheLease asks everything an
// attempt may ask with every fence that does not hold, before and after the end.
func TestEveryFencedRequestIsRefusedToWhoeverDoesNotHoldTheLease(t *testing.T) {
	evidence.Proves(t, "JOB-03", "MTL-04")
	k := setup(t)
	k.submit(t, "input")
	good, _ := k.claim(t)
	requests := map[string]func(domain.Fence) error{
		"input":     func(f domain.Fence) error { _, err := k.OpenInput(t.Context(), f); return err },
		"heartbeat": func(f domain.Fence) error { _, err := k.Heartbeat(t.Context(), f, slots); return err },
		"result":    func(f domain.Fence) error { _, err := k.finish(t, f, "out"); return err },
		"fail": func(f domain.Fence) error {
			_, err := k.Fail(t.Context(), f, failure.Timeout, true, "", "")
			return err
		},
	}
	refused := func(when string, f domain.Fence) {
		t.Helper()
		for name, ask := range requests {
			if err := ask(f); domain.CodeOf(err) != domain.CodeLeaseLost {
				t.Errorf("%s, %s: %v, want lease_lost", name, when, err)
			}
		}
	}
	refused("another worker", domain.Fence{JobID: good.JobID, WorkerID: "w-2", FencingToken: good.FencingToken})
	refused("an old token", domain.Fence{JobID: good.JobID, WorkerID: "w-1", FencingToken: good.FencingToken - 1})
	refused("a token to come", domain.Fence{JobID: good.JobID, WorkerID: "w-1", FencingToken: good.FencingToken + 1})
	refused("a job that is not there", domain.Fence{JobID: uuid.NewString(), WorkerID: "w-1", FencingToken: 1})
	refused("no id at all", domain.Fence{JobID: "../x", WorkerID: "w-1", FencingToken: 1})
	k.store.Advance(30 * time.Second)
	refused("the lease has run out and nobody took the job back yet", good)
	if n, err := k.Expire(t.Context()); n != 1 || err != nil {
		t.Fatalf("expire: %d, %v", n, err)
	}
	refused("the job was taken back", good)
	k.store.Advance(time.Minute)
	second, _ := k.claim(t)
	refused("the job is another attempt's", good)
	if _, err := k.finish(t, second, "out"); err != nil {
		t.Fatalf("the second attempt: %v", err)
	}
	refused("the job was completed by another attempt", good)
	k.clean(t, 2) // input and one result
}

func TestTheAssignedWorkerReadsTheInput(t *testing.T) {
	evidence.Proves(t, "STO-01")
	k := setup(t)
	k.submit(t, "input")
	fence, _ := k.claim(t)
	input, err := k.OpenInput(t.Context(), fence)
	if err != nil {
		t.Fatal(err)
	}
	defer input.Content.Close()
	content, err := io.ReadAll(input.Content)
	if err != nil || string(content) != "input" || input.Size != 5 || input.SHA256 != *digest("input") {
		t.Errorf("the input is %q of %d bytes (%v)", content, input.Size, err)
	}
	k.blobs.set(func(f *flaky) { f.open = errDisk })
	_, err = k.OpenInput(t.Context(), fence)
	wantCode(t, err, domain.CodeUnavailable)
}

func TestHeartbeatsKeepALeaseAlive(t *testing.T) {
	evidence.Proves(t, "JOB-08")
	k := setup(t)
	k.submit(t, "input")
	fence, _ := k.claim(t)
	for range 5 {
		k.store.Advance(29 * time.Second)
		lease, err := k.Heartbeat(t.Context(), fence, slots)
		if err != nil || lease != 30*time.Second {
			t.Fatalf("heartbeat: %s, %v", lease, err)
		}
		if n, err := k.Expire(t.Context()); n != 0 || err != nil {
			t.Fatalf("a living lease expired: %d, %v", n, err)
		}
	}
	if _, err := k.finish(t, fence, "out"); err != nil {
		t.Fatal(err)
	}
	_, err := k.Heartbeat(t.Context(), fence, slots)
	wantCode(t, err, domain.CodeLeaseLost)
}

func TestAResultThatCannotBeStoredCompletesNothing(t *testing.T) {
	evidence.Proves(t, "STO-02", "UPL-04")
	for _, c := range []struct {
		name    string
		set     func(*flaky)
		content string
		code    domain.Code
		left    int // objects beside the input
	}{
		{"no space", func(f *flaky) { f.stage = domain.Refuse(domain.CodeInsufficientStorage, "full") }, "out", domain.CodeInsufficientStorage, 0},
		{"too large", func(*flaky) {}, strings.Repeat("x", maxBytes+1), domain.CodeTooLarge, 0},
		{"the rename fails", func(f *flaky) { f.commit = errDisk }, "out", domain.CodeUnavailable, 0},
		{"the file has gone before the row names it", func(f *flaky) { f.gone = true }, "out", domain.CodeUnavailable, 0},
		{"the last look fails", func(f *flaky) { f.open = errDisk }, "out", domain.CodeUnavailable, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := setup(t)
			receipt := k.submit(t, "input")
			fence, _ := k.claim(t)
			k.blobs.set(c.set)
			_, err := k.finish(t, fence, c.content)
			wantCode(t, err, c.code)
			if v := k.status(t, receipt.ID); v.Status != domain.Processing {
				t.Errorf("the job is %s", v.Status)
			}
			k.clean(t, 1+c.left)
			k.blobs.set(func(f *flaky) { f.stage, f.commit, f.open, f.gone = nil, nil, nil, false })
			if v, err := k.finish(t, fence, "out"); err != nil || v.Status != domain.Completed {
				t.Errorf("the same attempt once the fault is gone: %+v, %v", v, err)
			}
		})
	}
}

// A worker that made the result must hear it before the bytes get a name that only
// the sweeper would remove; the job itself is ended by what the worker then reports.
func TestAResultBeyondItsOwnersCapIsNotStored(t *testing.T) {
	evidence.Proves(t, "UPL-10")
	k := setup(t, func(_ *jobs.Parts, s *jobs.Settings) { s.Limits.StoredBytes = 10 })
	k.submit(t, "input")
	fence, _ := k.claim(t)
	_, err := k.finish(t, fence, "result")
	wantCode(t, err, domain.CodeTooLarge)
	k.clean(t, 1)
	if _, err := k.finish(t, fence, "small"); err != nil {
		t.Fatalf("control failed, a result that fits is refused: %v", err)
	}
}

// The repeat comes in while the first is being committed, so that the job is not
// completed yet when it begins: by its end the first counts against the cap.
func TestTheRepeatOfAResultThatFillsTheCapIsAnsweredAsBefore(t *testing.T) {
	evidence.Proves(t, "JOB-04", "UPL-10")
	for _, c := range []struct {
		name, repeat string
		code         domain.Code
	}{{"the same bytes", "result", ""}, {"other bytes", "others", domain.CodeConflict}} {
		t.Run(c.name, func(t *testing.T) {
			k := setup(t, func(_ *jobs.Parts, s *jobs.Settings) { s.Limits.StoredBytes = int64(len("input") + len("result")) })
			k.submit(t, "input")
			fence, _ := k.claim(t)
			body := io.MultiReader(strings.NewReader(c.repeat), onRead(func() {
				if _, err := k.finish(t, fence, "result"); err != nil {
					t.Errorf("the first: %v", err)
				}
			}))
			v, err := k.Finish(t.Context(), fence, *digest(c.repeat), "", body)
			if c.code != "" {
				wantCode(t, err, c.code)
			} else if err != nil || v.Status != domain.Completed {
				t.Errorf("the repeat: %+v, %v", v, err)
			}
			k.clean(t, 2)
		})
	}
}

// onRead is an empty body whose end waits for what it does.
type onRead func()

func (do onRead) Read([]byte) (int, error) {
	do()
	return 0, io.EOF
}

func TestAResultWithAnotherDigestIsRefused(t *testing.T) {
	evidence.Proves(t, "STO-02", "JOB-12")
	k := setup(t)
	receipt := k.submit(t, "input")
	fence, _ := k.claim(t)
	_, err := k.Finish(t.Context(), fence, *digest("something else"), "", strings.NewReader("out"))
	wantCode(t, err, domain.CodeInvalid)
	if k.status(t, receipt.ID).Status != domain.Processing {
		t.Error("the job ended")
	}
	k.clean(t, 1)
}

func TestTheSameResultAgainGetsTheSameAnswer(t *testing.T) {
	evidence.Proves(t, "JOB-04")
	k := setup(t)
	k.submit(t, "input")
	fence, _ := k.claim(t)
	first, err := k.finish(t, fence, "out")
	if err != nil {
		t.Fatal(err)
	}
	k.store.Advance(time.Hour)
	again, err := k.finish(t, fence, "out")
	if err != nil || again != first {
		t.Errorf("again: %+v, %v; want %+v", again, err, first)
	}
	_, err = k.finish(t, fence, "other")
	wantCode(t, err, domain.CodeConflict)
	_, err = k.Finish(t.Context(), fence, *digest("out"), "", strings.NewReader("other")) // claims the first one's digest
	wantCode(t, err, domain.CodeInvalid)
	if len(k.store.Events(fence.JobID)) != 3 {
		t.Errorf("the history is %+v", k.store.Events(fence.JobID))
	}
	k.clean(t, 2)
}

// TestALeaseLostWhileTheResultCame moves the clock between the first check and
// the last.
func TestALeaseLostWhileTheResultCame(t *testing.T) {
	evidence.Proves(t, "STO-02", "JOB-03")
	k := setup(t)
	receipt := k.submit(t, "input")
	fence, _ := k.claim(t)
	slow := readerFunc(func(p []byte) (int, error) { k.store.Advance(time.Minute); return copy(p, "out"), io.EOF })
	_, err := k.Finish(t.Context(), fence, *digest("out"), "", slow)
	wantCode(t, err, domain.CodeLeaseLost)
	if k.status(t, receipt.ID).Status != domain.Processing {
		t.Error("the job ended")
	}
	k.clean(t, 2) // the result is an orphan, named by no row
}

func TestTheSameFailureAgainGetsTheSameAnswer(t *testing.T) {
	evidence.Proves(t, "JOB-04", "JOB-09")
	for code, want := range map[failure.Code]domain.Status{failure.InvalidInput: domain.Failed, failure.Timeout: domain.Pending, failure.WorkerShutdown: domain.Pending} {
		k := setup(t)
		k.submit(t, "input")
		fence, _ := k.claim(t)
		fact, _ := failure.Lookup(code)
		for range 3 {
			status, err := k.Fail(t.Context(), fence, code, fact.Retryable, "why", "")
			if err != nil || status != want {
				t.Errorf("%s: %s, %v", code, status, err)
			}
			k.store.Advance(time.Minute)
		}
		if n := len(k.store.Events(fence.JobID)); n != 3 {
			t.Errorf("%s: %d events", code, n)
		}
		_, err := k.Fail(t.Context(), fence, failure.CoreError, false, "", "")
		wantCode(t, err, domain.CodeLeaseLost)
		_, err = k.Fail(t.Context(), fence, code, !fact.Retryable, "", "")
		wantCode(t, err, domain.CodeInvalidFailure)
	}
}

// TestWhatTheFirstReportSaidOfItsRunStays: a repeat gets the answer and changes
// nothing of the history.
func TestWhatTheFirstReportSaidOfItsRunStays(t *testing.T) {
	evidence.Proves(t, "ARC-08", "JOB-04")
	reports := map[string]func(*kit, domain.Fence, domain.Provenance) error{
		"a result": func(k *kit, f domain.Fence, said domain.Provenance) error {
			_, err := k.Finish(t.Context(), f, *digest("out"), said, strings.NewReader("out"))
			return err
		},
		"a failure": func(k *kit, f domain.Fence, said domain.Provenance) error {
			_, err := k.Fail(t.Context(), f, failure.Timeout, true, "a detail", said)
			return err
		},
	}
	for name, report := range reports {
		k := setup(t)
		k.submit(t, "input")
		fence, _ := k.claim(t)
		for _, said := range []domain.Provenance{"the first words", "other words", ""} {
			if err := report(k, fence, said); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		events := k.store.Events(fence.JobID)
		if len(events) != 3 || events[1].Provenance != "" || events[2].Provenance != "the first words" {
			t.Errorf("%s: the history is %+v", name, events)
		}
	}
}

func TestOnlyInvalidInputTellsItsDetailAndOnlyPrintable(t *testing.T) {
	evidence.Proves(t, "API-05", "API-03")
	for code, visible := range map[failure.Code]bool{failure.InvalidInput: true, failure.CoreError: false} {
		k := setup(t)
		receipt := k.submit(t, "input")
		fence, _ := k.claim(t)
		if _, err := k.Fail(t.Context(), fence, code, false, "line 3\x1b[31m\u202e\xff column 4"+strings.Repeat("é", 1000), ""); err != nil {
			t.Fatal(err)
		}
		v := k.status(t, receipt.ID)
		if v.ErrorCode != code || (v.ErrorDetail != "") != visible {
			t.Errorf("%s: the view is %+v", code, v)
		}
		if visible && (!strings.HasPrefix(v.ErrorDetail, "line 3[31m column 4") || len(v.ErrorDetail) > protocol.MaxDetailBytes) {
			t.Errorf("the detail is %q", v.ErrorDetail)
		}
	}
}

func TestALeaseThatRunsOutIsRetriedThenFails(t *testing.T) {
	evidence.Proves(t, "JOB-06")
	k := setup(t)
	receipt := k.submit(t, "input")
	for attempt := 1; attempt <= 3; attempt++ {
		k.store.Advance(2 * time.Minute) // beyond any backoff
		fence, _ := k.claim(t)
		if fence.FencingToken != int64(attempt) {
			t.Errorf("attempt %d has token %d", attempt, fence.FencingToken)
		}
		k.store.Advance(30 * time.Second)
		if n, err := k.Expire(t.Context()); n != 1 || err != nil {
			t.Fatalf("expire: %d, %v", n, err)
		}
	}
	v := k.status(t, receipt.ID)
	if v.Status != domain.Failed || v.ErrorCode != failure.AttemptsExhausted {
		t.Errorf("after three leases the job is %+v", v)
	}
}

// stubborn refuses to change some jobs, as damage or a bug would.
type stubborn struct {
	jobs.Store
	ids map[string]bool
}

func (s stubborn) Transition(ctx context.Context, c jobs.Change) (domain.Job, error) {
	if s.ids[c.JobID] {
		return domain.Job{}, errors.New("this row cannot be changed")
	}
	return s.Store.Transition(ctx, c)
}

func TestBadRowsBlockNoOtherExpiry(t *testing.T) {
	evidence.Proves(t, "JOB-06")
	k := setup(t, func(_ *jobs.Parts, s *jobs.Settings) { s.Limits.ActiveJobs = 1000 })
	const amount, bad = 350, 120 // more bad ones than a page has
	var ids []string
	for range amount {
		k.submit(t, "x")
		fence, _ := k.claim(t)
		ids = append(ids, fence.JobID)
	}
	slices.Sort(ids)
	k.store.Advance(time.Minute)
	parts := k.Parts
	first := stubborn{k.store, map[string]bool{}}
	for _, id := range ids[:bad] {
		first.ids[id] = true
	}
	parts.Store = first
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	n, err := jobs.New(parts, jobs.Settings{}).Expire(ctx)
	if err != nil || n != amount-bad {
		t.Errorf("%d of %d leases were taken back, %v", n, amount-bad, err)
	}
}

func TestACancelledExpiryStops(t *testing.T) {
	k := setup(t)
	k.submit(t, "x")
	k.claim(t)
	k.store.Advance(time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.Expire(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if err := k.RunExpiry(ctx, time.Hour); err != nil {
		t.Errorf("the loop ended with %v", err)
	}
}

func neverEmpty() io.Reader { return strings.NewReader(fmt.Sprint(time.Now())) }
