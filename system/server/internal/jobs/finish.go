package jobs

import (
	"context"
	"fmt"
	"io"
	"time"

	"glovebox/system/server/internal/jobs/crashpoint"
	"glovebox/system/server/internal/jobs/domain"
)

// Finish stores an attempt's result and completes the job (STO-02):
//
//  1. worker, status, lease and token are checked
//  2. the body is streamed to a temporary file, counted and hashed
//  3. its digest is compared with the one the worker declared, its size with what
//     may still be kept for the job's owner (UPL-10)
//  4. the file is synced, renamed to a name of job, token and randomness, and the
//     folder synced
//  5. one transaction checks status, lease, token and the owner's cap again, and
//     that the file is still there, and completes the job
//
// A failure anywhere leaves the job processing and at most an orphan. The same
// result again, from the same attempt, gets the same answer (JOB-04), and what the
// first request said of its run stays; other bytes are CodeConflict; CodeInvalid,
// CodeTooLarge, CodeInsufficientStorage and CodeLeaseLost are the other refusals.
func (s *Service) Finish(ctx context.Context, fence domain.Fence, declared [32]byte, provenance domain.Provenance, body io.Reader) (View, error) {
	record, err := s.Store.Look(ctx, fence.JobID)
	if err != nil {
		return View{}, lost(err)
	}
	if record.Job.CompletedBy(fence) {
		return s.finishedAgain(ctx, record, fence, declared, body)
	}
	if !record.Job.HoldsLease(fence, record.Now) {
		return View{}, domain.LeaseLost()
	}
	crashpoint.Reached(crashpoint.FinishChecked)
	leave, err := s.receiving.enter(fence)
	if err != nil {
		return View{}, err
	}
	defer leave()

	staged, err := s.Blobs.Stage(ctx, body, s.settings.MaxResultBytes)
	if err != nil {
		return View{}, err
	}
	defer s.discard(ctx, staged)
	crashpoint.Reached(crashpoint.FinishStaged)
	if err := matchesDeclared(staged.SHA256(), &declared); err != nil {
		return View{}, err
	}
	if err := s.hasRoom(ctx, record.Job.UserID, staged.Size()); err != nil {
		return s.unlessFinished(ctx, fence, staged.SHA256(), err)
	}
	crashpoint.Reached(crashpoint.FinishVerified)

	ctx, cancel := settle(ctx)
	defer cancel()
	result := domain.Result{
		StorageKey: fmt.Sprintf("result/%s/%d-%s", fence.JobID, fence.FencingToken, randomName()),
		Size:       staged.Size(), SHA256: staged.SHA256(),
	}
	if err := staged.Commit(ctx, result.StorageKey); err != nil {
		return View{}, asUnavailable(err, "the result cannot be stored now")
	}
	crashpoint.Reached(crashpoint.FinishStored)
	pin := s.pin(result.StorageKey, crashpoint.FinishBeforeCommit)
	job, err := s.Store.Transition(ctx, Change{JobID: fence.JobID, Pin: &pin, StoredBytes: s.settings.Limits.StoredBytes, Decide: func(job domain.Job, now time.Time) (domain.Job, *domain.Event, error) {
		next, event, repeat, err := job.Finish(fence, result, now)
		if err != nil || repeat {
			return next, nil, err
		}
		event.Provenance = provenance
		return next, &event, nil
	}})
	if err != nil {
		return s.unlessFinished(ctx, fence, result.SHA256, lost(err))
	}
	crashpoint.Reached(crashpoint.FinishCommitted)
	record.Job = job
	return s.view(record), nil
}

// hasRoom refuses a result that goes beyond its owner's cap before it is renamed to
// a name that only the sweeper would remove.
func (s *Service) hasRoom(ctx context.Context, userID string, size int64) error {
	kept, err := s.Store.StoredBytes(ctx, userID)
	if err != nil {
		return err
	}
	if kept+size > s.settings.Limits.StoredBytes {
		return BeyondCap(s.settings.Limits.StoredBytes)
	}
	return nil
}

// unlessFinished returns refused, but for the repeat of a result that was accepted
// while the repeat was on its way: what was accepted counts against the cap by then,
// so that the repeat alone seems not to fit (JOB-04).
func (s *Service) unlessFinished(ctx context.Context, fence domain.Fence, sum [32]byte, refused error) (View, error) {
	if domain.CodeOf(refused) != domain.CodeTooLarge {
		return View{}, refused
	}
	record, err := s.Store.Look(ctx, fence.JobID)
	if err != nil || !record.Job.CompletedBy(fence) {
		return View{}, refused
	}
	if _, err := record.Job.FinishedBy(fence, sum); err != nil {
		return View{}, err
	}
	return s.view(record), nil
}

// BeyondCap is the refusal of a result that would exceed what may be kept for the
// job's owner. The worker reports it as output_too_large, which ends the job.
func BeyondCap(limit int64) error {
	return domain.Refuse(domain.CodeTooLarge, "the result would exceed the %d bytes that may be stored for the job's owner", limit)
}

// finishedAgain answers the repeat of a result whose answer was lost.
func (s *Service) finishedAgain(ctx context.Context, record Record, fence domain.Fence, declared [32]byte, body io.Reader) (View, error) {
	sum, err := drain(ctx, body, s.settings.MaxResultBytes)
	if err != nil {
		return View{}, err
	}
	if err := matchesDeclared(sum, &declared); err != nil {
		return View{}, err
	}
	if _, err := record.Job.FinishedBy(fence, sum); err != nil {
		return View{}, err
	}
	return s.view(record), nil
}
