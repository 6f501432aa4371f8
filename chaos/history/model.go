package history

import (
	"fmt"
	"strings"
)

// state is the model of one job: what it must be, written without the code under
// test. It is a value that == compares, as porcupine wants it.
type state struct {
	status  string // "" before it was submitted
	owner   string
	attempt int
	backs   int
	token   int64
	worker  string // holder while processing, finisher once completed
	live    bool   // the holder's lease
	digest  string
	purged  bool
	// requests holds the claims there were, and failures the failures that were
	// reported, each with the answer: a repeat must get the same.
	requests, failures string
}

// question is what the model steps over: an event, or a transition that no event
// explains.
type question struct {
	Event
	// cause is set for what the clock, the sweeper or somebody unseen did, and for
	// the reading of the row at the end (row).
	cause string
	to    string
	row   *Job
}

// causes of questions that are no transition.
const (
	rowRead = "row"
	purge   = "purge"
)

// retryable failure codes and the one that hands back: the table of requirement
// JOB-11, written down again.
var retryable = map[string]bool{
	"timeout": true, "out_of_memory": true, "sandbox_failure": true, "worker_lost": true, "worker_shutdown": true,
}

const shutdown = "worker_shutdown"

// model judges the questions about one job.
type model struct {
	maxAttempts int
	rules       Rules
}

// step says whether a job in state s may have given the answer of q, and what the
// job is after it. What is Maybe is applied where it can be and else had no
// effect: having no return it may stand at the very end, where that is the same as
// never.
func (m model) step(s state, q question) (bool, state) {
	if q.Outcome == Maybe {
		q.Outcome = OK
		q.Status, q.Refusal = "", ""
		if ok, next := m.answered(s, q); ok {
			return true, next
		}
		return true, s
	}
	return m.answered(s, q)
}

func (m model) answered(s state, q question) (bool, state) {
	if q.cause != "" {
		return m.unseen(s, q)
	}
	switch q.Op {
	case Submit:
		return m.submit(s, q)
	case Status:
		if s.status == "" || s.foreign(q) {
			return q.Refusal == "not_found", s
		}
		return q.Outcome == OK && q.Status == s.status, s
	case Download:
		return m.download(s, q), s
	case Claim:
		return m.claim(s, q)
	case Heartbeat:
		if q.Outcome == OK {
			return m.holds(s, q), s
		}
		return q.Refusal == "lease_lost" && m.mayRefuse(s, q), s
	case Finish:
		return m.finish(s, q)
	case Fail:
		return m.fail(s, q)
	case LeaseOver:
		if s.status != Processing || s.token != q.Token {
			return false, s
		}
		s.live = false
		return true, s
	}
	return false, s
}

// holds reports whether q shows the current fence. A lease whose end the harness
// does not see counts as living.
func (m model) holds(s state, q question) bool {
	return s.status == Processing && s.worker == q.Worker && s.token == q.Token && s.live
}

// foreign reports whether q is of another user than the job, where that is known.
func (s state) foreign(q question) bool { return s.owner != "" && s.owner != q.User }

// mayRefuse reports whether a lost lease is a right answer to q: always where the
// lease may have run out unseen.
func (m model) mayRefuse(s state, q question) bool {
	return !m.rules.LeasesEndByHand || !m.holds(s, q)
}

func (m model) submit(s state, q question) (bool, state) {
	if q.Outcome == Refused {
		// A key whose first request is running: not any more once the job is there.
		return q.Refusal != "idempotency_in_flight" || s.status == "", s
	}
	if s.status == "" {
		s.status, s.owner = Pending, q.User
	}
	return !s.foreign(q) && (q.Status == "" || q.Status == s.status), s
}

func (m model) download(s state, q question) bool {
	switch {
	case s.status == "" || s.foreign(q):
		return q.Refusal == "not_found"
	case s.status != Completed:
		return q.Refusal == "job_not_completed"
	case s.purged || !m.rules.LeasesEndByHand && q.Refusal == "result_expired":
		return q.Refusal == "result_expired"
	}
	return q.Outcome == OK && (s.digest == "" || q.Digest == s.digest)
}

func (m model) claim(s state, q question) (bool, state) {
	mine := fmt.Sprintf("%s/%s=", q.Worker, q.Request)
	if q.Request != "" && strings.Contains(s.requests, ";"+mine) {
		current := strings.Contains(s.requests, fmt.Sprintf(";%s%d;", mine, s.token)) && s.status == Processing && s.worker == q.Worker
		if q.Outcome == Refused {
			return q.Refusal == "conflict" && (!m.rules.LeasesEndByHand || !current || !s.live), s
		}
		return current && s.live && q.Token == s.token && (q.Attempt == 0 || q.Attempt == s.attempt), s
	}
	if q.Outcome == Refused { // "none": there was no work for it
		return q.Refusal == None, s
	}
	if s.status != Pending || q.Token != s.token+1 || q.Attempt != 0 && q.Attempt != s.attempt+1 || s.attempt >= m.maxAttempts {
		return false, s
	}
	s.status, s.worker, s.live = Processing, q.Worker, true
	s.attempt++
	s.token++
	if q.Request != "" {
		s.requests = noted(s.requests, fmt.Sprintf("%s%d", mine, s.token))
	}
	return true, s
}

func (m model) finish(s state, q question) (bool, state) {
	if s.status == Completed && s.worker == q.Worker && s.token == q.Token {
		if q.Digest == s.digest || s.digest == "" {
			return q.Outcome == OK, s
		}
		return q.Refusal == "conflict", s
	}
	if q.Outcome == Refused {
		return q.Refusal == "lease_lost" && m.mayRefuse(s, q), s
	}
	if !m.holds(s, q) {
		return false, s
	}
	s.status, s.digest, s.live = Completed, q.Digest, false
	return true, s
}

func (m model) fail(s state, q question) (bool, state) {
	mine := fmt.Sprintf("%d/%s/%s=", q.Token, q.Worker, q.Code)
	if strings.Contains(s.failures, ";"+mine) {
		return q.Outcome == OK && (q.Status == "" || strings.Contains(s.failures, ";"+mine+q.Status+";")), s
	}
	if q.Outcome == Refused {
		return q.Refusal == "lease_lost" && m.mayRefuse(s, q), s
	}
	if !m.holds(s, q) {
		return false, s
	}
	switch {
	case q.Code == shutdown && s.backs < maxHandBacks:
		s.status = Pending
		s.attempt--
		s.backs++
	case retryable[q.Code] && s.attempt < m.maxAttempts:
		s.status = Pending
	default:
		s.status = Failed
	}
	s.worker, s.live = "", false
	s.failures = noted(s.failures, mine+s.status)
	return q.Status == "" || q.Status == s.status, s
}

// unseen steps over what no recorded caller asked for.
func (m model) unseen(s state, q question) (bool, state) {
	switch q.cause {
	case LeaseLost, Exhausted:
		if s.status != Processing || s.token != q.Token || s.worker != q.Worker || m.rules.LeasesEndByHand && s.live {
			return false, s
		}
		s.status = Pending
		if s.attempt >= m.maxAttempts {
			s.status = Failed
		}
		s.worker, s.live = "", false
		return s.status == q.to, s
	case Rejected:
		if s.status != Pending {
			return false, s
		}
		s.status = Failed
		return true, s
	case purge:
		if !Terminal(s.status) {
			return false, s
		}
		s.purged = true
		return true, s
	case Submitted:
		if s.status != "" {
			return false, s
		}
		s.status, s.owner = Pending, q.User
		return true, s
	case Finished:
		q.cause, q.Op = "", Finish
		return m.finish(s, q)
	case Claimed:
		q.cause, q.Op = "", Claim
		return m.claim(s, q)
	case FailedFor, Retried, HandedBack:
		return m.ended(s, q)
	case rowRead:
		j := q.row
		held := ""
		if s.status == Processing {
			held = s.worker
		}
		sameResult := s.digest == "" || j.ResultDigest == "" || s.digest == j.ResultDigest
		return s.status == j.Status && s.token == j.FencingToken && s.attempt == j.Attempt && held == j.WorkerID && sameResult, s
	}
	return false, s
}

// ended is a failure of which only the transition is known, not the code.
func (m model) ended(s state, q question) (bool, state) {
	if s.status != Processing || s.token != q.Token || s.worker != q.Worker {
		return false, s
	}
	switch q.cause {
	case HandedBack:
		if s.backs >= maxHandBacks {
			return false, s
		}
		s.status = Pending
		s.attempt--
		s.backs++
	case Retried:
		if s.attempt >= m.maxAttempts {
			return false, s
		}
		s.status = Pending
	default:
		s.status = Failed
	}
	s.worker, s.live = "", false
	return true, s
}

// noted appends an entry to a list in which each is found between semicolons.
func noted(list, entry string) string {
	if list == "" {
		list = ";"
	}
	return list + entry + ";"
}
