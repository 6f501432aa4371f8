package jobs

import (
	"context"
	"io"

	"glovebox/system/server/internal/jobs/domain"
)

// InputFile is the input of an attempt. Close it.
type InputFile struct {
	Content io.ReadSeekCloser
	Size    int64
	SHA256  [32]byte
}

// OpenInput gives the assigned worker the job's input (MTL-04): whoever does not
// hold the lease now gets CodeLeaseLost. The bytes are not verified here: the
// worker compares them with the digest it got with the claim (JOB-12).
func (s *Service) OpenInput(ctx context.Context, fence domain.Fence) (*InputFile, error) {
	record, err := s.held(ctx, fence)
	if err != nil {
		return nil, err
	}
	content, err := s.Blobs.Open(ctx, record.Input.StorageKey)
	if err != nil {
		return nil, asUnavailable(err, "the input cannot be read now")
	}
	return &InputFile{Content: content, Size: record.Input.Size, SHA256: record.Input.SHA256}, nil
}

// held returns the job if fence holds its lease, else CodeLeaseLost. A job that
// does not exist is the same to a worker.
func (s *Service) held(ctx context.Context, fence domain.Fence) (Record, error) {
	record, err := s.Store.Look(ctx, fence.JobID)
	if domain.CodeOf(err) == domain.CodeNotFound || err == nil && !record.Job.HoldsLease(fence, record.Now) {
		return Record{}, domain.LeaseLost()
	}
	return record, err
}

// lost turns a job that does not exist into what a worker is told of it.
func lost(err error) error {
	if domain.CodeOf(err) == domain.CodeNotFound {
		return domain.LeaseLost()
	}
	return err
}
