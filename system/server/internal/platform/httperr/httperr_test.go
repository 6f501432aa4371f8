package httperr_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"glovebox/system/server/internal/auth"
	"glovebox/system/server/internal/jobs/domain"
	"glovebox/system/server/internal/platform/httperr"
	"glovebox/threat-model/evidence"
)

func answer(t *testing.T, method string, err error) (*http.Response, string, string) {
	t.Helper()
	var log bytes.Buffer
	w := httptest.NewRecorder()
	w.Header().Set("Content-Disposition", "attachment")
	w.Header().Set("Content-Length", "99")
	httperr.Responder{Log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}.Error(w, httptest.NewRequest(method, "/", nil), err)
	return w.Result(), w.Body.String(), log.String()
}

// TestErrorsWithoutACodeShowNothing: what went wrong is in the log and nowhere else.
func TestErrorsWithoutACodeShowNothing(t *testing.T) {
	evidence.Proves(t, "API-03")
	cause := errors.New("open /srv/glovebox/objects/7f: permission denied, host db-1.internal")
	for _, err := range []error{
		cause, fmt.Errorf("wrapped: %w", cause), &domain.Error{Code: "no_such_code", Message: "/srv/glovebox", Cause: cause},
		&httperr.Error{Code: httperr.Internal, Message: "/srv/glovebox", Cause: cause}, &domain.Error{Code: domain.CodeUnavailable, Message: "db-1.internal is away", Cause: cause},
	} {
		res, body, log := answer(t, "GET", err)
		if strings.Contains(body, "srv") || strings.Contains(body, "db-1") || strings.Contains(body, "denied") {
			t.Errorf("%v: body %s", err, body)
		}
		if res.StatusCode < 500 || !strings.Contains(log, "permission denied") {
			t.Errorf("%v: status %d, log %s", err, res.StatusCode, log)
		}
	}
}

func TestEveryCodeHasItsStatusAndForm(t *testing.T) {
	evidence.Proves(t, "API-03", "API-07")
	for code, status := range httperr.Codes() {
		res, body, _ := answer(t, "GET", fmt.Errorf("deep inside: %w", httperr.Refuse(code, "message")))
		var form struct {
			Error struct{ Code, Message string }
		}
		if err := json.Unmarshal([]byte(body), &form); err != nil || res.StatusCode != status || form.Error.Code != code || form.Error.Message == "" {
			t.Errorf("%s: %d %s %v", code, res.StatusCode, body, err)
		}
		if res.Header.Get("Content-Type") != "application/json" || res.Header.Get("Content-Disposition") != "" || res.Header.Get("Content-Length") != fmt.Sprint(len(body)) {
			t.Errorf("%s: headers %v", code, res.Header)
		}
		if has := res.Header.Get("Retry-After") != ""; has != (status == 429 || status == 503 || code == "idempotency_in_flight") {
			t.Errorf("%s: Retry-After is %q", code, res.Header.Get("Retry-After"))
		}
		if has := res.Header.Get("WWW-Authenticate") != ""; has != (status == 401) {
			t.Errorf("%s: WWW-Authenticate is %q", code, res.Header.Get("WWW-Authenticate"))
		}
		if _, body, _ := answer(t, "HEAD", httperr.Refuse(code, "message")); body != "" {
			t.Errorf("%s: HEAD has the body %q", code, body)
		}
	}
	res, body, _ := answer(t, "GET", &auth.Error{Code: auth.CodeRateLimited, Message: "slow down", Retry: 1500 * time.Millisecond, Cause: errors.New("inner")})
	if res.StatusCode != 429 || res.Header.Get("Retry-After") != "2" || strings.Contains(body, "inner") {
		t.Errorf("%d %v %s", res.StatusCode, res.Header, body)
	}
	res, body, _ = answer(t, "GET", &httperr.Error{Code: httperr.Invalid, Message: strings.Repeat("x", 5000), Close: true})
	if len(body) > 1100 || res.Header.Get("Connection") != "close" {
		t.Errorf("%d bytes, %v", len(body), res.Header)
	}
}
