package domain_test

import (
	"cmp"
	"flag"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"glovebox/system/protocol/failure"
	"glovebox/system/server/internal/jobs/domain"
	"glovebox/threat-model/evidence"
)

// StepsEnv sets how many steps the model takes at least.
const (
	StepsEnv  = "GLOVEBOX_MODEL_STEPS"
	stepsInCI = 100_000
	retention = 5 * time.Minute
)

// model is what a job must be, written without the code under test: a list of
// claims, each with its holder and the end of its lease, and one final answer.
type model struct {
	claims  []modelClaim
	open    bool // the last claim is running
	counted int  // attempts that count
	backs   int
	final   string // "", "completed" or "failed"
	sum     string
	due     time.Time
	ended   time.Time
	purged  bool
}

type modelClaim struct {
	worker string
	ends   time.Time
}

// holds says whether this worker with this token has the job now.
func (m *model) holds(worker string, token int64, now time.Time) bool {
	if !m.open || token != int64(len(m.claims)) {
		return false
	}
	last := m.claims[len(m.claims)-1]
	return last.worker == worker && now.Before(last.ends)
}

// leaves says that the attempt is over: the job waits, or is at its end.
func (m *model) leaves(pending bool, wait time.Duration, now time.Time) {
	m.open = false
	if pending {
		m.due = now.Add(wait)
	} else {
		m.final, m.ended = "failed", now
	}
}

// pair is a job and what it must be.
type pair struct {
	job   domain.Job
	model *model
}

// play is one run: at most some jobs, one clock.
type play struct {
	now   time.Time
	pairs []*pair
	most  int
	steps *int
	// patient runs show right fences and do little that ends a job, so that it comes
	// to its eleventh hand-back and its last attempt.
	patient bool
}

var (
	workers  = rapid.SampledFrom([]string{"w-1", "w-2"})
	contents = rapid.SampledFrom([]string{"x", "y"})
	codes    = rapid.SampledFrom([]failure.Code{
		failure.Timeout, failure.InvalidInput, failure.WorkerShutdown, failure.WorkerShutdown, failure.SandboxFailure, failure.WorkerLost})
)

// reportable are the codes of the list above that a worker may say of itself.
var reportable = []failure.Code{failure.Timeout, failure.InvalidInput, failure.WorkerShutdown, failure.SandboxFailure}

// TestAnyInterleavingOfRequestsAgreesWithTheModel drives some jobs by
// submissions, claims, heartbeats, results, failures, hand-backs, verdicts,
// expiries, retention and the clock in any order, with right and wrong fences, and
// compares every answer with the model.
func TestAnyInterleavingOfRequestsAgreesWithTheModel(t *testing.T) {
	evidence.Proves(t, "HAR-05", "JOB-01", "JOB-02", "JOB-03", "JOB-04", "JOB-05", "JOB-06", "JOB-08", "JOB-09", "JOB-11")
	want, err := strconv.Atoi(cmp.Or(os.Getenv(StepsEnv), strconv.Itoa(stepsInCI)))
	if err != nil {
		t.Fatalf("%s must be a whole number", StepsEnv)
	}
	// Long runs: some rules are about the tenth time.
	if err := flag.Set("rapid.steps", "300"); err != nil {
		t.Fatal(err)
	}
	steps, failedAt := 0, 0
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("disagreed after %d steps of the model", failedAt)
		}
	})
	for steps < want {
		rapid.Check(t, func(t *rapid.T) {
			held := false
			defer func() {
				if !held && failedAt == 0 {
					failedAt = steps // later ones are rapid's, which looks for a shorter run
				}
			}()
			p := &play{now: start, steps: &steps, most: rapid.IntRange(1, 3).Draw(t, "jobs"), patient: rapid.Bool().Draw(t, "patient")}
			if p.patient {
				p.most = 1
			}
			p.submit(t)
			t.Repeat(map[string]func(*rapid.T){
				"submit": p.submit, "clock": p.clock, "claim": p.claim, "heartbeat": p.heartbeat, "finish": p.finish,
				"fail": p.fail, "hand back": p.handBack, "expire": p.expire, "reject": p.reject, "retain": p.retain, "": p.agrees,
			})
			held = true
		})
	}
	t.Logf("%d steps of the model, no disagreement", steps)
}

// one counts a step and picks the job it is about.
func (p *play) one(t *rapid.T) *pair {
	*p.steps++
	return p.pairs[rapid.IntRange(0, len(p.pairs)-1).Draw(t, "job")]
}

// spared reports whether a patient run leaves the job alone this time.
func (p *play) spared(t *rapid.T) bool {
	return p.patient && rapid.IntRange(0, 9).Draw(t, "spared") > 0
}

// fence shows the current attempt, or one beside it, or another worker.
func (p *play) fence(t *rapid.T, m *model) domain.Fence {
	if m.open && (p.patient || rapid.Bool().Draw(t, "right fence")) {
		return domain.Fence{JobID: "j", WorkerID: m.claims[len(m.claims)-1].worker, FencingToken: int64(len(m.claims))}
	}
	token := rapid.Int64Range(int64(len(m.claims))-1, int64(len(m.claims))+1).Draw(t, "token")
	return domain.Fence{JobID: "j", WorkerID: workers.Draw(t, "worker"), FencingToken: token}
}

// apply compares an answer with the one that the model wants, and makes next the
// job; false for a refusal.
func (x *pair) apply(t *rapid.T, next domain.Job, event *domain.Event, err error, want domain.Code) bool {
	if domain.CodeOf(err) != want {
		t.Fatalf("answer %v, the model says code %q; job %+v", err, want, x.job)
	}
	if err != nil {
		if next != x.job {
			t.Fatalf("a refusal changed the job from %+v to %+v", x.job, next)
		}
		return false
	}
	if event != nil && !domain.Allowed(event.From, event.To, event.Cause) {
		t.Fatalf("an arrow that does not exist: %+v", *event)
	}
	if event != nil && (event.From != x.job.Status || event.To != next.Status) {
		t.Fatalf("the event %+v is not what happened to %s -> %s", *event, x.job.Status, next.Status)
	}
	x.job = next
	return true
}

func (p *play) submit(t *rapid.T) {
	*p.steps++
	if len(p.pairs) == p.most {
		return
	}
	j := pending()
	j.MaxAttempts = rapid.IntRange(1, 4).Draw(t, "max attempts")
	j.NextAttemptAt = p.now
	p.pairs = append(p.pairs, &pair{j, &model{due: p.now}})
}

func (p *play) clock(t *rapid.T) {
	*p.steps++
	if p.spared(t) {
		return
	}
	p.now = p.now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
}

func (p *play) claim(t *rapid.T) {
	x, worker := p.one(t), workers.Draw(t, "worker")
	m := x.model
	want := domain.Code("")
	if m.open || m.final != "" || p.now.Before(m.due) {
		want = domain.CodeConflict
	}
	next, event, err := x.job.Claim(worker, lease, p.now)
	if x.apply(t, next, &event, err, want) {
		m.claims = append(m.claims, modelClaim{worker, p.now.Add(lease)})
		m.open = true
		m.counted++
	}
}

func (p *play) heartbeat(t *rapid.T) {
	x := p.one(t)
	m, f := x.model, p.fence(t, x.model)
	want := domain.CodeLeaseLost
	if m.holds(f.WorkerID, f.FencingToken, p.now) {
		want = ""
	}
	next, err := x.job.Heartbeat(f, lease, p.now)
	if x.apply(t, next, nil, err, want) {
		m.claims[len(m.claims)-1].ends = p.now.Add(lease)
	}
}

func (p *play) finish(t *rapid.T) {
	x := p.one(t)
	if p.spared(t) {
		return
	}
	m, f, content := x.model, p.fence(t, x.model), contents.Draw(t, "content")
	mine := m.final == "completed" && f.FencingToken == int64(len(m.claims)) && m.claims[len(m.claims)-1].worker == f.WorkerID
	want, wantRepeat := domain.CodeLeaseLost, false
	switch {
	case mine && m.sum == content:
		want, wantRepeat = "", true
	case mine:
		want = domain.CodeConflict
	case m.holds(f.WorkerID, f.FencingToken, p.now):
		want = ""
	}
	before := x.job
	next, event, repeat, err := x.job.Finish(f, stored(content), p.now)
	if repeat != wantRepeat || repeat && next != before {
		t.Fatalf("repeat %v, the model says %v", repeat, wantRepeat)
	}
	if repeat {
		return
	}
	if x.apply(t, next, &event, err, want) {
		m.open, m.final, m.sum, m.ended = false, "completed", content, p.now
	}
}

func (p *play) fail(t *rapid.T) {
	x := p.one(t)
	if !p.spared(t) {
		p.failWith(t, x, codes.Draw(t, "code"))
	}
}

func (p *play) handBack(t *rapid.T) { p.failWith(t, p.one(t), failure.WorkerShutdown) }

func (p *play) failWith(t *rapid.T, x *pair, code failure.Code) {
	m, f := x.model, p.fence(t, x.model)
	want := domain.CodeLeaseLost
	switch {
	case !slices.Contains(reportable, code):
		want = domain.CodeInvalidFailure
	case m.holds(f.WorkerID, f.FencingToken, p.now):
		want = ""
	}
	next, event, err := x.job.Fail(f, code, "", 10*time.Second, p.now)
	if !x.apply(t, next, &event, err, want) {
		return
	}
	switch {
	case code == failure.WorkerShutdown && m.backs < 10:
		m.backs++
		m.counted--
		m.leaves(true, 0, p.now)
	case code == failure.InvalidInput:
		m.leaves(false, 0, p.now)
	default:
		m.leaves(m.counted < x.job.MaxAttempts, 10*time.Second, p.now)
	}
}

func (p *play) expire(t *rapid.T) {
	x := p.one(t)
	m := x.model
	want := domain.CodeConflict
	if m.open && !p.now.Before(m.claims[len(m.claims)-1].ends) {
		want = ""
	}
	next, event, err := x.job.Expire(10*time.Second, p.now)
	if x.apply(t, next, &event, err, want) {
		m.leaves(m.counted < x.job.MaxAttempts, 10*time.Second, p.now)
	}
}

// reject is an inspection's verdict, or a code that is none.
func (p *play) reject(t *rapid.T) {
	x := p.one(t)
	if p.spared(t) || rapid.IntRange(0, 4).Draw(t, "verdict") > 0 {
		return // else most jobs would end here
	}
	code := rapid.SampledFrom([]failure.Code{failure.RejectedTooLarge, failure.Timeout}).Draw(t, "code")
	want := domain.Code("")
	switch {
	case code == failure.Timeout:
		want = domain.CodeInvalidFailure
	case x.model.open || x.model.final != "":
		want = domain.CodeConflict
	}
	next, event, err := x.job.Reject(code, p.now)
	if x.apply(t, next, &event, err, want) {
		x.model.leaves(false, 0, p.now)
	}
}

// retain does what the sweeper does with the domain's word.
func (p *play) retain(t *rapid.T) {
	x := p.one(t)
	keeps := x.model.final != "" && !x.model.purged && p.now.Sub(x.model.ended) < retention
	if x.job.KeepsResult(retention, p.now) != keeps {
		t.Fatalf("kept %v, the model says %v; job %+v at %s", !keeps, keeps, x.job, p.now)
	}
	if x.model.final != "" && !keeps && !x.model.purged {
		x.job.PurgedAt, x.model.purged = p.now, true
	}
}

// agrees compares every job with its model, and with its own invariants.
func (p *play) agrees(t *rapid.T) {
	for _, x := range p.pairs {
		agrees(t, x.job, x.model)
	}
}

// agrees compares the job with the model, and the job with its own invariants.
func agrees(t *rapid.T, j domain.Job, m *model) {
	status := domain.Pending
	switch {
	case m.open:
		status = domain.Processing
	case m.final == "completed":
		status = domain.Completed
	case m.final == "failed":
		status = domain.Failed
	}
	if j.Status != status || j.Attempt != m.counted || j.HandBacks != m.backs || j.FencingToken != int64(len(m.claims)) {
		t.Fatalf("the job is %+v, the model says %s, %d attempts, %d hand-backs, %d claims", j, status, m.counted, m.backs, len(m.claims))
	}
	if j.UserID != "u" || j.AssetID != "a" {
		t.Fatalf("the owner or the asset changed: %+v", j)
	}
	if (j.Status == domain.Processing) != (j.WorkerID != "" && !j.LeaseExpires.IsZero()) {
		t.Fatalf("processing and assigned are not the same: %+v", j)
	}
	if (j.Status == domain.Completed) != (j.Result != nil) || j.Status.Terminal() != !j.TerminalAt.IsZero() {
		t.Fatalf("completed without a result, or the end without a time: %+v", j)
	}
	if j.Status == domain.Failed && j.ErrorCode == "" || j.Status == domain.Completed && j.ErrorCode != "" {
		t.Fatalf("the error code does not fit the status: %+v", j)
	}
	if j.Result != nil && j.Result.SHA256 != stored(m.sum).SHA256 {
		t.Fatalf("the result is not the one that was accepted")
	}
}
