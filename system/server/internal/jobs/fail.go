package jobs

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"
	"unicode"

	"glovebox/system/protocol"
	"glovebox/system/protocol/failure"
	"glovebox/system/server/internal/jobs/domain"
)

// Fail records an attempt's failure and returns the job's status: failed, or
// pending again (JOB-09). A code or pair against the table is CodeInvalidFailure
// (JOB-11). The same report again, from the same attempt, gets the same answer
// (JOB-04), and what the first one said of its run stays; anything else from an
// attempt that is over is CodeLeaseLost.
func (s *Service) Fail(ctx context.Context, fence domain.Fence, code failure.Code, retryable bool, detail string, provenance domain.Provenance) (domain.Status, error) {
	if err := domain.CheckFailure(code, retryable); err != nil {
		return "", err
	}
	detail = cleanDetail(detail)
	job, err := s.Store.Transition(ctx, Change{JobID: fence.JobID, Decide: func(job domain.Job, now time.Time) (domain.Job, *domain.Event, error) {
		next, event, err := job.Fail(fence, code, detail, domain.Backoff(job.Attempt, rand.Float64()), now)
		event.Provenance = provenance
		return next, &event, err
	}})
	if domain.CodeOf(err) == domain.CodeLeaseLost {
		status, ok, answerErr := s.Queue.AnsweredFailure(ctx, fence, string(code))
		if answerErr != nil {
			return "", answerErr
		}
		if ok {
			return status, nil
		}
	}
	if err != nil {
		return "", lost(err)
	}
	if job.Status == domain.Pending {
		s.Wake()
	}
	return job.Status, nil
}

// cleanDetail keeps printable text and bounds it: it ends in a terminal and a log.
func cleanDetail(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if len(text) > protocol.MaxDetailBytes {
		text = strings.ToValidUTF8(text[:protocol.MaxDetailBytes], "")
	}
	return text
}
