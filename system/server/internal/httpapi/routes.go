package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"glovebox/system/server/internal/httpapi/wire"
	"glovebox/system/server/internal/platform/httperr"
)

// methods are those that a 405 looks for, in the order of its Allow header.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
}

// newRouter returns a router whose own answers have the one error form (API-03).
func newRouter(errs httperr.Responder) *chi.Mux {
	router := chi.NewRouter()
	notFound := func(w http.ResponseWriter, r *http.Request) { errs.Error(w, r, wire.NotFound()) }
	router.NotFound(notFound)
	router.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		allow := allowed(router, r)
		if len(allow) == 0 { // a method the router does not know, on a path it does not know either
			notFound(w, r)
			return
		}
		w.Header().Set("Allow", strings.Join(allow, ", "))
		errs.Error(w, r, httperr.Refuse(httperr.MethodNotAllowed, "this method is not offered here"))
	})
	return router
}

func allowed(router chi.Routes, r *http.Request) []string {
	path := r.URL.RawPath
	if path == "" {
		path = r.URL.Path
	}
	return slices.DeleteFunc(slices.Clone(methods), func(method string) bool {
		return !router.Match(chi.NewRouteContext(), method, path)
	})
}

// Routes lists "METHOD pattern" of a router that Public or Internal made; the
// contract test compares it with the OpenAPI document.
func Routes(router chi.Routes) ([]string, error) {
	var all []string
	err := chi.Walk(router, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		all = append(all, method+" "+route)
		return nil
	})
	slices.Sort(all)
	return all, err
}
