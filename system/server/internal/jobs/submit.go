package jobs

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"time"

	"glovebox/system/server/internal/jobs/crashpoint"
	"glovebox/system/server/internal/jobs/domain"
)

// Submission is a request to process a file.
type Submission struct {
	UserID string
	// FileName is a label for display, already made harmless by the front.
	FileName string
	// IdempotencyKey is 1 to 255 printable ASCII characters, or "".
	IdempotencyKey string
	// Declared is the SHA-256 of the file's bytes as the client says it, or nil.
	Declared      *[32]byte
	CorrelationID string
}

// Receipt is the answer to a submission.
type Receipt struct {
	View
	// Replayed says that the key had led to this job before.
	Replayed bool
}

const (
	maxFileName = 255 // bytes
	maxKey      = 255 // bytes
)

// Submit stores body and makes a pending job of it (UPL-01, API-04). Refusals:
// CodeInvalid (key, or bytes that differ from the declared digest; the key stays
// free), CodeLimitExceeded, CodeTooLarge, CodeInsufficientStorage,
// CodeIdempotencyInFlight, CodeIdempotencyMismatch. A body that breaks gives its
// own error. Whatever fails, the key and the slot are free again, and at most an
// orphan file is left.
func (s *Service) Submit(ctx context.Context, sub Submission, body io.Reader) (Receipt, error) {
	if err := checkKey(sub.IdempotencyKey); err != nil {
		return Receipt{}, err
	}
	sub.FileName = label(sub.FileName)
	upload := Upload{ID: newID(), UserID: sub.UserID, Key: sub.IdempotencyKey, Limits: s.settings.Limits}
	if sub.Declared != nil {
		known := fingerprint(*sub.Declared, sub.FileName)
		upload.Fingerprint = &known
	}
	replay, err := s.Uploads.Begin(ctx, upload)
	if err != nil {
		return Receipt{}, err
	}
	if replay != "" {
		return s.replay(ctx, sub, body)
	}
	crashpoint.Reached(crashpoint.SubmitBegun)
	stop := s.keepUpload(ctx, upload.ID)
	record, err := s.receive(ctx, sub, upload, body)
	stop()
	if err != nil {
		ending, cancel := settle(ctx)
		defer cancel()
		if endErr := s.Uploads.End(ending, upload.ID); endErr != nil {
			s.settings.Log.WarnContext(ctx, "an upload's slot and key could not be given back; they free themselves", "error", endErr)
		}
		return Receipt{}, err
	}
	s.Wake()
	return Receipt{View: s.view(record)}, nil
}

// receive stores the body and records the job.
func (s *Service) receive(ctx context.Context, sub Submission, upload Upload, body io.Reader) (Record, error) {
	staged, err := s.Blobs.Stage(ctx, body, s.settings.MaxInputBytes)
	if err != nil {
		return Record{}, err
	}
	defer s.discard(ctx, staged)
	crashpoint.Reached(crashpoint.SubmitStaged)
	sum := staged.SHA256()
	if err := matchesDeclared(sum, sub.Declared); err != nil {
		return Record{}, err
	}
	if err := s.Uploads.Reserve(ctx, upload, staged.Size()); err != nil {
		return Record{}, err
	}
	ctx, cancel := settle(ctx)
	defer cancel()
	key := "input/" + randomName()
	if err := staged.Commit(ctx, key); err != nil {
		return Record{}, err
	}
	crashpoint.Reached(crashpoint.SubmitStored)
	record, err := s.Store.Create(ctx, NewJob{
		ID: newID(), UserID: sub.UserID, AssetID: newID(), MaxAttempts: s.settings.MaxAttempts,
		Input:    Input{StorageKey: key, FileName: sub.FileName, Size: staged.Size(), SHA256: sum},
		UploadID: upload.ID, Key: sub.IdempotencyKey, Fingerprint: fingerprint(sum, sub.FileName),
		Pin: s.pin(key, crashpoint.SubmitBeforeCommit), Limits: s.settings.Limits, CorrelationID: sub.CorrelationID,
	})
	if err != nil {
		return Record{}, err // the file is an orphan now, which the sweeper takes
	}
	crashpoint.Reached(crashpoint.SubmitCommitted)
	return record, nil
}

// replay answers a request whose key led to a job already. The body is read to
// its end and judged: the same key with other bytes is a mismatch, whatever
// digest was declared.
func (s *Service) replay(ctx context.Context, sub Submission, body io.Reader) (Receipt, error) {
	sum, err := drain(ctx, body, s.settings.MaxInputBytes)
	if err != nil {
		return Receipt{}, err
	}
	if err := matchesDeclared(sum, sub.Declared); err != nil {
		return Receipt{}, err
	}
	jobID, err := s.Uploads.Match(ctx, sub.UserID, sub.IdempotencyKey, fingerprint(sum, sub.FileName))
	if err != nil {
		return Receipt{}, err
	}
	record, err := s.Store.Get(ctx, sub.UserID, jobID)
	if err != nil {
		return Receipt{}, err
	}
	return Receipt{View: s.view(record), Replayed: true}, nil
}

// keepUpload renews the upload until the returned function is called, which
// waits for the end of a renewal in progress.
func (s *Service) keepUpload(ctx context.Context, id string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(UploadRenewal)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := s.Uploads.Renew(ctx, id); err != nil && ctx.Err() == nil {
					s.settings.Log.WarnContext(ctx, "an upload could not be renewed", "error", err)
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (s *Service) discard(ctx context.Context, staged Staged) {
	if err := staged.Discard(); err != nil {
		s.settings.Log.WarnContext(ctx, "a temporary file could not be removed; the sweeper takes it", "error", err)
	}
}

// pin holds key for the transaction that makes a row name it; at is passed when
// everything but COMMIT is said.
func (s *Service) pin(key string, at crashpoint.Point) Pin {
	return Pin{Key: key, Exists: func(ctx context.Context) error {
		content, err := s.Blobs.Open(ctx, key)
		if err != nil {
			return err
		}
		crashpoint.Reached(at)
		return content.Close()
	}}
}

// drain reads body to its end and returns its digest, keeping nothing.
func drain(ctx context.Context, body io.Reader, limit int64) ([32]byte, error) {
	hash := sha256.New()
	n, err := io.Copy(hash, io.LimitReader(contextReader{ctx, body}, limit+1))
	if err != nil {
		return [32]byte{}, err
	}
	if n > limit {
		return [32]byte{}, domain.Refuse(domain.CodeTooLarge, "the content is larger than %d bytes", limit)
	}
	return [32]byte(hash.Sum(nil)), nil
}

// contextReader ends a long copy when its request ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// matchesDeclared refuses bytes that are not the declared ones.
func matchesDeclared(sum [32]byte, declared *[32]byte) error {
	if declared != nil && subtle.ConstantTimeCompare(sum[:], declared[:]) != 1 {
		return domain.Refuse(domain.CodeInvalid, "the bytes received do not have the declared digest; send the file again")
	}
	return nil
}

// fingerprint is what tells the same request from another under one key: the
// file's digest and the canonical fields. It is never made of the multipart body,
// whose boundary differs on an honest retry.
func fingerprint(sum [32]byte, fileName string) [32]byte {
	h := sha256.New()
	h.Write([]byte("glovebox submission v1\x00"))
	h.Write(sum[:])
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(fileName)))
	h.Write(size[:])
	h.Write([]byte(fileName))
	return [32]byte(h.Sum(nil))
}

func checkKey(key string) error {
	if len(key) > maxKey {
		return domain.Refuse(domain.CodeInvalid, "the Idempotency-Key is longer than %d characters", maxKey)
	}
	for i := range len(key) {
		if key[i] < 0x21 || key[i] > 0x7e {
			return domain.Refuse(domain.CodeInvalid, "the Idempotency-Key has a character that is not printable ASCII")
		}
	}
	return nil
}

// label bounds a display name and takes out what a database cannot hold. The
// front has made it harmless already; this is for the doors that forgot.
func label(name string) string {
	name = strings.ReplaceAll(strings.ToValidUTF8(name, ""), "\x00", "")
	if len(name) > maxFileName {
		name = strings.ToValidUTF8(name[:maxFileName], "")
	}
	return name
}

// randomName returns 128 random bits in hex.
func randomName() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // crypto/rand does not fail
	return hex.EncodeToString(b)
}

// asUnavailable marks a storage fault as one that trying again may help.
func asUnavailable(err error, message string) error {
	if domain.CodeOf(err) != "" || errors.Is(err, context.Canceled) {
		return err
	}
	return &domain.Error{Code: domain.CodeUnavailable, Message: message, Cause: err}
}
