package oracle_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"glovebox/attacks/oracle"
	"glovebox/system/testdb"
)

const planted = `WITH
	u AS (INSERT INTO app.users (id, login, password_hash) VALUES (gen_random_uuid(), 'x', '$argon2id$') RETURNING id),
	a AS (INSERT INTO app.assets (id, user_id) SELECT gen_random_uuid(), id FROM u RETURNING id, user_id),
	v AS (INSERT INTO app.asset_versions (asset_id, version, name, size, sha256, storage_key)
		SELECT id, 1, 'n', 1, decode(repeat('00', 32), 'hex'), 'input/x' FROM a RETURNING asset_id),
	j AS (INSERT INTO app.jobs (id, user_id, asset_id, asset_version, input_size, status, attempt, max_attempts, fencing_token, worker_id, lease_expires_at, heartbeat_at, fair_key)
		SELECT gen_random_uuid(), a.user_id, v.asset_id, 1, 1, 'processing', 1, 3, 1, 'w1', now(), now(), 1 FROM a, v RETURNING id),
	e AS (INSERT INTO app.job_events (job_id, from_status, to_status, cause, attempt, fencing_token, worker_id)
		SELECT id, 'pending', 'processing', 'claimed', 1, 1, 'w1' FROM j)
	SELECT id::text FROM j`

func TestTheObserverSeesAPlantedJob(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := testdb.New(t)
	observer, err := oracle.OpenDatabase(ctx, db.URL(testdb.Observer).Reveal())
	if err != nil {
		t.Fatal(err)
	}
	defer observer.Close()
	if jobs, _, _, err := observer.Counts(ctx); err != nil || jobs != 0 {
		t.Fatalf("%d jobs before any (%v)", jobs, err)
	}
	admin, err := pgx.Connect(ctx, db.URL(testdb.Admin).Reveal())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(ctx)
	var id string
	if err := admin.QueryRow(ctx, planted).Scan(&id); err != nil {
		t.Fatal(err)
	}
	if _, err := observer.Job(ctx, "no-such-job"); !errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("a job that is not there: %v", err)
	}
	j, err := observer.Job(ctx, id)
	if err != nil || j.Status != "processing" || j.WorkerID != "w1" || j.Attempt != 1 || j.FencingToken != 1 {
		t.Errorf("the job is seen as %+v (%v)", j, err)
	}
	events, err := observer.History(ctx, id)
	if err != nil || len(events) != 1 || events[0].String() != "pending>processing claimed attempt 1 token 1 w1" {
		t.Errorf("its history is seen as %v (%v)", events, err)
	}
	held, err := observer.HeldBy(ctx, "w1")
	if err != nil || len(held) != 1 || held[0] != id {
		t.Errorf("w1 holds %v (%v)", held, err)
	}
	jobs, history, assets, err := observer.Counts(ctx)
	if err != nil || jobs != 1 || history != 1 || assets != 1 {
		t.Errorf("counted %d %d %d (%v)", jobs, history, assets, err)
	}
	_, err = admin.Exec(ctx, "SELECT 1/0")
	if oracle.SQLState(nil) != "" || oracle.SQLState(errors.New("x")) != "?" || oracle.SQLState(err) != "22012" {
		t.Errorf("the state of %v is %q", err, oracle.SQLState(err))
	}
}
