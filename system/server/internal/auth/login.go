// Package auth decides who asks: passwords become tokens, tokens become users.
//
// A login is counted before it is judged, per address and per login, in windows
// that all servers share through the database. A wrong login, a wrong password
// and a disabled user are one answer after the same work. A token is looked up by
// its HMAC with every request and cached nowhere, so that revoking it acts at
// once.
package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"glovebox/system/platform/secret"
)

// Policy is the configuration of the login.
type Policy struct {
	TokenLifetime      time.Duration
	Window             time.Duration // of the counts of attempts
	AttemptsPerAddress int           // in a window, successful ones included
	FailuresPerLogin   int           // in a window
	SpikeThreshold     int           // failures of everybody in a spike's window
	SpikeWindow        time.Duration
}

// Service logs users in and out. It is safe for concurrent use.
type Service struct {
	store    Store
	attempts Attempts
	hasher   *Hasher
	minter   *Minter
	policy   Policy
	alarm    Alarm
	log      *slog.Logger
}

// NewService puts the parts together.
func NewService(store Store, attempts Attempts, hasher *Hasher, minter *Minter, policy Policy, alarm Alarm, log *slog.Logger) *Service {
	return &Service{store: store, attempts: attempts, hasher: hasher, minter: minter, policy: policy, alarm: alarm, log: log}
}

// Credentials are what a login presents.
type Credentials struct {
	Login    string
	Password secret.Text
	Address  netip.Addr // of the client
}

// Token is a fresh token; it is shown once.
type Token struct {
	Text    secret.Text
	Expires time.Time
}

const maxLoginBytes = 256

var loginForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._@+-]{0,63}$`)

// FoldLogin returns the form in which a login is stored and compared; ok is false
// for a text that no user can have.
func FoldLogin(login string) (folded string, ok bool) {
	folded = strings.ToLower(login)
	return folded, loginForm.MatchString(folded)
}

// Login exchanges credentials for a token.
func (s *Service) Login(ctx context.Context, c Credentials) (Token, error) {
	if c.Login == "" || len(c.Login) > maxLoginBytes || c.Password.IsZero() || c.Password.Len() > MaxPasswordBytes {
		return Token{}, &Error{Code: CodeInvalid, Message: "login and password are needed, of sensible length"}
	}
	address := subjectOfAddress(c.Address)
	byAddress, err := s.attempts.Reserve(ctx, ScopeAddress, address, s.policy.Window)
	if err != nil {
		return Token{}, err
	}
	// The address is judged first: one that is blocked must not count against a
	// login, or it could lock any user out at no cost.
	if byAddress.Attempts > s.policy.AttemptsPerAddress {
		return Token{}, s.limited(ctx, "address", byAddress)
	}
	folded, possible := FoldLogin(c.Login)
	login := subjectOfLogin(folded)
	byLogin, err := s.attempts.Reserve(ctx, ScopeLogin, login, s.policy.Window)
	if err != nil {
		return Token{}, err
	}
	if byLogin.Failures > s.policy.FailuresPerLogin {
		return Token{}, s.limited(ctx, "login", byLogin)
	}

	user, err := s.judge(ctx, folded, possible, c.Password)
	if CodeOf(err) == CodeUnauthenticated {
		s.failed(ctx, err)
		return Token{}, err
	}
	// Neither a success nor a password that nobody judged counts as a failure: a
	// crowd at the door must not lock out those who stand in it.
	for _, taken := range []struct {
		scope   Scope
		subject string
		count   Count
	}{{ScopeAddress, address, byAddress}, {ScopeLogin, login, byLogin}} {
		err = errors.Join(err, s.absolve(ctx, taken.scope, taken.subject, taken.count))
	}
	if err != nil {
		return Token{}, err
	}
	text, hash := s.minter.Mint()
	expires, err := s.store.AddToken(ctx, user.ID, hash, s.policy.TokenLifetime)
	if err != nil {
		return Token{}, err
	}
	s.log.InfoContext(ctx, "logged in", "user_id", user.ID)
	return Token{Text: text, Expires: expires}, nil
}

// absolve takes a counted failure back, also when the caller has gone.
func (s *Service) absolve(ctx context.Context, scope Scope, subject string, count Count) error {
	const most = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer cancel()
	return s.attempts.Absolve(ctx, scope, subject, count)
}

// judge looks the user up and checks the password: the same steps, a lookup and
// one hash, whether the user exists or not.
func (s *Service) judge(ctx context.Context, folded string, possible bool, password secret.Text) (User, error) {
	if !possible {
		folded = "-" // no user's login has this form, so the lookup finds nobody
	}
	user, exists, err := s.store.UserByLogin(ctx, folded)
	if err != nil {
		return User{}, err
	}
	encoded := user.PasswordHash
	if !exists || user.Disabled {
		encoded = ""
	}
	ok, stale, err := s.hasher.Verify(ctx, encoded, password)
	if err != nil {
		return User{}, err
	}
	switch {
	case !exists:
		return User{}, wrongCredentials("no such user")
	case user.Disabled:
		return User{}, wrongCredentials("the user is disabled")
	case !ok:
		return User{}, wrongCredentials("wrong password")
	}
	if stale {
		s.rehash(ctx, user, password)
	}
	return user, nil
}

// rehash stores the password under today's costs (AUT-02). The login is good
// either way: a fault here is the log's only.
func (s *Service) rehash(ctx context.Context, user User, password secret.Text) {
	encoded, err := s.hasher.Hash(ctx, password)
	if err == nil {
		err = s.store.Rehash(ctx, user.ID, user.PasswordHash, encoded)
	}
	if err != nil {
		s.log.WarnContext(ctx, "cannot raise the costs of a password hash", "user_id", user.ID, "error", err)
	}
}

func (s *Service) limited(ctx context.Context, what string, count Count) error {
	s.log.WarnContext(ctx, "login refused: too many attempts", "by", what, "attempts", count.Attempts, "failures", count.Failures)
	return &Error{Code: CodeRateLimited, Message: "too many attempts to log in; try again later", Retry: max(count.Remaining, time.Second)}
}

// failed counts a failed login among everybody's. The server whose failure is the
// one that reaches the threshold raises the alarm, and no other does.
func (s *Service) failed(ctx context.Context, cause error) {
	s.log.WarnContext(ctx, "login failed", "error", cause)
	all, err := s.attempts.Reserve(ctx, ScopeAll, "all", s.policy.SpikeWindow)
	if err != nil {
		s.log.ErrorContext(ctx, "cannot count a failed login", "error", err)
		return
	}
	if all.Failures == s.policy.SpikeThreshold {
		s.alarm.FailedLogins(ctx, all.Failures, s.policy.SpikeWindow)
	}
}

// Authenticate returns who a token belongs to, or NoToken.
func (s *Service) Authenticate(ctx context.Context, token secret.Text) (Principal, error) {
	hash, ok := s.minter.Hash(token)
	if !ok {
		return Principal{}, NoToken("malformed token")
	}
	principal, stored, ok, err := s.store.Lookup(ctx, hash)
	if err != nil {
		return Principal{}, err
	}
	if !ok || !hmac.Equal(stored[:], hash[:]) {
		return Principal{}, NoToken("unknown, expired or revoked token")
	}
	return principal, nil
}

// Logout revokes a token that Authenticate accepted.
func (s *Service) Logout(ctx context.Context, token secret.Text) error {
	hash, ok := s.minter.Hash(token)
	if !ok {
		return NoToken("malformed token")
	}
	return s.store.Revoke(ctx, hash)
}

// subjectOfAddress is what one client can hardly change: an IPv4 address, or the
// /64 of an IPv6 one.
func subjectOfAddress(addr netip.Addr) string {
	if !addr.IsValid() {
		return "unknown"
	}
	if addr = addr.Unmap(); addr.Is6() {
		if prefix, err := addr.WithZone("").Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return addr.String()
}

// subjectOfLogin has a fixed length whatever was typed, and a password typed into
// the login field by mistake is not kept.
func subjectOfLogin(folded string) string {
	sum := sha256.Sum256([]byte(folded))
	return hex.EncodeToString(sum[:])
}
