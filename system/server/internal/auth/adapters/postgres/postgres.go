// Package postgres keeps tokens and counts logins in PostgreSQL, under the role
// glovebox_server.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"glovebox/system/server/internal/auth"
	"glovebox/system/server/internal/platform/pgfault"
)

// Store implements auth.Store and auth.Attempts.
type Store struct{ pool *pgxpool.Pool }

// New returns a Store over pool.
func New(pool *pgxpool.Pool) *Store { return &Store{pool} }

// UserByLogin implements auth.Store.
func (s *Store) UserByLogin(ctx context.Context, login string) (auth.User, bool, error) {
	const query = `SELECT id, login, password_hash, created_at, disabled_at IS NOT NULL FROM app.users WHERE login = $1`
	var u auth.User
	err := s.pool.QueryRow(ctx, query, login).Scan(&u.ID, &u.Login, &u.PasswordHash, &u.CreatedAt, &u.Disabled)
	if errors.Is(err, pgx.ErrNoRows) {
		return auth.User{}, false, nil
	}
	if err != nil {
		return auth.User{}, false, fault("look up a user", err)
	}
	return u, true, nil
}

// Rehash implements auth.Store.
func (s *Store) Rehash(ctx context.Context, userID, old, new string) error {
	const statement = `UPDATE app.users SET password_hash = $3 WHERE id = $1 AND password_hash = $2`
	if _, err := s.pool.Exec(ctx, statement, userID, old, new); err != nil {
		return fault("store a password hash", err)
	}
	return nil
}

// AddToken implements auth.Store.
func (s *Store) AddToken(ctx context.Context, userID string, hash auth.Hash, lifetime time.Duration) (time.Time, error) {
	const statement = `
		INSERT INTO app.tokens (token_hash, id, user_id, expires_at)
		VALUES ($1, $2, $3, now() + $4::interval)
		RETURNING expires_at`
	var expires time.Time
	if err := s.pool.QueryRow(ctx, statement, hash[:], uuid.NewString(), userID, lifetime).Scan(&expires); err != nil {
		return time.Time{}, fault("store a token", err)
	}
	return expires, nil
}

// Lookup implements auth.Store.
func (s *Store) Lookup(ctx context.Context, hash auth.Hash) (auth.Principal, auth.Hash, bool, error) {
	const query = `
		SELECT t.token_hash, u.id, u.login, u.created_at
		FROM app.tokens t JOIN app.users u ON u.id = t.user_id
		WHERE t.token_hash = $1 AND t.revoked_at IS NULL AND t.expires_at > now() AND u.disabled_at IS NULL`
	var p auth.Principal
	var stored []byte
	err := s.pool.QueryRow(ctx, query, hash[:]).Scan(&stored, &p.UserID, &p.Login, &p.CreatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return auth.Principal{}, auth.Hash{}, false, nil
	}
	if err != nil {
		return auth.Principal{}, auth.Hash{}, false, fault("look up a token", err)
	}
	if len(stored) != len(hash) {
		return auth.Principal{}, auth.Hash{}, false, fmt.Errorf("look up a token: its stored hash has %d bytes", len(stored))
	}
	return p, auth.Hash(stored), true, nil
}

// Revoke implements auth.Store.
func (s *Store) Revoke(ctx context.Context, hash auth.Hash) error {
	const statement = `UPDATE app.tokens SET revoked_at = now() WHERE token_hash = $1 AND revoked_at IS NULL`
	if _, err := s.pool.Exec(ctx, statement, hash[:]); err != nil {
		return fault("revoke a token", err)
	}
	return nil
}

// Reserve implements auth.Attempts. Windows are aligned to the epoch, so that
// every server counts in the same one.
func (s *Store) Reserve(ctx context.Context, scope auth.Scope, subject string, window time.Duration) (auth.Count, error) {
	const statement = `
		INSERT INTO app.login_attempts AS a (scope, subject, window_start, attempts, failures)
		VALUES ($1, $2, date_bin($3::interval, now(), 'epoch'), 1, 1)
		ON CONFLICT (scope, subject, window_start)
		DO UPDATE SET attempts = a.attempts + 1, failures = a.failures + 1
		RETURNING attempts, failures, window_start, extract(epoch FROM window_start + $3::interval - now())::float8`
	var c auth.Count
	var remaining float64
	err := s.pool.QueryRow(ctx, statement, scope, subject, window).Scan(&c.Attempts, &c.Failures, &c.WindowStart, &remaining)
	if err != nil {
		return auth.Count{}, fault("count a login", err)
	}
	c.Remaining = time.Duration(remaining * float64(time.Second))
	return c, nil
}

// Absolve implements auth.Attempts.
func (s *Store) Absolve(ctx context.Context, scope auth.Scope, subject string, count auth.Count) error {
	const statement = `
		UPDATE app.login_attempts SET failures = failures - 1
		WHERE scope = $1 AND subject = $2 AND window_start = $3 AND failures > 0`
	if _, err := s.pool.Exec(ctx, statement, scope, subject, count.WindowStart); err != nil {
		return fault("take back a counted failure", err)
	}
	return nil
}

// fault gives a database error its code where it may pass.
func fault(what string, err error) error {
	err = fmt.Errorf("%s: %w", what, err)
	if pgfault.Transient(err) {
		return &auth.Error{Code: auth.CodeUnavailable, Message: "try again later", Cause: err}
	}
	return err
}
