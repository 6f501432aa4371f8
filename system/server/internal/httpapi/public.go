package httpapi

import (
	"log/slog"
	"net/http"

	"github.com/go-chi/chi/v5"

	authhttp "glovebox/system/server/internal/auth/adapters/http"
	"glovebox/system/server/internal/jobs/adapters/http/client"
	"glovebox/system/server/internal/platform/httperr"
)

// PublicParts are what the public API is made of.
type PublicParts struct {
	Log     *slog.Logger
	Errors  httperr.Responder
	Proxies Proxies
	Observe Observe
	Auth    authhttp.Handlers
	Jobs    client.Handlers
	Health  *Health
	OpenAPI []byte
}

// Public returns the public API (INTERFACES §1) and its router, for the contract
// test.
func Public(p PublicParts) (http.Handler, chi.Routes) {
	router := newRouter(p.Errors)
	router.Get("/health", p.Health.Alive)
	router.Head("/health", p.Health.Alive)
	router.Get("/ready", p.Health.Ready)
	router.Head("/ready", p.Health.Ready)
	router.Get("/api/v1/openapi.yaml", document(p.OpenAPI))
	router.Post("/api/v1/auth/token", p.Auth.Login)
	router.Group(func(router chi.Router) {
		router.Use(p.Auth.Require)
		router.Delete("/api/v1/auth/token", p.Auth.Logout)
		router.Get("/api/v1/auth/me", p.Auth.Me)
		router.Post("/api/v1/jobs", p.Jobs.Submit)
		router.Get("/api/v1/jobs/{id}", p.Jobs.Status)
		router.Get("/api/v1/jobs/{id}/result", p.Jobs.Result)
		router.Head("/api/v1/jobs/{id}/result", p.Jobs.Result)
	})
	return base(p.Log, p.Errors, p.Proxies, p.Observe)(router), router
}
