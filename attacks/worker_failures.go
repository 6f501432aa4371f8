package attacks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"glovebox/attacks/harness"
	"glovebox/attacks/oracle"
)

// codes are the failures that a worker may report, and whether they are tried again.
var codes = map[string]bool{
	"invalid_input": false, "output_too_large": false, "output_invalid": false, "core_error": false, "core_crashed": false, "core_forbidden_call": false,
	"out_of_memory": true, "timeout": true, "sandbox_failure": true, "worker_shutdown": true,
}

// report sends a failure with a body as it stands.
func report(w *harness.Worker, a *harness.Assignment, body string, header ...string) harness.Answer {
	return w.Must(http.MethodPost, a.Path("fail"), []byte(body), append([]string{a.Fenced(), harness.JSONType}, header...)...)
}

var workerFailures = []harness.Case{
	{
		ID: "worker/failure-pairs", Title: "a worker has a user's fault tried again, or gives up what is to be tried", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"JOB-11", "JOB-09"}, Threats: []string{"INT-T3", "LIF-R1", "LIF-D2"},
		Attack:  "every code that a worker may report with the wrong word on retrying",
		Control: "a right pair is taken afterwards",
		Oracle:  "status of the answer; observer's row and history",
		Run: func(e *harness.Env) {
			_, w, a := given(e)
			same := untouched(e, observer(e), a.ID)
			for code, retryable := range codes {
				got := report(w, a, fmt.Sprintf(`{"code":%q,"retryable":%v,"detail":""}`, code, !retryable))
				e.Check(got.Status == http.StatusUnprocessableEntity && got.Code() == "invalid_failure", "%s, retryable %v: %s", code, !retryable, got.Brief())
			}
			same("by a pair against the table")
			got := report(w, a, `{"code":"invalid_input","retryable":false,"detail":""}`)
			e.Control(got.Status == http.StatusOK, "a right pair: %s", got.Brief())
		},
	},
	{
		ID: "worker/failure-codes", Title: "a worker ends a job with a word that only the server may say, or that nobody knows", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"JOB-11", "PIP-08"}, Threats: []string{"INT-T3", "PUB-T1"},
		Attack:  "the server's own codes, statuses, codes in other letters, empty, long, with control characters, of other types; either word on retrying",
		Control: "a code of the table is taken afterwards",
		Oracle:  "status of the answer; observer's row and history",
		Run: func(e *harness.Env) {
			_, w, a := given(e)
			same := untouched(e, observer(e), a.ID)
			for _, code := range []string{
				`"worker_lost"`, `"attempts_exhausted"`, `"rejected_unsupported_type"`, `"rejected_too_large"`, `"rejected_malicious_content"`, `"completed"`, `"pending"`, `"INVALID_INPUT"`, `"invalid_input "`,
				`"invalid-input"`, `""`, `"invalid_input\u0000"`, `"` + strings.Repeat("a", 9000) + `"`, `null`, `3`, `true`, `["invalid_input"]`, `{"code":"invalid_input"}`, `"'; DROP TABLE app.jobs; --"`,
			} {
				for _, retryable := range []string{"true", "false"} {
					e.Input("%.60s, %s", code, retryable)
					got := report(w, a, `{"code":`+code+`,"retryable":`+retryable+`}`)
					e.Check(got.Status == http.StatusUnprocessableEntity || got.Status == http.StatusBadRequest, "got %s", got.Brief())
				}
			}
			e.Input("afterwards")
			same("by an unknown code")
			e.Control(w.Fail(a, "core_error", false).Status == http.StatusOK, "a code of the table")
		},
	},
	{
		ID: "worker/failure-bodies", Title: "a failure's body moves more than the failure", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"API-07", "AUT-06"}, Threats: []string{"PUB-T1", "PUB-T2"},
		Attack:  "further keys (status, attempt, worker, user), keys twice, in other letters, missing, no object, two objects, not JSON, no type, other encodings, deep and large bodies",
		Control: "the plain body is taken afterwards",
		Oracle:  "status of the answer; observer's row and history",
		Run: func(e *harness.Env) {
			_, w, a := given(e)
			same := untouched(e, observer(e), a.ID)
			good := `{"code":"timeout","retryable":true}`
			bodies := []string{
				`{"code":"timeout","retryable":true,"status":"completed"}`, `{"code":"timeout","retryable":true,"attempt":0,"max_attempts":100}`, `{"code":"timeout","retryable":true,"user_id":"x"}`,
				`{"code":"timeout","retryable":true,"worker_id":"x","fencing_token":9}`, `{"code":"timeout","code":"invalid_input","retryable":true}`, `{"code":"timeout","retryable":false,"retryable":true}`,
				`{"Code":"timeout","retryable":true}`, `{"code":"timeout","retryable":true,"Retryable":false}`, `{"\u0063ode":"timeout","code":"timeout","retryable":true}`, `{"code":"timeout"}`, `{"retryable":true}`, `{}`, ``, `null`,
				`[` + good + `]`, good + good, good + `x`, `{"code":"timeout","retryable":"true"}`, `{"code":"timeout","retryable":1}`, `{'code':'timeout'}`, strings.Repeat(`{"detail":`, 3000), `{"detail":` + strings.Repeat("[", 8000),
				"\xef\xbb\xbf" + good, "\xff\xfe{", `{"code":"timeout","retryable":true,"detail":"` + strings.Repeat("d", 20_000) + `"}`, `{"code":"timeout","retryable":true,"detail":"` + "\xff" + `"}`,
			}
			for _, body := range bodies {
				e.Input("%.80q", body)
				got := report(w, a, body)
				e.Check(got.Status == http.StatusBadRequest || got.Status == http.StatusRequestEntityTooLarge, "got %s", got.Brief())
			}
			for _, kind := range []string{"Content-Type: text/plain", "Content-Type: application/x-www-form-urlencoded", "Content-Type: application/xml", "Content-Type: application/json, text/plain", "X-None: 1"} {
				e.Input("%s", kind)
				got := w.Must(http.MethodPost, a.Path("fail"), []byte(good), a.Fenced(), kind)
				e.Check(got.Status == http.StatusUnsupportedMediaType, "got %s", got.Brief())
			}
			e.Input("afterwards")
			same("by a hostile body")
			got := report(w, a, `{"code":"core_error","retryable":false}`)
			e.Control(got.Status == http.StatusOK, "the plain body: %s", got.Brief())
		},
	},
	{
		ID: "worker/hostile-detail", Title: "a worker writes on a user's or an operator's terminal", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"JOB-11", "REL-02"}, Threats: []string{"INT-T3", "OPS-R1"},
		Attack:  "details and provenance with escapes, NUL, line breaks, bidi and zero-width characters, broken UTF-8, JSON of the log's own form, a quarter of a megabyte",
		Control: "a plain detail is taken and stands in the row",
		Oracle:  "superuser's look at the row, byte by byte; every line of the servers' logs is one JSON object without control characters",
		Run: func(e *harness.Env) {
			owner, w, a := given(e)
			logs, err := oracle.MarkLogs(e.Endpoint.LogsDir)
			e.Must(err, "mark the logs")
			hostile := []string{
				"\x1b[2J\x1b]0;owned\x07", "line\nbreak", "carriage\rreturn", "nul\x00", "bidi \u202e\u2066", "zero\u200bwidth\ufeff", "tab\t", "del\x7f", "c1 \u009b2J", "tag \U000e0041",
				strings.Repeat("long", 300), `"},{"level":"ERROR","msg":"forged"`, "\n{\"level\":\"ERROR\",\"msg\":\"forged\"}\n",
			}
			for _, detail := range hostile {
				body, err := json.Marshal(map[string]any{"code": "invalid_input", "retryable": false, "detail": detail})
				e.Must(err, "write a failure")
				if strings.HasPrefix(detail, `"}`) {
					continue // printable: it is taken, and is the control below
				}
				e.Input("detail %.40q", detail)
				got := report(w, a, string(body))
				e.Check(got.Status == http.StatusBadRequest, "got %s", got.Brief())
			}
			for _, said := range []string{"x\x7f", "\u00e4", strings.Repeat("p", 513), "\x01"} {
				e.Input("provenance %.40q", said)
				c := workerConn(e, w.ID)
				r := harness.Request{Method: http.MethodPost, Path: a.Path("fail"), Header: []string{a.Fenced(), harness.JSONType, "Glovebox-Attempt-Provenance: " + said}, Body: []byte(`{"code":"invalid_input","retryable":false}`)}
				e.Must(c.Send(r.Bytes(e.Internal(0))), "send")
				got, err := c.Receive(http.MethodPost, harnessWait)
				e.Check(err != nil || got.Status == http.StatusBadRequest, "got %s", got.Brief())
				c.Close()
			}
			e.Input("a printable one")
			printable := `"},{"level":"ERROR","msg":"forged ` + harness.RandomHex(4)
			body, err := json.Marshal(map[string]any{"code": "invalid_input", "retryable": false, "detail": printable})
			e.Must(err, "write a failure")
			e.Control(report(w, a, string(body)).Status == http.StatusOK, "a printable detail")
			var kept string
			e.Must(asSuperuser(e).QueryRow(e.Context(), "SELECT error_detail FROM app.jobs WHERE id::text = $1", a.ID).Scan(&kept), "read the detail")
			e.Control(kept == printable, "the row holds %q", kept)
			e.Check(e.Status(owner, a.ID).ErrorCode == "invalid_input", "the owner sees %+v", e.Status(owner, a.ID))
			lines, err := logs.Since("server-*.log")
			e.Must(err, "read the logs")
			e.Control(len(lines) > 10, "only %d lines were written", len(lines))
			for _, line := range lines {
				e.Check(cleanLine(line), "a line of the log: %q", line.Raw)
				if msg, _ := line.Fields["msg"].(string); strings.Contains(msg, "forged") {
					e.Check(false, "a forged line: %q", line.Raw)
				}
			}
		},
	},
}

// cleanLine reports whether a line of a log is one JSON object without a raw
// control character, so that nothing in it acts on a terminal or looks like
// another line.
func cleanLine(line oracle.Line) bool {
	if line.Fields == nil {
		return false
	}
	for _, c := range string(line.Raw) {
		bidi := c >= 0x202a && c <= 0x202e || c >= 0x2066 && c <= 0x2069
		if c < 0x20 || c == 0x7f || c >= 0x80 && c < 0xa0 || bidi {
			return false
		}
	}
	return true
}
