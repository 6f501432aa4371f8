package attacks

import (
	"strings"
	"time"

	"glovebox/attacks/harness"
)

// framingTwo are shapes of HTTP/2.
var framingTwo = []harness.Case{
	{
		ID: "framing/h2-fields", Title: "header fields of HTTP/2 that are none in HTTP/1.1 change a request's meaning",
		Requirements: []string{"API-06", "API-07"}, Threats: []string{"PUB-T2"}, Safe: true,
		Attack:  "transfer-encoding, connection fields, capitals, line ends and NUL in names and values, pseudo-headers that are missing, doubled, late, unknown or malformed",
		Control: "the plain stream is answered with the user",
		Oracle:  "each stream is reset or answered 4xx; none names the user",
		Run:     framingH2Fields,
	},
	{
		ID: "framing/h2-length", Title: "a stream whose length lies becomes a job",
		Requirements: []string{"API-06", "UPL-01"}, Threats: []string{"PUB-T2", "PUB-T3"},
		Attack:  "uploads with a content-length shorter and longer than their data, doubled, malformed, reset in the middle",
		Control: "the same upload with the right length and with none makes a job",
		Oracle:  "no 2xx, and nothing on disk",
		Run:     framingH2Length,
	},
	{
		ID: "framing/h2-doubled", Title: "doubled header fields pass where doubled lines do not",
		Requirements: []string{"AUT-01", "API-04", "API-07"}, Threats: []string{"PUB-T2", "PUB-S1"}, Safe: true,
		Attack:  "two authorization, idempotency-key, content-type, range and digest fields in one stream",
		Control: "one of each is taken",
		Oracle:  ":status 400",
		Run:     framingH2Doubled,
	},
	{
		ID: "framing/h2-large", Title: "a header block without end burns memory",
		Requirements: []string{"API-06"}, Threats: []string{"PUB-D2"},
		Attack:  "a field of a megabyte, ten thousand fields, a table reference repeated 40,000 times, in one stream each",
		Control: "fields of 4 KB are taken",
		Oracle:  "the stream or the connection is refused; the servers' memory by the kernel's word",
		Serial:  true,
		Run:     framingH2Large,
	},
}

// askH2 opens a stream of the fields on a connection of its own and tells what came:
// the stream, or nil where the connection was ended for it.
func askH2(e *harness.Env, fields [][2]string) *harness.Stream {
	h := e.H2(e.Public(0))
	id, err := h.Open(fields, true)
	if err != nil {
		return nil
	}
	s, err := h.Await(id, 5*time.Second)
	if isTimeout(err) {
		return &harness.Stream{Status: "nothing"} // neither answered nor refused
	}
	if err != nil {
		return nil
	}
	return s
}

func framingH2Fields(e *harness.Env) {
	alice := e.Alice()
	host, bearer := e.Public(0), [2]string{"authorization", "Bearer " + e.Token(alice)}
	good := harness.Fields("GET", host, "/api/v1/auth/me", bearer)
	s := askH2(e, good)
	e.Control(s != nil && s.Status == "200" && strings.Contains(string(s.Body), alice.Login), "the plain stream")
	with := func(more ...[2]string) [][2]string {
		return append(harness.Fields("GET", host, "/api/v1/auth/me", bearer), more...)
	}
	replaced := func(name, value string) [][2]string {
		fields := harness.Fields("GET", host, "/api/v1/auth/me", bearer)
		for i := range fields {
			if fields[i][0] == name {
				fields[i][1] = value
			}
		}
		return fields
	}
	without := func(name string) [][2]string {
		var fields [][2]string
		for _, f := range good {
			if f[0] != name {
				fields = append(fields, f)
			}
		}
		return fields
	}
	for name, fields := range map[string][][2]string{
		"transfer-encoding": with([2]string{"transfer-encoding", "chunked"}), "connection": with([2]string{"connection", "close"}),
		"keep-alive": with([2]string{"keep-alive", "timeout=5"}), "upgrade": with([2]string{"upgrade", "h2c"}),
		"proxy-connection": with([2]string{"proxy-connection", "x"}),
		"te":               with([2]string{"te", "gzip"}), "capitals": with([2]string{"X-Upper", "1"}),
		"line end in a value": with([2]string{"x-a", "b\r\ntransfer-encoding: chunked"}), "line feed in a value": with([2]string{"x-a", "b\nx: y"}),
		"NUL in a value":     with([2]string{"x-a", "b\x00c"}),
		"line end in a name": with([2]string{"x-a\r\nx-b", "c"}), "colon in a name": with([2]string{"x-a: b\r\nx", "c"}),
		"space in a name": with([2]string{"x a", "b"}), "empty name": with([2]string{"", "b"}),
		"no method": without(":method"), "no path": without(":path"), "no scheme": without(":scheme"),
		"two methods": with([2]string{":method", "POST"}), "late pseudo-header": with([2]string{":path", "/health"}),
		"unknown pseudo-header": append([][2]string{{":evil", "1"}}, good...), "a status": append([][2]string{{":status", "200"}}, good...),
		"path with a line end": replaced(":path", "/api/v1/auth/me HTTP/1.1\r\nHost: evil\r\n\r\nGET /x"), "empty path": replaced(":path", ""),
		"path without a slash": replaced(":path", "api/v1/auth/me"), "method with a line end": replaced(":method", "GET /x HTTP/1.1\r\n\r\nGET"),
		"method with a space": replaced(":method", "GET x"), "authority with a line end": replaced(":authority", "a\r\nb"),
		"host and authority":  with([2]string{"host", "evil.example"}, [2]string{"host", "b"}),
		"two content-lengths": with([2]string{"content-length", "0"}, [2]string{"content-length", "5"}),
		"connect":             {{":method", "CONNECT"}, {":authority", "127.0.0.1:9443"}, bearer},
	} {
		e.Input("%s", name)
		s := askH2(e, fields)
		if s == nil || s.Reset != nil {
			e.Check(true, "")
			continue
		}
		// A header that names another host, and is passed over, changes nothing.
		same := name == "host and authority"
		e.Check(strings.HasPrefix(s.Status, "4") || same && s.Status == "200", "got %s %s", s.Status, s.Body)
	}
}

// uploadH2 sends a form in a stream, with the fields, cut after some bytes.
func uploadH2(e *harness.Env, form []byte, send int, end bool, more ...[2]string) *harness.Stream {
	h := e.H2(e.Public(0))
	fields := append(harness.Fields("POST", e.Public(0), "/api/v1/jobs", [2]string{"authorization", "Bearer " + e.Token(e.Bob())},
		[2]string{"content-type", strings.TrimPrefix(harness.FormType, "Content-Type: ")}), more...)
	id, err := h.Open(fields, false)
	e.Must(err, "open a stream")
	if err := h.WriteData(id, end, form[:send]); err != nil {
		return nil
	}
	if !end {
		e.Must(h.WriteRSTStream(id, 8), "reset the stream")
		return nil
	}
	s, err := h.Await(id, 5*time.Second)
	if isTimeout(err) {
		return &harness.Stream{Status: "nothing"} // neither answered nor refused
	}
	if err != nil {
		return nil
	}
	return s
}

func framingH2Length(e *harness.Env) {
	for name, more := range map[string][][2]string{"the right length": {{"content-length", ""}}, "none": nil} {
		_, content := harness.Marked()
		form := harness.Form("a.lua", content)
		if more != nil {
			more[0][1] = itoa(len(form))
		}
		s := uploadH2(e, form, len(form), true, more...)
		e.Control(s != nil && s.Status == "201", "%s is not taken", name)
	}
	for name, length := range map[string]func(n int) []string{
		"shorter": func(n int) []string { return []string{itoa(n - 10)} }, "longer": func(n int) []string { return []string{itoa(n + 10)} },
		"zero": func(int) []string { return []string{"0"} }, "doubled": func(n int) []string { return []string{itoa(n), itoa(n + 1)} },
		"negative": func(int) []string { return []string{"-1"} }, "letters": func(int) []string { return []string{"x"} },
		"beyond 64 bits": func(int) []string { return []string{"99999999999999999999"} },
		"a list":         func(n int) []string { return []string{itoa(n) + "," + itoa(n)} },
	} {
		e.Input("%s", name)
		marker, content := harness.Marked()
		form := harness.Form("a.lua", content)
		var more [][2]string
		for _, l := range length(len(form)) {
			more = append(more, [2]string{"content-length", l})
		}
		s := uploadH2(e, form, len(form), true, more...)
		e.Check(s == nil || s.Reset != nil || strings.HasPrefix(s.Status, "4"), "it is taken: %+v", s)
		gone(e, marker)
	}
	e.Input("reset in the middle")
	marker, content := sized(12_000)
	uploadH2(e, harness.Form("a.lua", content), 9_000, false)
	gone(e, marker)
	e.Input("ended in the middle")
	s := uploadH2(e, harness.Form("a.lua", content), 9_000, true)
	e.Check(s == nil || s.Reset != nil || s.Status == "400", "it is taken: %+v", s)
	gone(e, marker)
}

func framingH2Doubled(e *harness.Env) {
	alice := e.Alice()
	bearer := [2]string{"authorization", "Bearer " + e.Token(alice)}
	for _, field := range [][2]string{{"range", "bytes=0-1"}, {"if-range", `"x"`}, {"content-type", "text/plain"}, {"idempotency-key", "k"}, {"glovebox-file-digest", "x"}, {"repr-digest", "x"}, {"content-encoding", "identity"}} {
		e.Input("%s", field[0])
		one := askH2(e, harness.Fields("GET", e.Public(0), "/api/v1/auth/me", bearer, field))
		e.Control(one != nil && one.Status == "200", "one is not taken")
		two := askH2(e, harness.Fields("GET", e.Public(0), "/api/v1/auth/me", bearer, field, field))
		e.Check(two == nil || two.Reset != nil || two.Status == "400", "two are answered %s", two.Status)
	}
	e.Input("authorization")
	two := askH2(e, harness.Fields("GET", e.Public(0), "/api/v1/auth/me", bearer, [2]string{"authorization", "Bearer " + e.Token(e.Bob())}))
	e.Check(two == nil || two.Reset != nil || two.Status == "400", "two are answered %s %s", two.Status, two.Body)
}

func framingH2Large(e *harness.Env) {
	host := e.Public(0)
	s := askH2(e, harness.Fields("GET", host, "/health", [2]string{"x", strings.Repeat("y", 4000)}))
	e.Control(s != nil && s.Status == "200", "4 KB are not taken")
	watch := e.WatchServers()
	many := make([][2]string, 10_000)
	for i := range many {
		many[i] = [2]string{"x-" + itoa(i), "value"}
	}
	again := make([][2]string, 40_000)
	for i := range again {
		again[i] = [2]string{"x-again", strings.Repeat("z", 1000)} // one byte each once it is in the table
	}
	for name, more := range map[string][][2]string{"a field": {{"x", strings.Repeat("y", 1<<20)}}, "many fields": many, "a table reference": again} {
		e.Input("%s", name)
		for range 8 {
			s := askH2(e, harness.Fields("GET", host, "/health", more...))
			e.Check(s == nil || s.Reset != nil || strings.HasPrefix(s.Status, "4"), "it is answered")
		}
	}
	e.Input("")
	const most = 64 << 20
	e.Check(watch() < most, "a server's memory grew by %d MiB", watch()>>20)
}
