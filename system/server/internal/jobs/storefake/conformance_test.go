package storefake_test

import (
	"testing"

	"github.com/google/uuid"

	"glovebox/system/server/internal/jobs/domain"
	"glovebox/system/server/internal/jobs/storefake"
	"glovebox/system/server/internal/jobs/storetest"
)

func TestFakeKeepsThePortsDuties(t *testing.T) {
	storetest.Exercise(t, func(*testing.T) storetest.Subject {
		s := storefake.New()
		return storetest.Subject{
			Store:      s,
			User:       func(*testing.T) string { return uuid.NewString() },
			LeaseOver:  func(_ *testing.T, id string) { s.Edit(id, func(j *domain.Job) { j.LeaseExpires = j.HeartbeatAt }) },
			Due:        func(_ *testing.T, id string) { s.Edit(id, func(j *domain.Job) { j.NextAttemptAt = j.CreatedAt }) },
			UploadDies: func(_ *testing.T, id string) { s.ForgetUpload(id) },
			KeyAges:    func(_ *testing.T, user, key string) { s.AgeKey(user, key) },
			History: func(_ *testing.T, id string) []domain.Event {
				var history []domain.Event
				for _, e := range s.Events(id) {
					history = append(history, e.Event)
				}
				return history
			},
		}
	})
}
