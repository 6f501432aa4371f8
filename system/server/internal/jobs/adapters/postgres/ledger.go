package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"glovebox/system/server/internal/jobs"
)

// Ledger is sweep.Ledger on a pool that logs in as glovebox_sweeper.
type Ledger struct{ pool *pgxpool.Pool }

// NewLedger returns a Ledger.
func NewLedger(pool *pgxpool.Pool) *Ledger { return &Ledger{pool} }

// Purge implements sweep.Ledger: the mark is one transaction, before any byte goes.
func (l *Ledger) Purge(ctx context.Context, retention time.Duration, limit int) (keys []string, count int, err error) {
	rows, err := l.pool.Query(ctx, `
		WITH over AS MATERIALIZED (
			SELECT j.id, j.asset_id, j.asset_version, j.result_key FROM app.jobs j
			WHERE j.terminal_at <= now() - make_interval(secs => $1) AND j.purged_at IS NULL
			ORDER BY j.terminal_at, j.id LIMIT $2 FOR UPDATE SKIP LOCKED
		), marked AS (
			UPDATE app.jobs j SET purged_at = now() FROM over o WHERE j.id = o.id RETURNING o.asset_id, o.asset_version, o.result_key
		), inputs AS (
			UPDATE app.asset_versions v SET purged_at = now() FROM marked m
			WHERE v.asset_id = m.asset_id AND v.version = m.asset_version AND v.purged_at IS NULL
			  AND NOT EXISTS (SELECT FROM app.jobs live WHERE live.asset_id = v.asset_id AND live.asset_version = v.version
			                  AND live.status IN ('pending', 'processing'))
			RETURNING v.storage_key
		)
		SELECT result_key, true FROM marked UNION ALL SELECT storage_key, false FROM inputs`, retention.Seconds(), limit)
	if err != nil {
		return nil, 0, fault("mark what is past retention", err)
	}
	var (
		key   *string
		isJob bool
	)
	_, err = pgx.ForEachRow(rows, []any{&key, &isJob}, func() error {
		if isJob {
			count++
		}
		if key != nil { // a failed job has no result
			keys = append(keys, *key)
		}
		return nil
	})
	return keys, count, fault("mark what is past retention", err)
}

// namedBy is true of a key $1 that a row names. A purged row names nothing.
const namedBy = `(
	EXISTS (SELECT FROM app.asset_versions v WHERE v.storage_key = $1 AND v.purged_at IS NULL)
	OR EXISTS (SELECT FROM app.jobs j WHERE j.result_key = $1 AND j.purged_at IS NULL))`

// Unnamed implements sweep.Ledger.
func (l *Ledger) Unnamed(ctx context.Context, keys []string) ([]string, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT k.key FROM unnest($1::text[]) AS k (key)
		WHERE NOT EXISTS (SELECT FROM app.asset_versions v WHERE v.storage_key = k.key AND v.purged_at IS NULL)
		  AND NOT EXISTS (SELECT FROM app.jobs j WHERE j.result_key = k.key AND j.purged_at IS NULL)`, keys)
	if err != nil {
		return nil, fault("look for orphans", err)
	}
	unnamed, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return unnamed, fault("look for orphans", err)
}

// HoldUnnamed implements sweep.Ledger; hold is the other side of the lock.
func (l *Ledger) HoldUnnamed(ctx context.Context, key string, remove func(context.Context) error) (removed bool, err error) {
	err = pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		var alone, named bool
		if err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock("+keyLock+")", key).Scan(&alone); err != nil || !alone {
			return err
		}
		// A new statement, after the lock: it sees what was committed until now.
		if err := tx.QueryRow(ctx, "SELECT "+namedBy, key).Scan(&named); err != nil || named {
			return err
		}
		removed = true
		return remove(ctx)
	})
	return removed && err == nil, fault("remove an orphan", err)
}

// BackupLock is the advisory lock ("gbbackup") that a backup holds alone from before
// its snapshot until it has copied the last file that the snapshot names, and that
// a sweeper shares from the mark of a row to the end of its file. A file that the
// snapshot's rows name can then go only by a mark after the snapshot, which waits.
const BackupLock int64 = 0x67626261636b7570

// Why deleting is held back.
const (
	heldByPause  = "the installation is paused after a restore"
	heldByBackup = "a backup is being taken"
)

// WhileDeletable implements sweep.Ledger. The lock is the session's: what do does
// may take longer than a transaction may stand still.
func (l *Ledger) WhileDeletable(ctx context.Context, do func(context.Context) error) (heldBack string, err error) {
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return "", fault("hold backups off", err)
	}
	defer conn.Release()
	var free, pausedNow bool
	err = conn.QueryRow(ctx, "SELECT pg_try_advisory_lock_shared($1), "+paused, BackupLock).Scan(&free, &pausedNow)
	if err != nil {
		return "", fault("hold backups off", err)
	}
	if !free {
		return heldByBackup, nil
	}
	defer func() {
		if _, unlockErr := conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock_shared($1)", BackupLock); unlockErr != nil {
			// The lock ends with the session, which must not be used again with it.
			_ = conn.Conn().Close(context.WithoutCancel(ctx))
		}
	}()
	if pausedNow {
		return heldByPause, nil
	}
	return "", do(ctx)
}

// DeleteRecords implements sweep.Ledger. The conditions are the function's own: the
// sweeper's role can delete none of these rows by itself.
func (l *Ledger) DeleteRecords(ctx context.Context, age time.Duration, limit int) (jobs int, err error) {
	err = l.pool.QueryRow(ctx, "SELECT app.delete_records(make_interval(secs => $1), $2)", age.Seconds(), limit).Scan(&jobs)
	return jobs, fault("delete the records of old jobs", err)
}

// How long rows without meaning are kept beyond it, for whoever asks what happened.
const (
	tokenGrace  = 30 * 24 * time.Hour
	windowGrace = 48 * time.Hour
	uploadGrace = time.Hour
)

// DeleteOver implements sweep.Ledger. A key is kept for twice its lifetime: it
// stopped counting after the first, and an upload that holds it may be long.
func (l *Ledger) DeleteOver(ctx context.Context, limit int) (int64, error) {
	var all int64
	for _, kind := range []struct {
		sql   string
		grace time.Duration
	}{
		{`DELETE FROM app.idempotency_keys WHERE (user_id, key) IN (
			SELECT user_id, key FROM app.idempotency_keys WHERE created_at < now() - make_interval(secs => $1) LIMIT $2)`, 2 * jobs.KeyLifetime},
		{`DELETE FROM app.uploads_in_flight WHERE id IN (
			SELECT id FROM app.uploads_in_flight WHERE heartbeat_at < now() - make_interval(secs => $1) LIMIT $2)`, uploadGrace},
		{`DELETE FROM app.login_attempts WHERE (scope, subject, window_start) IN (
			SELECT scope, subject, window_start FROM app.login_attempts WHERE window_start < now() - make_interval(secs => $1) LIMIT $2)`, windowGrace},
		{`DELETE FROM app.tokens WHERE id IN (
			SELECT id FROM app.tokens WHERE least(expires_at, revoked_at) < now() - make_interval(secs => $1) LIMIT $2)`, tokenGrace},
	} {
		tag, err := l.pool.Exec(ctx, kind.sql, kind.grace.Seconds(), limit)
		if err != nil {
			return all, fault("delete rows without meaning", err)
		}
		all += tag.RowsAffected()
	}
	return all, nil
}
