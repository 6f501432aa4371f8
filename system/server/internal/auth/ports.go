package auth

import (
	"context"
	"time"
)

// User is what the login needs of a user.
type User struct {
	ID           string
	Login        string
	PasswordHash string
	CreatedAt    time.Time
	Disabled     bool
}

// Principal is who a valid token belongs to.
type Principal struct {
	UserID    string
	Login     string
	CreatedAt time.Time
}

// Store keeps users and tokens. Times are the database's. A fault of the database
// is an error without a code.
type Store interface {
	// UserByLogin returns the user of a folded login; ok is false without one.
	UserByLogin(ctx context.Context, login string) (user User, ok bool, err error)
	// Rehash replaces a user's password hash if it is still the old one.
	Rehash(ctx context.Context, userID, old, new string) error
	// AddToken stores a token's hash for a user and returns when it expires.
	AddToken(ctx context.Context, userID string, hash Hash, lifetime time.Duration) (expires time.Time, err error)
	// Lookup returns the owner of a token that is neither expired nor revoked and
	// whose user is not disabled, with the hash as stored.
	Lookup(ctx context.Context, hash Hash) (principal Principal, stored Hash, ok bool, err error)
	// Revoke ends a token now. One that has ended already is no error.
	Revoke(ctx context.Context, hash Hash) error
}

// Attempts counts logins in windows that every server shares (AUT-05). Each
// method is one statement, so that no interleaving loses a count.
type Attempts interface {
	// Reserve counts one attempt and one failure of the subject in the current
	// window, and returns the sums with this one in them. The failure is taken
	// back by Absolve where the attempt succeeds: counted first, a burst of
	// parallel guesses cannot pass the limit.
	Reserve(ctx context.Context, scope Scope, subject string, window time.Duration) (Count, error)
	// Absolve takes one failure back from the window that Reserve counted it in.
	Absolve(ctx context.Context, scope Scope, subject string, count Count) error
}

// Scope is a kind of subject.
type Scope string

// The scopes.
const (
	ScopeAddress Scope = "address"
	ScopeLogin   Scope = "login"
	ScopeAll     Scope = "all" // every failed login everywhere: a spike is judged by it
)

// Count is what Reserve returns.
type Count struct {
	Attempts    int
	Failures    int
	WindowStart time.Time
	Remaining   time.Duration // of the window, by the database's clock
}

// Alarm is told of a spike of failed logins (AUT-07). It must not block.
type Alarm interface {
	FailedLogins(ctx context.Context, count int, window time.Duration)
}
