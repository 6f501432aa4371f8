// Package postgres keeps users in PostgreSQL, under the role glovebox_operator.
package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"glovebox/system/server/internal/users"
)

// Store implements users.Store.
type Store struct{ pool *pgxpool.Pool }

// New returns a Store over pool.
func New(pool *pgxpool.Pool) *Store { return &Store{pool} }

const uniqueViolation = "23505"

// Insert implements users.Store.
func (s *Store) Insert(ctx context.Context, id, login, passwordHash string) error {
	_, err := s.pool.Exec(ctx, `INSERT INTO app.users (id, login, password_hash) VALUES ($1, $2, $3)`, id, login, passwordHash)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == uniqueViolation {
		return users.ErrExists
	}
	if err != nil {
		return fmt.Errorf("add a user: %w", err)
	}
	return nil
}

// List implements users.Store.
func (s *Store) List(ctx context.Context) ([]users.User, error) {
	const query = `
		SELECT u.id, u.login, u.created_at, u.disabled_at,
		       (SELECT count(*) FROM app.tokens t
		        WHERE t.user_id = u.id AND t.revoked_at IS NULL AND t.expires_at > now())
		FROM app.users u ORDER BY u.login`
	rows, err := s.pool.Query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (users.User, error) {
		var u users.User
		err := row.Scan(&u.ID, &u.Login, &u.CreatedAt, &u.DisabledAt, &u.ActiveTokens)
		return u, err
	})
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	return list, nil
}

// SetPassword implements users.Store.
func (s *Store) SetPassword(ctx context.Context, login, passwordHash string) error {
	return s.change(ctx, "set a password", login,
		`UPDATE app.users SET password_hash = $2, password_changed_at = now() WHERE login = $1 RETURNING id`, passwordHash)
}

// SetDisabled implements users.Store.
func (s *Store) SetDisabled(ctx context.Context, login string, disabled bool) error {
	return s.change(ctx, "disable or enable a user", login,
		`UPDATE app.users SET disabled_at = CASE WHEN $2 THEN coalesce(disabled_at, now()) END WHERE login = $1 RETURNING id`, disabled)
}

// change updates one user by statement and ends its tokens, in one transaction.
func (s *Store) change(ctx context.Context, doing, login, statement string, value any) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var id string
		if err := tx.QueryRow(ctx, statement, login, value).Scan(&id); err != nil {
			return err
		}
		_, err := revokeAll(ctx, tx, id)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return users.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

func revokeAll(ctx context.Context, tx pgx.Tx, userID string) (int, error) {
	const statement = `UPDATE app.tokens SET revoked_at = now() WHERE user_id = $1 AND revoked_at IS NULL AND expires_at > now()`
	tag, err := tx.Exec(ctx, statement, userID)
	return int(tag.RowsAffected()), err
}

// Tokens implements users.Store.
func (s *Store) Tokens(ctx context.Context, login string) ([]users.Token, error) {
	const query = `
		SELECT t.id, u.login, t.created_at, t.expires_at, t.revoked_at
		FROM app.tokens t JOIN app.users u ON u.id = t.user_id
		WHERE $1 = '' OR u.login = $1
		ORDER BY t.created_at DESC, t.id`
	rows, err := s.pool.Query(ctx, query, login)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (users.Token, error) {
		var t users.Token
		err := row.Scan(&t.ID, &t.Login, &t.CreatedAt, &t.ExpiresAt, &t.RevokedAt)
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	return list, nil
}

// RevokeToken implements users.Store.
func (s *Store) RevokeToken(ctx context.Context, tokenID string) error {
	tag, err := s.pool.Exec(ctx, `UPDATE app.tokens SET revoked_at = coalesce(revoked_at, now()) WHERE id = $1`, tokenID)
	if err != nil {
		return fmt.Errorf("revoke a token: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return users.ErrNoToken
	}
	return nil
}

// RevokeTokens implements users.Store.
func (s *Store) RevokeTokens(ctx context.Context, login string) (revoked int, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var id string
		if err := tx.QueryRow(ctx, `SELECT id FROM app.users WHERE login = $1`, login).Scan(&id); err != nil {
			return err
		}
		revoked, err = revokeAll(ctx, tx, id)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, users.ErrNotFound
	}
	if err != nil {
		return 0, fmt.Errorf("revoke the tokens of a user: %w", err)
	}
	return revoked, nil
}
