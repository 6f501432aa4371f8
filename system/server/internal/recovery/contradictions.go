package recovery

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// contradictions are statements about rows that the tables' own constraints cannot
// make, each in one statement and so at one instant: a system that runs makes none
// of them true. $1 is how long a lease may be overdue, in seconds. They return
// subject, job and detail, at most most rows each.
var contradictions = []struct {
	kind Kind
	sql  string
}{
	{StatusHistory, `
		SELECT 'app.jobs', j.id::text, format('the job is %s, the last of its history is %s', j.status, coalesce(last.to_status, 'missing'))
		FROM app.jobs j LEFT JOIN LATERAL (SELECT e.to_status FROM app.job_events e WHERE e.job_id = j.id ORDER BY e.id DESC LIMIT 1) last ON true
		WHERE last.to_status IS DISTINCT FROM j.status`},
	{TokenHistory, `
		SELECT 'app.jobs', j.id::text, format('its token is %s, its history has %s', j.fencing_token, top.token)
		FROM app.jobs j, LATERAL (SELECT max(e.fencing_token) AS token FROM app.job_events e WHERE e.job_id = j.id) top
		WHERE j.fencing_token < top.token`},
	{ResultHistory, `
		SELECT 'app.jobs', j.id::text, format('no history says that token %s finished it', j.result_fencing_token)
		FROM app.jobs j
		WHERE j.status = 'completed' AND NOT EXISTS (SELECT FROM app.job_events e
			WHERE e.job_id = j.id AND e.cause = 'finished' AND e.fencing_token = j.result_fencing_token AND e.worker_id = j.result_worker_id)`},
	{LeaseOverdue, `
		SELECT 'app.jobs', j.id::text, format('its lease ended at %s', j.lease_expires_at)
		FROM app.jobs j WHERE j.status = 'processing' AND j.lease_expires_at < now() - make_interval(secs => $1)`},
	{LiveInputGone, `
		SELECT v.storage_key, j.id::text, format('the job is %s and its input was taken by retention', j.status)
		FROM app.jobs j JOIN app.asset_versions v ON v.asset_id = j.asset_id AND v.version = j.asset_version
		WHERE j.status IN ('pending', 'processing') AND v.purged_at IS NOT NULL`},
	{PurgeDiffers, `
		SELECT 'app.jobs', j.id::text, 'one of the job and its input is marked as taken by retention, the other is not'
		FROM app.jobs j JOIN app.asset_versions v ON v.asset_id = j.asset_id AND v.version = j.asset_version
		WHERE j.status IN ('completed', 'failed') AND (j.purged_at IS NULL) <> (v.purged_at IS NULL)`},
	{InputSize, `
		SELECT v.storage_key, j.id::text, format('the job counts %s bytes of input, the asset has %s', j.input_size, v.size)
		FROM app.jobs j JOIN app.asset_versions v ON v.asset_id = j.asset_id AND v.version = j.asset_version
		WHERE j.input_size <> v.size`},
	{ForeignKeyRow, `
		SELECT 'app.idempotency_keys', j.id::text, 'the key of one user leads to the job of another'
		FROM app.idempotency_keys k JOIN app.jobs j ON j.id = k.job_id WHERE j.user_id <> k.user_id`},
	{ResultKey, `
		SELECT j.result_key, j.id::text, 'the result''s name holds the id of another job'
		FROM app.jobs j WHERE j.result_key IS NOT NULL AND strpos(j.result_key, j.id::text) = 0`},
	{Unvalidated, `
		SELECT format('%s.%s', n.nspname, c.relname), '', format('constraint %s was never held to the rows that were there', k.conname)
		FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'app' AND NOT k.convalidated`},
	{BrokenRestore, `
		SELECT 'app.restores', '', format('a restore that began at %s has not come to its end', r.started_at)
		FROM app.restores r WHERE r.completed_at IS NULL`},
}

// most bounds what one statement reports: more of a kind says nothing new.
const most = 1000

func (c *check) contradictions(ctx context.Context) error {
	for _, rule := range contradictions {
		rows, err := c.Pool.Query(ctx, fmt.Sprintf("SELECT * FROM (SELECT $1::float8) AS late (seconds), LATERAL (%s) AS broken LIMIT %d", rule.sql, most), c.Overdue.Seconds())
		if err != nil {
			return fmt.Errorf("look for %s: %w", rule.kind, err)
		}
		var (
			seconds              float64
			subject, job, detail string
		)
		_, err = pgx.ForEachRow(rows, []any{&seconds, &subject, &job, &detail}, func() error {
			return c.report(ctx, found(rule.kind, subject, job, detail))
		})
		if err != nil {
			return fmt.Errorf("look for %s: %w", rule.kind, err)
		}
	}
	return nil
}
