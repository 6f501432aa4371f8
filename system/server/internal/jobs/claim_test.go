package jobs_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"glovebox/system/protocol"
	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
	"glovebox/threat-model/evidence"
)

func call(wait time.Duration) jobs.ClaimCall {
	return jobs.ClaimCall{WorkerID: "w-1", RequestID: uuid.NewString(), Wait: wait, SlotsFree: 1, SlotsTotal: 1}
}

func TestALongPollEndsWithTheJobItWaitedFor(t *testing.T) {
	evidence.Proves(t, "API-02")
	synctest.Test(t, func(t *testing.T) {
		k := setup(t)
		const waiters, amount = 8, 5
		var (
			all sync.WaitGroup
			mu  sync.Mutex
			got []string
		)
		started := time.Now()
		for range waiters {
			all.Go(func() {
				a, err := k.Claim(t.Context(), call(20*time.Second))
				if err != nil {
					t.Errorf("claim: %v", err)
				}
				if a != nil {
					mu.Lock()
					got = append(got, a.ID)
					mu.Unlock()
				}
			})
		}
		synctest.Wait() // all wait
		for range amount {
			k.submit(t, "x")
		}
		synctest.Wait() // whoever was woken has what it waited for
		if mu.Lock(); len(got) != amount {
			t.Errorf("%d of %d waiting claims got a job before any time passed", len(got), amount)
		}
		mu.Unlock()
		all.Wait()
		if passed := time.Since(started); passed != 20*time.Second {
			t.Errorf("the claims without a job ended after %s", passed)
		}
	})
}

// TestOneNotificationServesEveryWaiter: several jobs may be announced by one
// notification, so whoever finds one passes the word on.
func TestOneNotificationServesEveryWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := setup(t)
		other := jobs.New(k.Parts, jobs.Settings{MaxInputBytes: maxBytes, MaxAttempts: 3, Limits: limits}) // its Wake reaches nobody here
		const amount = 5
		var got atomic.Int32
		var all sync.WaitGroup
		for range amount {
			all.Go(func() {
				if a, err := k.Claim(t.Context(), call(20*time.Second)); err == nil && a != nil {
					got.Add(1)
				}
			})
		}
		synctest.Wait()
		for range amount {
			if _, err := other.Submit(t.Context(), k.submission(), neverEmpty()); err != nil {
				t.Fatal(err)
			}
		}
		k.Wake()
		synctest.Wait()
		if got.Load() != amount {
			t.Errorf("one notification served %d of %d waiters", got.Load(), amount)
		}
		all.Wait()
	})
}

func TestALostNotificationCostsOnePoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := setup(t, func(_ *jobs.Parts, s *jobs.Settings) { s.ClaimPoll = 2 * time.Second })
		other := jobs.New(k.Parts, jobs.Settings{MaxInputBytes: maxBytes, MaxAttempts: 3, Limits: limits}) // its Wake reaches nobody here
		started := time.Now()
		var claimed sync.WaitGroup
		claimed.Go(func() {
			if a, err := k.Claim(t.Context(), call(20*time.Second)); a == nil || err != nil {
				t.Errorf("claim: %v, %v", a, err)
			}
		})
		synctest.Wait()
		if _, err := other.Submit(t.Context(), k.submission(), neverEmpty()); err != nil {
			t.Fatal(err)
		}
		claimed.Wait()
		if passed := time.Since(started); passed != 2*time.Second {
			t.Errorf("the job was found after %s", passed)
		}
	})
}

func TestTheWaitIsBoundedAndEndsWithItsRequest(t *testing.T) {
	evidence.Proves(t, "REL-05")
	synctest.Test(t, func(t *testing.T) {
		k := setup(t)
		for wait, want := range map[time.Duration]time.Duration{0: 0, time.Second: time.Second, time.Hour: 20 * time.Second} {
			// An hour: the lease of 30 s less a heartbeat of 10 s, so that no claim of a
			// worker that stopped is still open when its leases run out.
			started := time.Now()
			if a, err := k.Claim(t.Context(), call(wait)); a != nil || err != nil {
				t.Fatalf("claim of an empty queue: %v, %v", a, err)
			}
			if passed := time.Since(started); passed != want {
				t.Errorf("a wait of %s took %s, want %s", wait, passed, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		started := time.Now()
		time.AfterFunc(3*time.Second, cancel)
		if a, err := k.Claim(ctx, call(20*time.Second)); a != nil || err != nil {
			t.Fatalf("claim whose request ended: %v, %v", a, err)
		}
		if passed := time.Since(started); passed != 3*time.Second {
			t.Errorf("the claim outlived its request by %s", passed-3*time.Second)
		}
	})
}

// lostAnswer is a queue whose answer is lost: the claim takes effect and its
// caller sees only that the request has ended.
type lostAnswer struct {
	jobs.Queue
	cancel context.CancelFunc
}

func (q *lostAnswer) Claim(ctx context.Context, claim jobs.Claim) (jobs.Record, bool, error) {
	record, ok, err := q.Queue.Claim(ctx, claim)
	if q.cancel != nil {
		q.cancel()
		q.cancel = nil
		return jobs.Record{}, false, context.Canceled
	}
	return record, ok, err
}

// slowAnswer is a queue that takes a while to answer, and ends with its context.
type slowAnswer struct {
	jobs.Queue
	takes time.Duration
}

func (q slowAnswer) Claim(ctx context.Context, claim jobs.Claim) (jobs.Record, bool, error) {
	select {
	case <-time.After(q.takes):
		return q.Queue.Claim(ctx, claim)
	case <-ctx.Done():
		return jobs.Record{}, false, ctx.Err()
	}
}

// TestAClaimIsAnsweredAlsoAsItsRequestEnds, within a bound.
func TestAClaimIsAnsweredAlsoAsItsRequestEnds(t *testing.T) {
	evidence.Proves(t, "REL-05")
	for takes, want := range map[time.Duration]domain.Code{time.Second: "", time.Minute: domain.CodeUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			k := setup(t, func(p *jobs.Parts, _ *jobs.Settings) { p.Queue = slowAnswer{p.Queue, takes} })
			k.submit(t, "x")
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			started := time.Now()
			a, err := k.Claim(ctx, call(0))
			if domain.CodeOf(err) != want || (a != nil) != (want == "") {
				t.Errorf("a queue that takes %s: %v, %v", takes, a, err)
			}
			if passed := time.Since(started); passed > 3*time.Second {
				t.Errorf("a queue that takes %s held the claim for %s", takes, passed)
			}
		})
	}
}

// TestAClaimThatWasCutOffIsNotAnEmptyQueue: a worker that is told "none" asks with
// another request id, and the job it was given waits for its lease to end.
func TestAClaimThatWasCutOffIsNotAnEmptyQueue(t *testing.T) {
	evidence.Proves(t, "JOB-04", "REL-05")
	ctx, cancel := context.WithCancel(t.Context())
	k := setup(t, func(p *jobs.Parts, _ *jobs.Settings) { p.Queue = &lostAnswer{Queue: p.Queue, cancel: cancel} })
	job := k.submit(t, "x")
	c := call(0)
	if a, err := k.Claim(ctx, c); a != nil || domain.CodeOf(err) != domain.CodeUnavailable {
		t.Fatalf("a claim that was cut off: %v, %v", a, err)
	}
	if a, err := k.Claim(t.Context(), c); err != nil || a == nil || a.ID != job.ID || a.Attempt != 1 {
		t.Errorf("the same claim again: %+v, %v", a, err)
	}
}

func TestSlotsThatCannotBeAreRefused(t *testing.T) {
	evidence.Proves(t, "API-07")
	k := setup(t)
	k.submit(t, "x")
	for _, slots := range []protocol.Saturation{{SlotsFree: -1, SlotsTotal: 1}, {SlotsFree: 2, SlotsTotal: 1}, {SlotsFree: 0, SlotsTotal: -1}} {
		c := call(0)
		c.SlotsFree, c.SlotsTotal = slots.SlotsFree, slots.SlotsTotal
		_, err := k.Claim(t.Context(), c)
		wantCode(t, err, domain.CodeInvalid)
		_, err = k.Heartbeat(t.Context(), domain.Fence{}, slots)
		wantCode(t, err, domain.CodeInvalid)
	}
}
