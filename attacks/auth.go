package attacks

import (
	"net/http"

	"glovebox/attacks/harness"
)

// auth attacks the door: credentials that are wrong, guessed or missing.
var auth = harness.Family{
	Name: "auth", About: "authentication and brute force",
	Cases: []harness.Case{{
		ID: "auth/no-token", Title: "somebody without a token uses the API",
		Requirements: []string{"AUT-01"}, Safe: true,
		Attack:  "every protected route without an Authorization header",
		Control: "the same request with a token is not refused as unauthenticated",
		Oracle:  "status, code and WWW-Authenticate of the answer",
		Run: func(e *harness.Env) {
			a := e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/auth/me", Token: e.Token(e.Alice())})
			e.Control(a.Status == http.StatusOK, "with a token: %s", a.Brief())
			a = e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/auth/me"})
			e.Check(a.Status == http.StatusUnauthorized && a.Code() == "unauthenticated", "got %s", a.Brief())
		},
	}},
}
