package harness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Target is a deployed system, attacked with what two of its users have.
type Target struct {
	URL                             string
	CAFile                          string // "" trusts the host's own authorities
	Login, PasswordFile             string
	SecondLogin, SecondPasswordFile string
}

func (t Target) open() (*System, error) {
	if t.Login == "" || t.PasswordFile == "" {
		return nil, errors.New("a target needs --user and --password-file, and --second-user and --second-password-file for the cases between users")
	}
	if (t.SecondLogin == "") != (t.SecondPasswordFile == "") {
		return nil, errors.New("--second-user and --second-password-file belong together")
	}
	address, err := hostPort(t.URL)
	if err != nil {
		return nil, err
	}
	s := &System{World: Main, target: true, publics: []string{address}, lanes: map[int][]*User{}}
	if s.roots, err = pool(t.CAFile); err != nil {
		return nil, err
	}
	for _, u := range [][2]string{{t.Login, t.PasswordFile}, {t.SecondLogin, t.SecondPasswordFile}} {
		if u[0] == "" {
			continue
		}
		user, err := readUser(u[0], u[1])
		if err != nil {
			return nil, err
		}
		s.given = append(s.given, user)
	}
	return s, nil
}

func (s *System) toRevoke(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issued = append(s.issued, token)
}

// leave revokes the tokens that were issued. Jobs have no operation that removes
// them: what was submitted goes with the target's retention.
func (s *System) leave(ctx context.Context) error {
	e := newEnv(ctx, s, &Case{ID: "harness/leave"}, 0, 0)
	defer e.cancel()
	var errs []error
	for _, token := range s.issued {
		e.tape.secret(token)
		// 401: the case had revoked it itself.
		a, err := e.Try(Request{Method: http.MethodDelete, Path: "/api/v1/auth/token", Token: token})
		if err != nil || a.Status != http.StatusNoContent && a.Status != http.StatusUnauthorized {
			errs = append(errs, fmt.Errorf("revoke a token on the target: %d %w", a.Status, err))
		}
	}
	return errors.Join(errs...)
}
