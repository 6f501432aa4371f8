package histories

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"glovebox/chaos/history"
	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/adapters/postgres"
	"glovebox/system/server/internal/jobs/sweep"
	"glovebox/system/server/internal/storage/fs"
	"glovebox/system/testdb"
)

const (
	maxAttempts = 3
	year        = 365 * 24 * time.Hour
)

// world is one database and one storage with two servers and two sweepers on
// them; batches use it one after another.
type world struct {
	wire     *wire
	admin    *pgxpool.Pool // behind the system's back, by a wire that holds
	servers  []*jobs.Service
	storage  *fs.Store
	dir      string
	retain   *sweep.Sweeper // takes every result whose job has ended
	orphans  *sweep.Sweeper // takes every file that no row names
	users    []string
	stranger string
}

// newWorld makes a world. lift names constraints and indexes that are taken away
// from the database first: what covers a planted fault must not be what finds it.
func newWorld(t *testing.T, seed uint64, lift []string) *world {
	t.Helper()
	db := testdb.New(t)
	w := &world{
		wire:  &wire{random: rand.New(rand.NewPCG(seed, 0))},
		admin: db.Pool(t, testdb.Admin), dir: filepath.Join(t.TempDir(), "storage"), stranger: uuid.NewString(),
	}
	w.storage = w.open(t)
	for range 2 {
		pool := w.pool(t, db, testdb.ServerRole)
		store := postgres.New(pool)
		w.servers = append(w.servers, jobs.New(
			jobs.Parts{Store: store, Queue: store, Uploads: store, Blobs: w.open(t), Roster: deaf{}},
			jobs.Settings{
				MaxInputBytes: 1 << 20, MaxResultBytes: 1 << 20, MaxAttempts: maxAttempts,
				Limits: jobs.Limits{Uploads: 1 << 20, ActiveJobs: 1 << 20, StoredBytes: 1 << 40},
				Lease:  time.Hour, Heartbeat: time.Minute, Timeout: time.Hour, ClaimPoll: time.Hour, Retention: year,
			}))
	}
	ledger := postgres.NewLedger(w.pool(t, db, testdb.Sweeper))
	settings := sweep.Settings{Retention: 0, OrphanAge: year, StagedAge: year, Page: 100, Log: slog.New(slog.DiscardHandler)}
	w.retain = sweep.New(ledger, listed{w.storage}, settings)
	settings.Retention, settings.OrphanAge = year, -time.Minute
	w.orphans = sweep.New(ledger, listed{w.storage}, settings)
	for range 4 {
		id := uuid.NewString()
		w.users = append(w.users, id)
		w.exec(t, "INSERT INTO app.users (id, login, password_hash) VALUES ($1::uuid, $2, '$argon2id$none')", id, "u-"+id)
	}
	for _, name := range lift {
		w.exec(t, fmt.Sprintf("DROP INDEX IF EXISTS app.%s", name))
		w.exec(t, fmt.Sprintf("ALTER TABLE app.jobs DROP CONSTRAINT IF EXISTS %s", name))
	}
	return w
}

// deaf is a jobs.Roster that notes nothing: what a worker says of its slots has no
// part in a job's life.
type deaf struct{}

func (deaf) Seen(context.Context, string, int, int) error { return nil }

// listed is fs.Store in the sweeper's words, as cmd/server has it.
type listed struct{ *fs.Store }

func (l listed) List(ctx context.Context, after string, limit int) ([]sweep.Object, string, error) {
	entries, next, err := l.Store.List(ctx, after, limit)
	page := make([]sweep.Object, len(entries))
	for i, e := range entries {
		page[i] = sweep.Object{Key: e.Key, Modified: e.ModTime}
	}
	return page, next, err
}

func (l listed) SweepStaged(ctx context.Context, age time.Duration) (int, error) {
	return l.SweepTemp(ctx, age)
}

func (w *world) open(t *testing.T) *fs.Store {
	t.Helper()
	storage, err := fs.New(w.dir, fs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = storage.Close() })
	return storage
}

// pool is one whose connections may be cut.
func (w *world) pool(t *testing.T, db *testdb.Database, role string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(db.URL(role).Reveal())
	if err != nil {
		t.Fatal("the test database's URL is not usable")
	}
	config.MaxConns = 20
	config.ConnConfig.DialFunc = w.wire.dial
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatalf("open a pool as %s: %v", role, err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := w.admin.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// quiet waits until the database works for no server and no sweeper any more: a
// statement whose caller was cut off may still be running.
func (w *world) quiet(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; {
		var busy int
		err := w.admin.QueryRow(t.Context(), `
			SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND usename IN ('glovebox_server', 'glovebox_sweeper') AND state IS DISTINCT FROM 'idle'`).Scan(&busy)
		if err != nil {
			t.Fatal(err)
		}
		if busy == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are still at work", busy)
		}
		<-tick.C
	}
}

// snapshot reads what is left, rows by the administrator and bytes by a look at
// the folder that no server is asked for.
func (w *world) snapshot(t *testing.T) history.Snapshot {
	t.Helper()
	var s history.Snapshot
	if err := w.admin.QueryRow(t.Context(), "SELECT now()").Scan(&s.Now); err != nil {
		t.Fatal(err)
	}
	rows, err := w.admin.Query(t.Context(), `
		SELECT id::text, status, coalesce(worker_id, ''), lease_expires_at, attempt, max_attempts, fencing_token, coalesce(error_code, ''),
		       error_retryable, created_at, updated_at, user_id::text, purged_at IS NOT NULL, coalesce(encode(result_sha256, 'hex'), ''), coalesce(result_key, '')
		FROM app.jobs ORDER BY created_at, id`)
	if err != nil {
		t.Fatal(err)
	}
	s.Jobs, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (j history.Job, err error) {
		var key string
		err = row.Scan(&j.ID, &j.Status, &j.WorkerID, &j.LeaseExpiresAt, &j.Attempt, &j.MaxAttempts, &j.FencingToken, &j.ErrorCode,
			&j.ErrorRetryable, &j.CreatedAt, &j.UpdatedAt, &j.UserID, &j.Purged, &j.ResultDigest, &key)
		if err == nil && key != "" {
			j.Stored, err = w.stored(key)
		}
		return j, err
	})
	if err != nil {
		t.Fatal(err)
	}
	rows, err = w.admin.Query(t.Context(), `
		SELECT job_id::text, coalesce(from_status, ''), to_status, cause, attempt, fencing_token, coalesce(worker_id, ''), at, coalesce(request_id::text, '')
		FROM app.job_events ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	s.Transitions, err = pgx.CollectRows(rows, pgx.RowToStructByPos[history.Transition])
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// path is where the storage's layout puts a key.
func (w *world) path(key string) string {
	shard := sha256.Sum256([]byte(key))
	return filepath.Join(w.dir, "objects", hex.EncodeToString(shard[:1]), strings.ReplaceAll(key, "/", "~"))
}

func (w *world) stored(key string) (string, error) {
	f, err := os.Open(w.path(key))
	if errors.Is(err, iofs.ErrNotExist) {
		return history.NotStored, nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// leftovers lets the sweeper take what no row names, and returns what is then in
// the storage without a row, and what a row names that is not there.
func (w *world) leftovers(t *testing.T) (extra, missing []string) {
	t.Helper()
	if _, err := w.orphans.Round(t.Context()); err != nil {
		t.Fatalf("sweep: %v", err)
	}
	rows, err := w.admin.Query(t.Context(), `
		SELECT storage_key FROM app.asset_versions WHERE purged_at IS NULL
		UNION ALL SELECT result_key FROM app.jobs WHERE result_key IS NOT NULL AND purged_at IS NULL`)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(w.dir, "objects", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, f := range files {
		there[f] = true
	}
	for _, key := range keys {
		if !there[w.path(key)] {
			missing = append(missing, key)
		}
		delete(there, w.path(key))
	}
	for f := range there {
		extra = append(extra, filepath.Base(f))
	}
	return extra, missing
}

// clear forgets every job.
func (w *world) clear(t *testing.T) {
	t.Helper()
	w.exec(t, "TRUNCATE app.job_events, app.jobs, app.asset_versions, app.assets, app.idempotency_keys, app.uploads_in_flight, app.user_counters CASCADE")
	if extra, _ := w.leftovers(t); len(extra) != 0 {
		t.Fatalf("without a row there are still %d files", len(extra))
	}
}
