// Package postgres keeps the allow-list of workers in PostgreSQL.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"glovebox/system/platform/pki"
	"glovebox/system/server/internal/workers"
)

// Registry is the list in the database. Admitting and removing need the
// operator's login; the rest is granted to the server.
type Registry struct{ pool *pgxpool.Pool }

// New returns the list as pool's role sees it.
func New(pool *pgxpool.Pool) *Registry { return &Registry{pool} }

// Allowed reports whether the worker may work now.
func (r *Registry) Allowed(ctx context.Context, id string) (bool, error) {
	if !pki.ValidID(id) {
		return false, nil
	}
	var allowed bool
	err := r.pool.QueryRow(ctx, "SELECT allowed FROM app.workers WHERE id = $1", id).Scan(&allowed)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask whether the worker is allowed: %w", err)
	}
	return allowed, nil
}

// seenEvery bounds how often one worker's row is rewritten while nothing changes.
const seenEvery = 5 * time.Second

// Seen notes that the worker spoke, and the slots it has: at once when they
// changed, else at most every few seconds.
func (r *Registry) Seen(ctx context.Context, id string, slotsFree, slotsTotal int) error {
	_, err := r.pool.Exec(ctx, `
		UPDATE app.workers SET last_seen_at = now(), slots_free = $2, slots_total = $3
		WHERE id = $1 AND (last_seen_at IS NULL OR last_seen_at < now() - make_interval(secs => $4)
		                   OR (slots_free, slots_total) IS DISTINCT FROM ($2::int, $3::int))`,
		id, slotsFree, slotsTotal, seenEvery.Seconds())
	if err != nil {
		return fmt.Errorf("note that the worker spoke: %w", err)
	}
	return nil
}

// Add admits a worker, also one that was removed before.
func (r *Registry) Add(ctx context.Context, id string) error {
	if !pki.ValidID(id) { // no certificate could ever name it
		return fmt.Errorf("worker id %q is not 1 to 63 of a-z, 0-9 and hyphen, not starting with a hyphen", id)
	}
	_, err := r.pool.Exec(ctx, `
		INSERT INTO app.workers (id) VALUES ($1)
		ON CONFLICT (id) DO UPDATE SET added_at = now(), removed_at = NULL WHERE app.workers.removed_at IS NOT NULL`, id)
	if err != nil {
		return fmt.Errorf("add the worker: %w", err)
	}
	return nil
}

// Remove takes a worker off the list; its next request is refused. Jobs it holds
// go back when their lease runs out.
func (r *Registry) Remove(ctx context.Context, id string) error {
	tag, err := r.pool.Exec(ctx, "UPDATE app.workers SET removed_at = now() WHERE id = $1 AND removed_at IS NULL", id)
	if err != nil {
		return fmt.Errorf("remove the worker: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return workers.ErrUnknown
	}
	return nil
}

// List returns all workers that were ever admitted, by id.
func (r *Registry) List(ctx context.Context) ([]workers.Worker, error) {
	rows, err := r.pool.Query(ctx, `
		SELECT id, allowed, added_at, removed_at, last_seen_at, slots_free, slots_total FROM app.workers ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("list the workers: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[workers.Worker])
	if err != nil {
		return nil, fmt.Errorf("list the workers: %w", err)
	}
	return list, nil
}
