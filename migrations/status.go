package migrations

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Querier is the part of a connection or pool that a look at the schema needs.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Pending returns the versions this binary carries and the database lacks, in
// order. Any role that may log in for serving can ask. A database that has newer
// versions is fine: upgrades go one server at a time.
func Pending(ctx context.Context, db Querier) ([]int64, error) {
	rows, err := db.Query(ctx, "SELECT version_id FROM app.schema_versions WHERE is_applied")
	if err != nil {
		return nil, fmt.Errorf("read the schema's versions: %w", err)
	}
	applied, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("read the schema's versions: %w", err)
	}
	have := make(map[int64]bool, len(applied))
	for _, v := range applied {
		have[v] = true
	}
	var missing []int64
	for _, v := range versions() {
		if !have[v] {
			missing = append(missing, v)
		}
	}
	return missing, nil
}

// InvalidIndexes returns the names of indexes that exist and are not used: what a
// CREATE INDEX CONCURRENTLY leaves behind when it fails.
func InvalidIndexes(ctx context.Context, db Querier) ([]string, error) {
	rows, err := db.Query(ctx, `
		SELECT n.nspname || '.' || c.relname
		FROM pg_catalog.pg_index i
		JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname IN ('app', 'observe') AND NOT (i.indisvalid AND i.indisready)
		ORDER BY 1`)
	if err != nil {
		return nil, fmt.Errorf("look for invalid indexes: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for invalid indexes: %w", err)
	}
	return names, nil
}
