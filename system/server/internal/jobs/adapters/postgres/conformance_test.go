package postgres_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/adapters/postgres"
	"glovebox/system/server/internal/jobs/domain"
	"glovebox/system/server/internal/jobs/storetest"
	"glovebox/system/testdb"
)

// bundle is a migrated database with the adapter under the server's role, and an
// administrator's pool to reach behind it.
type bundle struct {
	db    *testdb.Database
	store *postgres.Store
	pool  *pgxpool.Pool
	admin *pgxpool.Pool
}

func setup(t *testing.T) *bundle {
	t.Helper()
	db := testdb.New(t)
	pool := db.Pool(t, testdb.ServerRole)
	return &bundle{db: db, store: postgres.New(pool), pool: pool, admin: db.Pool(t, testdb.Admin)}
}

func (b *bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := b.admin.Exec(context.Background(), sql, args...); err != nil {
		t.Errorf("%s: %v", sql, err)
	}
}

func (b *bundle) user(t *testing.T) string {
	t.Helper()
	id := uuid.NewString()
	b.exec(t, "INSERT INTO app.users (id, login, password_hash) VALUES ($1::uuid, $2, '$argon2id$none')", id, "u-"+id)
	return id
}

func (b *bundle) history(t *testing.T, jobID string) []domain.Event {
	t.Helper()
	rows, err := b.admin.Query(t.Context(), `
		SELECT coalesce(from_status, ''), to_status, cause, attempt, fencing_token, coalesce(worker_id, ''), coalesce(error_code, ''), coalesce(provenance, '')
		FROM app.job_events WHERE job_id = $1 ORDER BY id`, jobID)
	if err != nil {
		t.Fatal(err)
	}
	events, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e domain.Event, err error) {
		err = row.Scan(&e.From, &e.To, &e.Cause, &e.Attempt, &e.FencingToken, &e.WorkerID, &e.ErrorCode, &e.Provenance)
		return e, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func (b *bundle) leaseOver(t *testing.T, jobID string) {
	b.exec(t, "UPDATE app.jobs SET lease_expires_at = clock_timestamp() - interval '1 millisecond' WHERE id = $1 AND status = 'processing'", jobID)
}

func TestPostgresKeepsThePortsDuties(t *testing.T) {
	storetest.Exercise(t, func(t *testing.T) storetest.Subject {
		b := setup(t)
		return storetest.Subject{
			Store:     b.store,
			User:      b.user,
			LeaseOver: b.leaseOver,
			Due: func(t *testing.T, id string) {
				b.exec(t, "UPDATE app.jobs SET next_attempt_at = now() WHERE id = $1", id)
			},
			UploadDies: func(t *testing.T, id string) {
				b.exec(t, "UPDATE app.uploads_in_flight SET heartbeat_at = now() - interval '1 hour' WHERE id = $1", id)
			},
			KeyAges: func(t *testing.T, user, key string) {
				b.exec(t, "UPDATE app.idempotency_keys SET created_at = now() - interval '24 hours 1 second' WHERE user_id = $1 AND key = $2", user, key)
			},
			History: b.history,
		}
	})
}

// job makes a pending job.
func (b *bundle) job(t *testing.T, user string) domain.Job {
	t.Helper()
	key := "input/" + uuid.NewString()
	record, err := b.store.Create(t.Context(), jobs.NewJob{
		ID: uuid.NewString(), UserID: user, AssetID: uuid.NewString(), MaxAttempts: 3, UploadID: uuid.NewString(),
		Input:  jobs.Input{StorageKey: key, FileName: "a", Size: 1},
		Limits: jobs.Limits{Uploads: 10, ActiveJobs: 1000, StoredBytes: 1 << 40},
		Pin:    jobs.Pin{Key: key, Exists: func(context.Context) error { return nil }},
	})
	if err != nil {
		t.Fatalf("create a job: %v", err)
	}
	return record.Job
}
