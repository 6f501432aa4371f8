package attacks

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"glovebox/attacks/harness"
	"glovebox/attacks/oracle"
)

func errorsMetrics(e *harness.Env) {
	address, _ := e.Endpoint.Metrics["server"].(string)
	figures, err := oracle.Scrape(e.Context(), address)
	e.Control(err == nil && len(figures) > 5, "the figures: %d (%v)", len(figures), err)
	worker := e.Worker(harness.Spare1)
	for _, path := range []string{
		"/metrics", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/heap", "/debug/vars", "/metrics/", "/api/v1/metrics",
		"/internal/v1/metrics",
	} {
		e.Input("%s", path)
		a := e.Do(harness.Request{Method: http.MethodGet, Path: path, Token: e.Token(e.Alice())})
		e.Check(a.Status == http.StatusNotFound, "the public interface: %s", a.Brief())
		a = worker.Must(http.MethodGet, path, nil)
		e.Check(a.Status == http.StatusNotFound, "the internal interface: %s", a.Brief())
		if strings.HasPrefix(path, "/debug") {
			resp, err := http.Get(strings.TrimSuffix(address, "/metrics") + path) //nolint:gosec,noctx // the system's own address
			e.Must(err, "ask the metrics' listener")
			_ = resp.Body.Close()
			e.Check(resp.StatusCode == http.StatusNotFound, "the metrics' listener: %d", resp.StatusCode)
		}
	}
	e.Input("")
	for _, pid := range e.Endpoint.PIDs.Server {
		sockets, err := oracle.SocketsOf(pid)
		e.Must(err, "look at the server's sockets")
		listening := 0
		for _, s := range sockets {
			if s.Listening {
				listening++
				e.Check(s.Local.Addr().IsLoopback(), "it listens on %s", s.Local)
			}
		}
		e.Control(listening >= 3, "only %d listeners are seen", listening)
	}
}

func errorsNoCrash(e *harness.Env) {
	token := e.Token(e.NewUser())
	pieces := []string{"/", "..", "%2f", "%00", "{", "}", "'", "\"", "<", "jobs", "api", "v1", "auth", "token", "me", "result", harness.UUID(), "%zz", "é", strings.Repeat("a", 300), "?", "&", "=", ";", "#", "*", "$", "\\", "~", " "}
	headers := []string{
		"Range: bytes=0-", "Range: bytes=-1", "If-Match: *", "If-None-Match: W/\"x\",,\"", "Content-Type: multipart/form-data; boundary=\"",
		harness.FormType, harness.JSONType, "Content-Encoding: identity", "Idempotency-Key: x", "Glovebox-File-Digest: sha-256=::", "Accept: */*;q=",
		"Cookie: a=b;;;=", "X-Forwarded-For: ::1%eth0, x",
		"Authorization: Bearer " + token, "Authorization: Bearer", "If-Modified-Since: x", "Accept-Charset: \xff", "X-Request-Id: {}",
		"Transfer-Encoding: identity", "Expect: 100-continue", "TE: trailers", "Priority: u=9",
	}
	bodies := []string{"", "{", "[]", "null", `{"login":"a","password":"b"}`, part(partHead, "x"), delim, delim + "--", strings.Repeat("\x00", 1000), strings.Repeat("[", 5000), "\xff\xfe", "a=b&c=d"}
	pick := func(list []string) string { return list[e.Rand.IntN(len(list))] }
	logs, err := oracle.MarkLogs(e.Endpoint.LogsDir)
	e.Must(err, "mark the logs")
	seen := map[int]int{}
	for i := range 1500 {
		path := "/"
		for range e.Rand.IntN(8) {
			path += pick(pieces)
			if e.Rand.IntN(2) == 0 {
				path += "/"
			}
		}
		if e.Rand.IntN(3) == 0 {
			r := routes[e.Rand.IntN(len(routes))]
			path = strings.ReplaceAll(r.path, "{id}", pick(pieces))
		}
		r := harness.Request{Method: pick(methods[:12]), Path: strings.ReplaceAll(path, " ", "%20"), Body: []byte(pick(bodies)), Server: i}
		if r.Method == "CONNECT" {
			r.Method = "GET"
		}
		for range e.Rand.IntN(5) {
			r.Header = append(r.Header, pick(headers))
		}
		if len(r.Body) > 0 && r.Method != "POST" && r.Method != "PUT" {
			r.Header, r.NoLength = append(r.Header, "Content-Length: "+itoa(len(r.Body))), true
		}
		e.Input("request %d: %s %.100s", i, r.Method, r.Path)
		a, err := e.Try(r)
		if err != nil {
			continue // the log and the processes tell whether it was a crash
		}
		seen[a.Status]++
		e.Check(a.Status < 500 || a.Status == 501 || a.Status == 505, "got %s", a.Brief())
	}
	e.Input("")
	e.Control(seen[400] > 0 && seen[401] > 0 && seen[404] > 0 && seen[405] > 0, "the answers were %v", seen)
	lines, err := logs.Since("server-*.log")
	e.Must(err, "read the logs")
	for _, line := range lines {
		e.Check(!strings.Contains(string(line.Raw), "panic") && !strings.Contains(string(line.Raw), "goroutine "), "the log says %.300s", line.Raw)
	}
	for _, pid := range e.Endpoint.PIDs.Server {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		e.Check(err == nil, "the server %d is gone", pid)
	}
}

func errorsQuietLog(e *harness.Env) {
	all := refusals(e)
	logs, err := oracle.MarkLogs(e.Endpoint.LogsDir)
	e.Must(err, "mark the logs")
	ids := map[string]bool{}
	for _, r := range all {
		a := e.Do(r)
		if id := a.Header.Get("X-Request-Id"); id != "" {
			ids[id] = true
		}
	}
	var lines []oracle.Line
	missing := ""
	e.Await(5*time.Second, func() bool {
		lines, err = logs.Since("server-*.log")
		e.Must(err, "read the logs")
		missing = ""
		for id := range ids {
			if !slices.ContainsFunc(lines, func(l oracle.Line) bool { return strings.Contains(string(l.Raw), id) }) {
				missing = id
			}
		}
		return missing == ""
	})
	e.Control(missing == "" && len(ids) > 50, "the request %s of %d is not in the log", missing, len(ids))
	size := 0
	for _, line := range lines {
		size += len(line.Raw)
		e.Check(!strings.Contains(string(line.Raw), `"level":"ERROR"`), "the log says %.300s", line.Raw)
	}
	const most = 1200
	e.Check(size < most*len(all), "%d bytes were logged for %d requests", size, len(all))
}
