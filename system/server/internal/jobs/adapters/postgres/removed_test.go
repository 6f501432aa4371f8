package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"glovebox/system/server/internal/jobs"
	"glovebox/threat-model/evidence"
)

// TestAWorkerThatWasRemovedIsGivenNothing: its claim may have waited since before.
func TestAWorkerThatWasRemovedIsGivenNothing(t *testing.T) {
	evidence.Proves(t, "MTL-02")
	t.Parallel()
	b := setup(t)
	job := b.job(t, b.user(t))
	b.exec(t, "INSERT INTO app.workers (id, removed_at) VALUES ('gone', now()), ('here', NULL)")
	claim := func(worker string) (jobs.Record, bool) {
		record, ok, err := b.store.Claim(t.Context(), jobs.Claim{WorkerID: worker, RequestID: uuid.NewString(), Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return record, ok
	}
	if record, ok := claim("gone"); ok {
		t.Errorf("it was given the job %s", record.Job.ID)
	}
	if record, ok := claim("here"); !ok || record.Job.ID != job.ID {
		t.Errorf("a listed worker was given %q, %v", record.Job.ID, ok)
	}
}
