package attacks

import (
	"encoding/json"
	"net/http"
	"strings"

	"glovebox/attacks/harness"
	"glovebox/attacks/vectors"
)

// route is an operation of the public API, as the contract lists it.
type route struct {
	method, path string // {id} stands for a job's id
	protected    bool
	body         []byte
	header       []string
}

// routes are all of them; errors/contract holds the list to the document that the
// server itself serves, so that a new route cannot go unattacked.
var routes = []route{
	{method: "GET", path: "/health"},
	{method: "HEAD", path: "/health"},
	{method: "GET", path: "/ready"},
	{method: "HEAD", path: "/ready"},
	{method: "GET", path: "/api/v1/openapi.yaml"},
	{method: "POST", path: "/api/v1/auth/token", header: []string{harness.JSONType}, body: []byte(`{"login":"nobody","password":"nothing-at-all"}`)},
	{method: "DELETE", path: "/api/v1/auth/token", protected: true},
	{method: "GET", path: "/api/v1/auth/me", protected: true},
	{method: "POST", path: "/api/v1/jobs", protected: true, header: []string{harness.FormType}, body: harness.Form("a.lua", []byte("return 1"))},
	{method: "GET", path: "/api/v1/jobs/{id}", protected: true},
	{method: "GET", path: "/api/v1/jobs/{id}/result", protected: true},
	{method: "HEAD", path: "/api/v1/jobs/{id}/result", protected: true},
}

// request is a request of the route for that job.
func (r route) request(id, token string, more ...string) harness.Request {
	return harness.Request{
		Method: r.method, Path: strings.ReplaceAll(r.path, "{id}", id), Token: token, Body: r.body,
		Header: append(append([]string{}, r.header...), more...),
	}
}

// name tells the route in an input's name.
func (r route) name() string { return r.method + " " + r.path }

// protectedRoutes are those that need a token. The one that ends the token comes
// last, so that the others can be tried with it before.
func protectedRoutes() []route {
	var out []route
	for _, r := range routes {
		if r.protected && r.method != http.MethodDelete {
			out = append(out, r)
		}
	}
	for _, r := range routes {
		if r.protected && r.method == http.MethodDelete {
			out = append(out, r)
		}
	}
	return out
}

// jobRoutes are those with an id.
func jobRoutes() []route {
	var out []route
	for _, r := range routes {
		if strings.Contains(r.path, "{id}") {
			out = append(out, r)
		}
	}
	return out
}

// me asks who a token belongs to.
func me(token string, header ...string) harness.Request {
	return harness.Request{Method: http.MethodGet, Path: "/api/v1/auth/me", Token: token, Header: header}
}

// whoami returns the login that the answer names, "" where it names none.
func whoami(a harness.Answer) string {
	var body struct {
		Login string `json:"login"`
	}
	if a.Status != http.StatusOK || json.Unmarshal(a.Body, &body) != nil {
		return ""
	}
	return body.Login
}

// load reads vectors; a file that does not load is the suite's fault.
func load(e *harness.Env, name string) []vectors.Vector {
	all, err := vectors.Load(name)
	e.Must(err, "load vectors")
	return all
}

// refused reports whether the answer is the refusal with that status and code, in
// the one error form.
func refused(a harness.Answer, status int, code string) bool {
	return a.Status == status && a.Code() == code
}
