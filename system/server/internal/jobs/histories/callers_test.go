package histories

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"glovebox/chaos/history"
	"glovebox/system/protocol"
	"glovebox/system/protocol/failure"
	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
)

// batch is some jobs, the callers that share them, and what was asked of them.
type batch struct {
	*world
	began   time.Time
	keys    int  // Idempotency-Keys, and so at most as many jobs
	retains bool // retention runs; else every result must be there at the end
	next    atomic.Int64

	mu       sync.Mutex
	events   []history.Event
	jobs     []domain.Job // ids and owners, as they were answered
	fences   []domain.Fence
	requests []jobs.Claim
	internal []string // errors that say nothing to the caller: each is a fault
}

// caller asks for one thing after another.
type caller struct {
	*batch
	name   string
	random *rand.Rand
}

// moves and how often each comes, of the sum of all.
var moves = []struct {
	weight int
	do     func(*caller, context.Context)
}{
	{16, (*caller).submit},
	{24, (*caller).claim},
	{8, (*caller).heartbeat},
	{10, (*caller).finish},
	{9, (*caller).fail},
	{9, (*caller).leaseOver},
	{5, (*caller).expire},
	{6, (*caller).due},
	{8, (*caller).status},
	{8, (*caller).download},
	{1, (*caller).sweep},
	{1, (*caller).retention},
}

func (c *caller) run(ctx context.Context, steps int) {
	sum := 0
	for _, m := range moves {
		sum += m.weight
	}
	for range steps {
		pick := c.random.IntN(sum)
		for _, m := range moves {
			if pick -= m.weight; pick < 0 {
				m.do(c, ctx)
				break
			}
		}
	}
}

func (b *batch) now() int64 { return max(1, time.Since(b.began).Nanoseconds()) }

func (c *caller) server() *jobs.Service { return c.servers[c.random.IntN(len(c.servers))] }

// chance is true in percent of all cases.
func (c *caller) chance(percent int) bool { return c.random.IntN(100) < percent }

// answered completes e by what came back and keeps it. A fault of the database is
// no answer; a refusal has a code; anything else is a fault of the server.
func (c *caller) answered(e history.Event, err error) history.Event {
	e.Caller, e.Return = c.name, c.now()
	switch code := domain.CodeOf(err); {
	case err == nil:
		e.Outcome = history.OK
	case code == domain.CodeUnavailable:
		e.Outcome, e.Return = history.Maybe, 0
	case code != "":
		e.Outcome, e.Refusal = history.Refused, string(code)
	default:
		e.Outcome, e.Refusal = history.Refused, "internal"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Refusal == "internal" {
		c.internal = append(c.internal, fmt.Sprintf("%s: %v", e, err))
	}
	c.events = append(c.events, e)
	return e
}

// pick returns one of list: mostly one of the newest few, where few is not 0.
func pick[T any](c *caller, few int, list func() []T) (item T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	items := list()
	if len(items) == 0 {
		return item, false
	}
	if few > 0 && c.chance(70) {
		items = items[max(0, len(items)-few):]
	}
	return items[c.random.IntN(len(items))], true
}

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// submit uses a new key while there are any, and now and then one that was used or
// is in use.
func (c *caller) submit(ctx context.Context) {
	n := c.next.Load()
	again := n > 0 && c.chance(15)
	switch {
	case again:
		n = c.random.Int64N(n)
	case n < int64(c.keys):
		n = c.next.Add(1) - 1
	}
	if n >= int64(c.keys) {
		return
	}
	content := fmt.Sprintf("input %d", n)
	sub := jobs.Submission{UserID: c.users[n%int64(len(c.users))], FileName: "a", IdempotencyKey: fmt.Sprintf("key-%d", n)}
	if c.chance(50) {
		sum := sha256.Sum256([]byte(content))
		sub.Declared = &sum
	}
	e := history.Event{Op: history.Submit, User: sub.UserID, Key: sub.IdempotencyKey, Digest: digest(content), Call: c.now()}
	receipt, err := c.server().Submit(ctx, sub, strings.NewReader(content))
	if err == nil {
		e.Job, e.Status = receipt.ID, string(receipt.Status)
	}
	if c.answered(e, err).Outcome == history.OK {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.jobs = append(c.jobs, domain.Job{ID: receipt.ID, UserID: sub.UserID})
	}
}

// claim asks under a new request id, or repeats one.
func (c *caller) claim(ctx context.Context) {
	request, ok := pick(c, 4, func() []jobs.Claim { return c.requests })
	if !ok || !c.chance(15) {
		request = jobs.Claim{WorkerID: fmt.Sprintf("w-%d", c.random.IntN(3)), RequestID: uuid.NewString()}
		c.mu.Lock()
		c.requests = append(c.requests, request)
		c.mu.Unlock()
	}
	e := history.Event{Op: history.Claim, Worker: request.WorkerID, Request: request.RequestID, Call: c.now()}
	a, err := c.server().Claim(ctx, jobs.ClaimCall{WorkerID: request.WorkerID, RequestID: request.RequestID, SlotsTotal: 1})
	if err == nil && a == nil {
		err = domain.Refuse(history.None, "no work")
	}
	if err == nil {
		e.Job, e.Token, e.Attempt = a.ID, a.FencingToken, a.Attempt
	}
	if c.answered(e, err).Outcome == history.OK {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.fences = append(c.fences, domain.Fence{JobID: a.ID, WorkerID: request.WorkerID, FencingToken: a.FencingToken})
	}
}

// fence is one that was given out, now and then with something wrong in it.
func (c *caller) fence() (domain.Fence, bool) {
	f, ok := pick(c, 6, func() []domain.Fence { return c.fences })
	switch {
	case c.chance(8):
		f.WorkerID = fmt.Sprintf("w-%d", c.random.IntN(3))
	case c.chance(8):
		f.FencingToken += int64(c.random.IntN(3) - 1)
	}
	return f, ok && f.FencingToken > 0
}

func about(op history.Op, f domain.Fence, now int64) history.Event {
	return history.Event{Op: op, Job: f.JobID, Worker: f.WorkerID, Token: f.FencingToken, Call: now}
}

func (c *caller) heartbeat(ctx context.Context) {
	f, ok := c.fence()
	if !ok {
		return
	}
	e := about(history.Heartbeat, f, c.now())
	_, err := c.server().Heartbeat(ctx, f, protocol.Saturation{SlotsTotal: 1})
	c.answered(e, err)
}

// finish repeats itself when it gets no answer, as a worker does.
func (c *caller) finish(ctx context.Context) {
	f, ok := c.fence()
	if !ok {
		return
	}
	content := fmt.Sprintf("result %d", c.random.IntN(2))
	for range 1 + c.random.IntN(3) {
		e := about(history.Finish, f, c.now())
		e.Digest = digest(content)
		view, err := c.server().Finish(ctx, f, sha256.Sum256([]byte(content)), "", strings.NewReader(content))
		e.Status = string(view.Status)
		if c.answered(e, err).Outcome != history.Maybe {
			return
		}
	}
}

func (c *caller) fail(ctx context.Context) {
	f, ok := c.fence()
	if !ok {
		return
	}
	codes := []failure.Code{failure.Timeout, failure.OutOfMemory, failure.WorkerShutdown, failure.WorkerShutdown, failure.InvalidInput}
	code := codes[c.random.IntN(len(codes))]
	fact, _ := failure.Lookup(code)
	for range 1 + c.random.IntN(3) {
		e := about(history.Fail, f, c.now())
		e.Code = string(code)
		status, err := c.server().Fail(ctx, f, code, fact.Retryable, "", "")
		e.Status = string(status)
		if c.answered(e, err).Outcome != history.Maybe {
			return
		}
	}
}

// leaseOver ends the lease of whoever has the job now.
func (c *caller) leaseOver(ctx context.Context) {
	f, ok := c.fence()
	if !ok {
		return
	}
	e := history.Event{Op: history.LeaseOver, Job: f.JobID, Call: c.now()}
	err := c.admin.QueryRow(ctx, `
		UPDATE app.jobs SET lease_expires_at = clock_timestamp() - interval '1 millisecond'
		WHERE id = $1 AND status = 'processing' RETURNING fencing_token`, f.JobID).Scan(&e.Token)
	if !errors.Is(err, pgx.ErrNoRows) {
		c.answered(e, err)
	}
}

// due ends every delay before a next attempt.
func (c *caller) due(ctx context.Context) {
	_, err := c.admin.Exec(ctx, "UPDATE app.jobs SET next_attempt_at = now() WHERE status = 'pending' AND next_attempt_at > now()")
	c.reported("due", err)
}

func (c *caller) expire(ctx context.Context) {
	_, err := c.server().Expire(ctx)
	c.reported("expire", err)
}

func (c *caller) sweep(ctx context.Context) {
	_, err := c.orphans.Round(ctx)
	c.reported("sweep", err)
}

func (c *caller) retention(ctx context.Context) {
	if !c.retains {
		return
	}
	_, err := c.retain.Round(ctx)
	c.reported("retention", err)
}

// reported keeps a fault of something that has no caller to answer.
func (c *caller) reported(what string, err error) {
	if err == nil || domain.CodeOf(err) == domain.CodeUnavailable {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.internal = append(c.internal, fmt.Sprintf("%s: %v", what, err))
}

// asker is a job, and its owner or a stranger.
func (c *caller) asker() (jobID, user string, ok bool) {
	job, ok := pick(c, 0, func() []domain.Job { return c.jobs })
	if c.chance(10) {
		return job.ID, c.stranger, ok
	}
	return job.ID, job.UserID, ok
}

func (c *caller) status(ctx context.Context) {
	id, user, ok := c.asker()
	if !ok {
		return
	}
	e := history.Event{Op: history.Status, Job: id, User: user, Call: c.now()}
	view, err := c.server().Status(ctx, user, id)
	e.Status = string(view.Status)
	c.answered(e, err)
}

// download reads in two halves: retention may come between them.
func (c *caller) download(ctx context.Context) {
	id, user, ok := c.asker()
	if !ok {
		return
	}
	e := history.Event{Op: history.Download, Job: id, User: user, Call: c.now()}
	result, err := c.server().OpenResult(ctx, user, id)
	if err == nil {
		hash := sha256.New()
		_, err = io.CopyN(hash, result.Content, result.Size/2)
		if c.chance(50) {
			c.retention(ctx)
		}
		if err == nil {
			_, err = io.Copy(hash, result.Content)
		}
		_ = result.Content.Close()
		e.Digest = hex.EncodeToString(hash.Sum(nil))
	}
	c.answered(e, err)
}
