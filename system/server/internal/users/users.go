// Package users administers who may log in. There is no sign-up: an operator
// adds, disables and re-enables by command, under the role glovebox_operator.
package users

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"glovebox/system/platform/secret"
	"glovebox/system/server/internal/auth"
)

// Errors that a store returns and commands explain.
var (
	ErrExists   = errors.New("a user with this login exists already")
	ErrNotFound = errors.New("there is no user with this login")
	ErrNoToken  = errors.New("there is no token with this id")
)

// User is a user as an operator sees one.
type User struct {
	ID           string     `json:"id"`
	Login        string     `json:"login"`
	CreatedAt    time.Time  `json:"created_at"`
	DisabledAt   *time.Time `json:"disabled_at,omitempty"`
	ActiveTokens int        `json:"active_tokens"`
}

// Token is a token as an operator sees one: everything but the token.
type Token struct {
	ID        string     `json:"id"`
	Login     string     `json:"login"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt time.Time  `json:"expires_at"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
}

// Store keeps users. Each method is one transaction.
type Store interface {
	// Insert adds a user, or returns ErrExists.
	Insert(ctx context.Context, id, login, passwordHash string) error
	// List returns all users by login.
	List(ctx context.Context) ([]User, error)
	// SetPassword replaces the password and ends every token, or returns ErrNotFound.
	SetPassword(ctx context.Context, login, passwordHash string) error
	// SetDisabled disables a user and ends every token, or enables one again;
	// ErrNotFound without the user.
	SetDisabled(ctx context.Context, login string, disabled bool) error
	// Tokens returns the tokens of login, of everybody where login is empty,
	// newest first.
	Tokens(ctx context.Context, login string) ([]Token, error)
	// RevokeToken ends one token, or returns ErrNoToken.
	RevokeToken(ctx context.Context, tokenID string) error
	// RevokeTokens ends every token of login and returns how many; ErrNotFound
	// without the user.
	RevokeTokens(ctx context.Context, login string) (int, error)
}

// Hasher makes password hashes; *auth.Hasher is the one there is.
type Hasher interface {
	Hash(ctx context.Context, password secret.Text) (string, error)
}

// Service administers users.
type Service struct {
	store  Store
	hasher Hasher
}

// NewService puts the parts together.
func NewService(store Store, hasher Hasher) *Service { return &Service{store, hasher} }

// Add makes a user and returns its id.
func (s *Service) Add(ctx context.Context, login string, password secret.Text) (id string, err error) {
	folded, err := fold(login)
	if err != nil {
		return "", err
	}
	hash, err := s.hash(ctx, password)
	if err != nil {
		return "", err
	}
	random, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make a user id: %w", err)
	}
	return random.String(), s.store.Insert(ctx, random.String(), folded, hash)
}

// SetPassword replaces a user's password. Every token of the user ends: who
// changes a password may do so because it leaked.
func (s *Service) SetPassword(ctx context.Context, login string, password secret.Text) error {
	folded, err := fold(login)
	if err != nil {
		return err
	}
	hash, err := s.hash(ctx, password)
	if err != nil {
		return err
	}
	return s.store.SetPassword(ctx, folded, hash)
}

// SetDisabled shuts a user out at once, tokens included, or lets one in again.
func (s *Service) SetDisabled(ctx context.Context, login string, disabled bool) error {
	folded, err := fold(login)
	if err != nil {
		return err
	}
	return s.store.SetDisabled(ctx, folded, disabled)
}

// List returns all users.
func (s *Service) List(ctx context.Context) ([]User, error) { return s.store.List(ctx) }

// Tokens returns the tokens of login, of everybody where login is empty.
func (s *Service) Tokens(ctx context.Context, login string) ([]Token, error) {
	if login == "" {
		return s.store.Tokens(ctx, "")
	}
	folded, err := fold(login)
	if err != nil {
		return nil, err
	}
	return s.store.Tokens(ctx, folded)
}

// RevokeToken ends one token.
func (s *Service) RevokeToken(ctx context.Context, tokenID string) error {
	if _, err := uuid.Parse(tokenID); err != nil {
		return ErrNoToken
	}
	return s.store.RevokeToken(ctx, tokenID)
}

// RevokeTokens ends every token of login.
func (s *Service) RevokeTokens(ctx context.Context, login string) (int, error) {
	folded, err := fold(login)
	if err != nil {
		return 0, err
	}
	return s.store.RevokeTokens(ctx, folded)
}

func (s *Service) hash(ctx context.Context, password secret.Text) (string, error) {
	if err := auth.CheckPassword(password); err != nil {
		return "", err
	}
	return s.hasher.Hash(ctx, password)
}

func fold(login string) (string, error) {
	folded, ok := auth.FoldLogin(login)
	if !ok {
		return "", errors.New("a login has 1 to 64 characters of a-z 0-9 . _ @ + - and begins with a letter or digit")
	}
	return folded, nil
}
