package jobs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"glovebox/system/server/internal/jobs/domain"
)

// ResultFile is a completed job's result. Close its content. A download that has
// it open is not cut by retention (STO-05).
type ResultFile struct {
	Content     io.ReadSeekCloser
	Size        int64
	SHA256      [32]byte
	FileName    string // of the input, for display
	CompletedAt time.Time
	ExpiresAt   time.Time
}

// OpenResult gives the owner the result of a completed job (JOB-07):
// CodeNotFound, CodeNotCompleted, or CodeExpired after retention. Bytes that are
// not the ones that were completed are never given out: their digest is computed
// before the first byte is served, and remembered for as long as the file does
// not change (see verified). Such damage is an error without a code.
func (s *Service) OpenResult(ctx context.Context, userID, jobID string) (*ResultFile, error) {
	record, err := s.Store.Get(ctx, userID, jobID)
	if err != nil {
		return nil, err
	}
	job := record.Job
	if job.Status != domain.Completed {
		return nil, domain.Refuse(domain.CodeNotCompleted, "the job is %s; its result can be downloaded once it is completed", job.Status)
	}
	if err := s.expired(record); err != nil {
		return nil, err
	}
	content, err := s.Blobs.Open(ctx, job.Result.StorageKey)
	if errors.Is(err, fs.ErrNotExist) {
		// Retention may have come between the two looks: the row says so then, since
		// the mark is set before any byte goes.
		if again, lookErr := s.Store.Get(ctx, userID, jobID); lookErr == nil {
			if gone := s.expired(again); gone != nil {
				return nil, gone
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the result of job %s: %w", job.ID, err)
	}
	if err := s.verify(ctx, job, content); err != nil {
		_ = content.Close()
		return nil, err
	}
	return &ResultFile{
		Content: content, Size: job.Result.Size, SHA256: job.Result.SHA256,
		FileName: record.Input.FileName, CompletedAt: job.TerminalAt, ExpiresAt: job.TerminalAt.Add(s.settings.Retention),
	}, nil
}

// expired returns CodeExpired for a completed job whose result retention has
// taken, or would take now (JOB-05).
func (s *Service) expired(record Record) error {
	if record.Job.KeepsResult(s.settings.Retention, record.Now) {
		return nil
	}
	until := record.Job.TerminalAt.Add(s.settings.Retention)
	return domain.Refuse(domain.CodeExpired, "the result was kept until %s", until.UTC().Format(time.RFC3339))
}

// verify compares content with what the job completed with, and leaves it at its
// beginning.
func (s *Service) verify(ctx context.Context, job domain.Job, content io.ReadSeeker) error {
	end, err := content.Seek(0, io.SeekEnd)
	if err == nil && end != job.Result.Size {
		err = fmt.Errorf("it has %d bytes instead of %d", end, job.Result.Size)
	}
	if err == nil && !s.verified.knows(job.Result.StorageKey, content) {
		err = s.compareDigest(ctx, job, content)
	}
	if err == nil {
		_, err = content.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("verify the stored result of job %s: %w", job.ID, err)
	}
	return nil
}

func (s *Service) compareDigest(ctx context.Context, job domain.Job, content io.ReadSeeker) error {
	// The identity is taken first: a change while the bytes are read makes what is
	// remembered useless, not wrong.
	identity := identify(content)
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return err
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, contextReader{ctx, content}); err != nil {
		return err
	}
	if [32]byte(hash.Sum(nil)) != job.Result.SHA256 {
		return fmt.Errorf("its bytes are not the ones that were completed; restore storage key %s from a backup", job.Result.StorageKey)
	}
	s.verified.remember(job.Result.StorageKey, identity)
	return nil
}
