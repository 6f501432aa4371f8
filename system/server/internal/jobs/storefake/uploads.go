package storefake

import (
	"context"

	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
)

// Begin implements jobs.Uploads.
func (s *Store) Begin(_ context.Context, u jobs.Upload) (replay string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := [2]string{u.UserID, u.Key}
	if k := s.keys[name]; u.Key != "" && k != nil {
		answered := k.jobID != "" && s.now.Before(k.created.Add(jobs.KeyLifetime))
		inFlight := k.jobID == "" && s.living(k.uploadID)
		if (answered || inFlight) && k.fingerprint != nil && u.Fingerprint != nil && *k.fingerprint != *u.Fingerprint {
			return "", domain.Refuse(domain.CodeIdempotencyMismatch, "the key was used for another file")
		}
		if answered {
			return k.jobID, nil
		}
		if inFlight {
			return "", domain.Refuse(domain.CodeIdempotencyInFlight, "the first request is running")
		}
	}
	uploads := 0
	for id, other := range s.uploads {
		if other.userID == u.UserID && s.living(id) {
			uploads++
		}
	}
	if uploads >= u.Limits.Uploads {
		return "", domain.Refuse(domain.CodeLimitExceeded, "too many uploads")
	}
	if err := s.withinLimits(u.UserID, u.ID, u.Limits, 1); err != nil {
		return "", err
	}
	if u.Key != "" {
		s.keys[name] = &key{uploadID: u.ID, fingerprint: u.Fingerprint, created: s.now}
	}
	s.uploads[u.ID] = &upload{userID: u.UserID, heartbeat: s.now}
	return "", nil
}

func (s *Store) living(uploadID string) bool {
	u := s.uploads[uploadID]
	return u != nil && s.now.Before(u.heartbeat.Add(jobs.UploadStale))
}

// Reserve implements jobs.Uploads.
func (s *Store) Reserve(_ context.Context, u jobs.Upload, size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.withinLimits(u.UserID, u.ID, u.Limits, size); err != nil {
		return err
	}
	if known := s.uploads[u.ID]; known != nil {
		known.reserved, known.heartbeat = &size, s.now
	}
	return nil
}

// Renew implements jobs.Uploads.
func (s *Store) Renew(_ context.Context, uploadID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.uploads[uploadID]; u != nil {
		u.heartbeat = s.now
	}
	return nil
}

// End implements jobs.Uploads.
func (s *Store) End(_ context.Context, uploadID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, k := range s.keys {
		if k.uploadID == uploadID && k.jobID == "" {
			delete(s.keys, name)
		}
	}
	delete(s.uploads, uploadID)
	return nil
}

// Match implements jobs.Uploads.
func (s *Store) Match(_ context.Context, userID, name string, fingerprint [32]byte) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[[2]string{userID, name}]
	if k == nil || k.jobID == "" {
		return "", domain.Refuse(domain.CodeIdempotencyInFlight, "the key has expired")
	}
	if *k.fingerprint != fingerprint {
		return "", domain.Refuse(domain.CodeIdempotencyMismatch, "the key was used for another file")
	}
	return k.jobID, nil
}

// ForgetUpload makes an upload look as if nobody had renewed it.
func (s *Store) ForgetUpload(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.uploads[id]; u != nil {
		u.heartbeat = s.now.Add(-jobs.UploadStale)
	}
}

// AgeKey makes a key older than its lifetime.
func (s *Store) AgeKey(userID, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[[2]string{userID, name}].created = s.now.Add(-jobs.KeyLifetime)
}
