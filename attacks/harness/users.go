package harness

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
)

// User is a person who may log in.
type User struct {
	Login    string
	Password string

	mu    sync.Mutex
	token string
}

func readUser(login, passwordFile string) (*User, error) {
	content, err := os.ReadFile(passwordFile)
	if err != nil {
		return nil, fmt.Errorf("read the password of %s: %w", login, err)
	}
	return &User{Login: login, Password: strings.TrimRight(string(content), "\r\n")}, nil
}

// Alice is the user whose things are under attack. In a local system no case that
// runs at the same time shares her.
func (e *Env) Alice() *User { return e.person(0) }

// Bob is the other user, who attacks.
func (e *Env) Bob() *User { return e.person(1) }

func (e *Env) person(i int) *User {
	e.System.mu.Lock()
	defer e.System.mu.Unlock()
	if e.target {
		if i >= len(e.given) {
			e.Unavailable("a second user; name one with --second-user")
		}
		return e.given[i]
	}
	people := e.lanes[e.lane]
	for len(people) <= i {
		user, err := e.System.addUser(e.ctx)
		e.Must(err, "add a user")
		people = append(people, user)
		e.lanes[e.lane] = people
	}
	e.tape.secret(people[i].Password)
	return people[i]
}

// NewUser makes a user for this case alone, with limits and a login window that
// nobody has touched.
func (e *Env) NewUser() *User {
	user, err := e.System.addUser(e.ctx)
	e.Must(err, "add a user")
	e.tape.secret(user.Password)
	return user
}

// addUser adds a user as the host's administrator does.
func (s *System) addUser(ctx context.Context) (*User, error) {
	if s.target {
		return nil, errors.New("a deployed system gets no users from here")
	}
	user := &User{Login: "u" + RandomHex(8), Password: RandomHex(16)}
	_, err := s.Admin(ctx, user.Password+"\n", "user", "add", user.Login, "--password-stdin")
	return user, err
}

// Token returns a token of the user, which the system's users share between cases.
func (e *Env) Token(u *User) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.token == "" {
		u.token = e.FreshToken(u)
	}
	e.tape.secret(u.token)
	return u.token
}

// FreshToken logs the user in and returns a token that only the caller has. On a
// target it is revoked when the case is over.
func (e *Env) FreshToken(u *User) string {
	e.tape.secret(u.Password)
	answer := e.Do(LoginRequest(u.Login, u.Password))
	if answer.Status != http.StatusOK {
		e.Fail("log in as %s: %s", u.Login, answer.Brief())
	}
	var body struct {
		Token string `json:"token"`
	}
	e.Must(json.Unmarshal(answer.Body, &body), "read the token")
	e.tape.secret(body.Token)
	return body.Token
}

// LoginRequest asks for a token.
func LoginRequest(login, password string) Request {
	body, err := json.Marshal(map[string]string{"login": login, "password": password})
	if err != nil {
		panic(err) // two strings always marshal
	}
	return Request{Method: http.MethodPost, Path: "/api/v1/auth/token", Header: []string{"Content-Type: application/json"}, Body: body}
}

// RandomHex returns 2n hexadecimal digits that nobody has seen before.
func RandomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
