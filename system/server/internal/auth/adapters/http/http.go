// Package http is the public API's side of auth: the bearer check before every
// protected route, and the routes of the token itself.
package http

import (
	"context"
	"net/http"
	"net/netip"
	"strings"

	"glovebox/system/platform/secret"
	"glovebox/system/server/internal/auth"
	"glovebox/system/server/internal/httpapi/wire"
	"glovebox/system/server/internal/platform/httperr"
)

// Service is what these handlers consume; *auth.Service is the one there is.
type Service interface {
	Login(ctx context.Context, c auth.Credentials) (auth.Token, error)
	Authenticate(ctx context.Context, token secret.Text) (auth.Principal, error)
	Logout(ctx context.Context, token secret.Text) error
}

// Handlers are the routes of auth.
type Handlers struct {
	Service Service
	Errors  httperr.Responder
	// Address tells the client's address, proxies considered.
	Address func(ctx context.Context) netip.Addr
}

// bearer returns the token of the Authorization header; more than one header was
// refused before. The scheme's name is case-insensitive (RFC 9110).
func bearer(r *http.Request) (secret.Text, error) {
	header := r.Header.Get("Authorization")
	scheme, token, found := strings.Cut(header, " ")
	if !found || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return secret.Text{}, auth.NoToken("no bearer token")
	}
	return secret.New(token), nil
}

// Require lets only requests with a valid token through (AUT-01).
func (h Handlers) Require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, err := bearer(r)
		if err != nil {
			h.Errors.Error(w, r, err)
			return
		}
		principal, err := h.Service.Authenticate(r.Context(), token)
		if err != nil {
			h.Errors.Error(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(auth.WithPrincipal(r.Context(), principal)))
	})
}

type loginRequest struct {
	Login    string      `json:"login"`
	Password secret.Text `json:"password"`
}

type loginAnswer struct {
	Token     string `json:"token"`
	ExpiresAt string `json:"expires_at"`
}

// Login answers POST /api/v1/auth/token.
func (h Handlers) Login(w http.ResponseWriter, r *http.Request) {
	var body loginRequest
	if err := wire.ReadJSON(r, &body); err != nil {
		h.Errors.Error(w, r, err)
		return
	}
	token, err := h.Service.Login(r.Context(), auth.Credentials{Login: body.Login, Password: body.Password, Address: h.Address(r.Context())})
	if err != nil {
		h.Errors.Error(w, r, err)
		return
	}
	wire.WriteJSON(w, r, http.StatusOK, loginAnswer{Token: token.Text.Reveal(), ExpiresAt: wire.Time(token.Expires)})
}

// Logout answers DELETE /api/v1/auth/token: the presented token ends.
func (h Handlers) Logout(w http.ResponseWriter, r *http.Request) {
	token, err := bearer(r)
	if err == nil {
		err = h.Service.Logout(r.Context(), token)
	}
	if err != nil {
		h.Errors.Error(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

type meAnswer struct {
	Login     string `json:"login"`
	CreatedAt string `json:"created_at"`
}

// Me answers GET /api/v1/auth/me.
func (h Handlers) Me(w http.ResponseWriter, r *http.Request) {
	p := auth.PrincipalFrom(r.Context())
	wire.WriteJSON(w, r, http.StatusOK, meAnswer{Login: p.Login, CreatedAt: wire.Time(p.CreatedAt)})
}
