package attacks

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"glovebox/attacks/harness"
	"glovebox/attacks/oracle"
)

// statuses counts answers by status.
type statuses struct {
	mu sync.Mutex
	n  map[int]int
}

func (s *statuses) add(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == nil {
		s.n = map[int]int{}
	}
	s.n[status]++
}

// apart sends a request over a connection of its own from an address.
func apart(e *harness.Env, server int, r harness.Request) (harness.Answer, error) {
	c, err := e.Dial(e.Public(server), nil)
	if err != nil {
		return harness.Answer{}, err
	}
	defer c.Close()
	if err := c.Send(r.Bytes(e.Public(server))); err != nil {
		return harness.Answer{}, err
	}
	return c.Receive(r.Method, 20*time.Second)
}

// userID is the id of a user, which only the superuser sees.
func userID(e *harness.Env, u *harness.User) (id string) {
	e.Must(asSuperuser(e).QueryRow(e.Context(), "SELECT id::text FROM app.users WHERE login = $1", u.Login).Scan(&id), "ask for the user's id")
	return id
}

var dosWork = []harness.Case{
	{
		ID: "dos/passwords", Title: "logins burn the memory and the processors that others need", Serial: true,
		Requirements: []string{"AUT-05", "AUT-02", "REL-01"}, Threats: []string{"PUB-D4"},
		Attack:  "logins with wrong passwords of a hundred users that do not exist, on forty lines at once from ever new addresses",
		Control: "passwords are hashed: some logins are refused as wrong",
		Oracle:  "process table: the server's memory stays within a few hashes at once; the friendly user's answers",
		Run: func(e *harness.Env) {
			const hashes, oneHash = 4, 19 << 20 // auth.hash_concurrency, auth.argon2_memory
			var all statuses
			var n atomic.Int64
			bounded(e, hashes*oneHash+64<<20, patience, func(stop <-chan time.Time) {
				repeat(40, stop, func(int) {
					k := n.Add(1)
					c, err := from(e, fmt.Sprintf("127.210.%d.%d", 1+k/200%250, 1+k%200), e.Public(0))
					if err != nil {
						return
					}
					defer c.Close()
					all.add(loginOver(e, c, "n"+harness.RandomHex(6)))
				})
			})
			e.Note("answers by status: %v", all.n)
			e.Control(all.n[http.StatusUnauthorized] > 3, "answers by status: %v", all.n)
			for status := range all.n {
				e.Check(slices.Contains([]int{0, http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable}, status), "a login got %d", status)
			}
		},
	},
	{
		ID: "dos/large-bodies", Title: "bodies that must be small are read into memory", Serial: true,
		Requirements: []string{"API-06", "UPL-02"}, Threats: []string{"PUB-D2", "PUB-D4"},
		Attack:  "logins of eight megabytes, deep and wide JSON, with a length, in chunks and with a length of a terabyte, on sixteen lines",
		Control: "the friendly user is served before",
		Oracle:  "status of the answers; the server's memory; the friendly user's answers",
		Run: func(e *harness.Env) {
			big := bytes.Repeat([]byte("["), 8<<20)
			var good, tried atomic.Int64
			bounded(e, modest, patience, func(stop <-chan time.Time) {
				repeat(16, stop, func(i int) {
					c, err := e.Dial(e.Public(0), nil)
					if err != nil {
						return
					}
					defer c.Close()
					head := []string{"Content-Length: 8388608", "Transfer-Encoding: chunked", "Content-Length: 1099511627776"}[i%3]
					body := big
					if i%3 == 1 {
						body = append([]byte("800000\r\n"), big...)
					}
					tried.Add(1)
					_ = c.SetWriteDeadline(time.Now().Add(3 * time.Second))
					_, _ = c.Write([]byte("POST /api/v1/auth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + head + "\r\n\r\n"))
					_, _ = c.Write(body)
					if a, err := c.Receive(http.MethodPost, 3*time.Second); err == nil && a.Status < 400 {
						good.Add(1)
					}
				})
			})
			e.Control(tried.Load() > 16, "only %d were sent", tried.Load())
			e.Check(good.Load() == 0, "%d were taken", good.Load())
		},
	},
	{
		ID: "dos/uploads-in-flight", Title: "one user holds more uploads open than the limit, over several servers", World: harness.Quiet, Serial: true,
		Requirements: []string{"UPL-03"}, Threats: []string{"PUB-D3", "PUB-D2"},
		Attack:  "twenty-four uploads that are begun at the same instant at two servers and stand still",
		Control: "up to the limit they are taken; another user's upload is taken meanwhile",
		Oracle:  "superuser's count of the rows of uploads in flight; temporary files on disk; status of the refused",
		Run: func(e *harness.Env) {
			const limit = 4 // limits.uploads_per_user
			greedy, modest := e.NewUser(), e.NewUser()
			token, id := e.Token(greedy), userID(e, greedy)
			admin := asSuperuser(e)
			content := harness.Lua()
			body := harness.Form("a.lua", content)
			before := files(e)
			var all statuses
			done := make(chan struct{})
			go func() {
				defer close(done)
				e.Parallel(24, func(i int) {
					r := harness.SubmitRequest(token, content)
					r.Body, r.NoLength = nil, true
					r.Header = append(r.Header, fmt.Sprintf("Content-Length: %d", len(body)))
					c, err := e.Dial(e.Public(i), nil)
					if err != nil {
						return
					}
					defer c.Close()
					_ = c.Send(append(r.Bytes(e.Public(i)), body[:len(body)-50]...))
					// The refused too are answered when their body has stood still for
					// http.stall_timeout: until then the server waits for its end.
					if a, err := c.Receive(http.MethodPost, 15*time.Second); err == nil {
						all.add(a.Status)
					}
				})
			}()
			var most int64
			var lying int
			e.Await(1500*time.Millisecond, func() bool {
				most = max(most, number(e, admin, "SELECT count(*) FROM app.uploads_in_flight WHERE user_id::text = $1", id))
				lying = max(lying, len(newFiles(e, before)))
				return false
			})
			other := e.Do(harness.SubmitRequest(e.Token(modest), harness.Lua()))
			<-done
			e.Control(most > 0 && lying > 0 && other.Status == http.StatusCreated, "%d were in flight, %d files on disk; another user's upload: %s", most, lying, other.Brief())
			e.Check(most <= limit, "%d uploads were in flight", most)
			e.Check(all.n[http.StatusTooManyRequests] >= 24-limit-2, "answers by status: %v", all.n)
			e.Check(lying <= limit+2, "%d files lay on disk", lying)
			drain(e)
		},
	},
	{
		ID: "dos/active-jobs", Title: "one user has more jobs than the limit, over several servers", World: harness.Quiet, Serial: true,
		Requirements: []string{"UPL-03"}, Threats: []string{"PUB-D3"},
		Attack:  "forty jobs, less three, then thirty more at the same instant at two servers",
		Control: "up to the limit they are taken; another user's is taken meanwhile",
		Oracle:  "superuser's count of the user's live jobs; the refused left no file",
		Run: func(e *harness.Env) {
			const limit = 40 // limits.active_jobs_per_user
			drain(e)
			greedy := e.NewUser()
			token, id := e.Token(greedy), userID(e, greedy)
			for range limit - 3 {
				e.Submit(greedy, harness.Lua())
			}
			before := files(e)
			var all statuses
			for range 8 { // no more at once than the limit of uploads lets through
				e.Parallel(4, func(i int) {
					if a, err := apart(e, i, harness.SubmitRequest(token, harness.Lua())); err == nil {
						all.add(a.Status)
					}
				})
			}
			live := number(e, asSuperuser(e), "SELECT count(*) FROM app.jobs WHERE user_id::text = $1 AND status IN ('pending', 'processing')", id)
			e.Control(live == limit && e.Do(harness.SubmitRequest(e.Token(e.NewUser()), harness.Lua())).Status == http.StatusCreated, "%d jobs live", live)
			e.Check(live <= limit && all.n[http.StatusCreated] == 3 && all.n[http.StatusTooManyRequests] >= 20, "%d jobs live, answers by status: %v", live, all.n)
			e.Check(len(newFiles(e, before)) == 4, "%d files have come for four jobs", len(newFiles(e, before)))
			drain(e)
		},
	},
	{
		ID: "dos/stored-bytes", Title: "one user fills the storage", World: harness.Quiet, Serial: true, Slow: true,
		Requirements: []string{"UPL-10"}, Threats: []string{"PUB-D3"},
		Attack:  "the largest inputs without end, each finished with a large result, until the cap, then four at once at two servers again and again",
		Control: "another user's upload is taken afterwards",
		Oracle:  "bytes on disk that have come; superuser's sum of what is kept for the user",
		Run: func(e *harness.Env) {
			const limit = 16 << 20 // limits.stored_bytes_per_user
			drain(e)
			greedy, w := e.NewUser(), ownWorker(e)
			token, id := e.Token(greedy), userID(e, greedy)
			base := disk(e).Bytes()
			result := bytes.Repeat([]byte("r"), 1_000_000)
			var all statuses
			for round := range 20 {
				e.Parallel(4, func(i int) {
					input := append([]byte("-- "+harness.RandomHex(8)+"\n"), bytes.Repeat([]byte("-"), 261_000)...)
					if a, err := apart(e, i, harness.SubmitRequest(token, input)); err == nil {
						all.add(a.Status)
					}
				})
				for a := w.Claim(); a != nil; a = w.Claim() {
					got := w.Finish(a, append(result, fmt.Sprint(round, a.ID)...))
					if got.Status != http.StatusOK {
						w.Fail(a, "output_too_large", false)
					}
				}
			}
			kept := number(e, asSuperuser(e), "SELECT coalesce(sum(input_size + coalesce(result_size, 0)), 0)::bigint FROM app.jobs WHERE user_id::text = $1 AND purged_at IS NULL", id)
			grown := disk(e).Bytes() - base
			e.Note("%d bytes are kept, %d lie on disk, answers by status %v", kept, grown, all.n)
			e.Control(kept > limit/2 && all.n[http.StatusCreated] > 5, "%d bytes are kept, answers by status %v", kept, all.n)
			e.Check(kept <= limit && grown <= limit+1<<20, "%d bytes are kept, %d lie on disk", kept, grown)
			e.Check(all.n[http.StatusTooManyRequests]+all.n[http.StatusInsufficientStorage]+all.n[http.StatusRequestEntityTooLarge] > 0, "no upload was refused: %v", all.n)
			e.Control(e.Do(harness.SubmitRequest(e.Token(e.NewUser()), harness.Lua())).Status == http.StatusCreated, "another user's upload")
			drain(e)
		},
	},
	{
		ID: "dos/claims", Title: "one worker's open claims keep others from work, or take the server's memory", World: harness.Quiet, Serial: true, Slow: true,
		Requirements: []string{"REL-01", "JOB-02"}, Threats: []string{"INT-D1"},
		Attack:  "a hundred and fifty long polls of one worker at one server, while another worker and a user work there",
		Control: "a claim of the other worker is answered before",
		Oracle:  "the other worker's claims and the friendly user's answers, by time; the server's memory; each job is given once",
		Run: func(e *harness.Env) {
			drain(e)
			bad, good := ownWorker(e), ownWorker(e)
			e.Control(good.Claim() == nil, "a claim before")
			bounded(e, modest, patience, func(stop <-chan time.Time) {
				var all statuses
				over := make(chan struct{})
				var polls sync.WaitGroup
				for range 150 {
					polls.Go(func() {
						for {
							select {
							case <-over:
								return
							default:
							}
							got, err := bad.Call(http.MethodPost, "/internal/v1/jobs/claim?wait=30s", []byte(`{"slots_free":0,"slots_total":1}`), claimHeader()...)
							if err == nil {
								all.add(got.Status)
							}
						}
					})
				}
				for range 4 {
					began := time.Now()
					good.Claim()
					e.Check(time.Since(began) < 3*time.Second, "the other worker's claim took %s", time.Since(began))
				}
				<-stop
				close(over)
				polls.Wait()
			})
			drain(e)
		},
	},
}

// loginOver logs in over a connection and returns the status, 0 for no answer.
func loginOver(e *harness.Env, c net.Conn, login string) int {
	config := e.TLS()
	config.ServerName, config.NextProtos = "localhost", []string{"http/1.1"}
	_ = c.SetDeadline(time.Now().Add(8 * time.Second))
	a, err := exchangeOver(c, config, harness.LoginRequest(login, "wrong-"+login).Bytes("localhost"))
	if err != nil {
		return 0
	}
	return a
}

var dosGrowth = []harness.Case{
	{
		ID: "dos/login-rows", Title: "rows of failed logins grow with what a stranger sends", World: harness.Quiet, Serial: true,
		Requirements: []string{"AUT-05", "REL-01"}, Threats: []string{"OPS-D1", "PUB-D4"},
		Attack:  "two hundred logins of names that do not exist, of ever greater length, from one address at two servers",
		Control: "the first of them are counted in rows",
		Oracle:  "superuser's count of rows and their bytes",
		Run: func(e *harness.Env) {
			const perAddress = 30 // auth.login_attempts_per_address
			admin := asSuperuser(e)
			rows := func() int64 { return number(e, admin, "SELECT count(*) FROM app.login_attempts") }
			before := rows()
			for i := range 200 {
				a := e.Do(harness.Request{Method: http.MethodPost, Path: "/api/v1/auth/token", Header: []string{harness.JSONType}, Server: i, Body: harness.LoginRequest(strings.Repeat("n", 1+i)+harness.RandomHex(4), "x").Body})
				if i > perAddress {
					e.Check(a.Status == http.StatusTooManyRequests, "login %d: %s", i, a.Brief())
				}
			}
			grown := rows() - before
			e.Control(grown > 5, "%d rows have come", grown)
			e.Check(grown <= perAddress+5, "%d rows have come of 200 logins", grown)
			e.Check(number(e, admin, "SELECT coalesce(max(octet_length(subject)), 0) FROM app.login_attempts") <= 128, "a row is as long as what was typed")
		},
	},
	{
		ID: "dos/refused-rows", Title: "refused requests leave rows or files", World: harness.Quiet, Serial: true, Slow: true,
		Requirements: []string{"UPL-08", "REL-01", "API-04"}, Threats: []string{"OPS-D1", "STO-D2"},
		Attack:  "three hundred uploads that are refused: no token, wrong type, no file, two files, broken framing, too large, wrong digest, each with an idempotency key of its own; three hundred requests for what is not there",
		Control: "one good upload adds one job",
		Oracle:  "superuser's count of the rows of every table that a request may fill; inventory of the storage",
		Run: func(e *harness.Env) {
			u, admin := e.NewUser(), asSuperuser(e)
			token := e.Token(u)
			rows := func() int64 {
				return number(e, admin, `SELECT (SELECT count(*) FROM app.jobs) + (SELECT count(*) FROM app.assets) + (SELECT count(*) FROM app.asset_versions) + (SELECT count(*) FROM app.job_events) + (SELECT count(*) FROM app.idempotency_keys) + (SELECT count(*) FROM app.uploads_in_flight) + (SELECT count(*) FROM app.tokens)`)
			}
			before, names := rows(), files(e)
			big := harness.Form("a.lua", bytes.Repeat([]byte("b"), 300_000))
			for i := range 300 {
				key := "Idempotency-Key: " + harness.RandomHex(12)
				r := harness.SubmitRequest(token, harness.Lua(), key)
				switch i % 7 {
				case 0:
					r.Token = ""
				case 1:
					r.Header = []string{"Content-Type: text/plain", key}
				case 2:
					r.Body = []byte("--" + harness.Boundary + "--\r\n")
				case 3:
					r.Body = append(bytes.TrimSuffix(r.Body, []byte("--\r\n")), append([]byte("\r\n"), r.Body[len("--"+harness.Boundary)+2:]...)...)
				case 4:
					r.Body = r.Body[:len(r.Body)/2]
				case 5:
					if i > 60 {
						continue // a few large ones are enough
					}
					r.Body = big
				case 6:
					r.Header = append(r.Header, "Glovebox-File-Digest: "+harness.Digest([]byte("other")))
				}
				a, err := apart(e, i, r)
				e.Check(err != nil || a.Status >= 400, "kind %d: %s", i%7, a.Brief())
				e.Do(harness.Request{Method: http.MethodGet, Path: "/api/v1/jobs/" + harness.UUID(), Token: token, Server: i})
			}
			settled := e.Await(12*time.Second, func() bool { return rows() == before && len(newFiles(e, names)) == 0 })
			e.Check(settled, "%d rows more, files %v", rows()-before, newFiles(e, names))
			at := rows()
			e.Submit(u, harness.Lua())
			e.Control(rows() > at, "a good upload adds no row")
			drain(e)
		},
	},
	{
		ID: "dos/log-growth", Title: "the logs grow with what a stranger sends", Serial: true,
		Requirements: []string{"REL-01", "REL-02"}, Threats: []string{"OPS-D1"},
		Attack:  "a thousand requests with paths, queries, methods and headers of fourteen kilobytes; five hundred connections that are no TLS",
		Control: "a request leaves a line",
		Oracle:  "bytes of the logs",
		Run: func(e *harness.Env) {
			logs, err := oracle.MarkLogs(e.Endpoint.LogsDir)
			e.Must(err, "mark the logs")
			long := strings.Repeat("l", 14_000)
			for i := range 1000 {
				r := harness.Request{Method: http.MethodGet, Path: "/api/v1/" + harness.RandomHex(6), Token: "x"}
				switch i % 5 {
				case 0:
					r.Path += "/" + long
				case 1:
					r.Path += "?" + long
				case 2:
					r.Header = []string{"User-Agent: " + long}
				case 3:
					r.Token = long
				case 4:
					r.Header = []string{"X-Request-Id: " + long}
				}
				_, err := e.Try(r)
				e.Must(err, "send")
			}
			for range 500 {
				c, err := e.DialTCP(e.Context(), e.Public(0))
				e.Must(err, "connect")
				_, _ = c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
				_ = c.Close()
			}
			written, err := logs.Bytes("server-*.log")
			e.Must(err, "measure the logs")
			e.Control(written > 1000*100, "only %d bytes were written", written)
			const aLine = 700
			e.Check(written < 1000*aLine, "%d bytes were written for 1,500 requests and connections", written)
		},
	},
	{
		ID: "dos/metric-series", Title: "the figures grow with what a stranger sends", World: harness.Quiet, Serial: true,
		Requirements: []string{"REL-01"}, Threats: []string{"OPS-D1"},
		Attack:  "four hundred requests with ever new methods, paths, hosts, ids and user agents, at both listeners",
		Control: "the requests are counted",
		Oracle:  "series of the metrics page before and after",
		Run: func(e *harness.Env) {
			page, ok := e.Endpoint.Metrics["server"].(string)
			if !ok {
				e.Fail("the endpoint names no metrics page")
			}
			w := listed(e)
			token := e.Token(e.NewUser())
			try := func(i int) {
				name := "m" + harness.RandomHex(5)
				for _, r := range []harness.Request{
					{Method: strings.ToUpper(name), Path: "/api/v1/jobs"}, {Method: http.MethodGet, Path: "/" + name}, {Method: http.MethodGet, Path: "/api/v1/jobs/" + harness.UUID(), Token: token}, {Method: http.MethodGet, Path: "/api/v1/jobs/" + name + "/result?" + url.QueryEscape(name), Header: []string{"User-Agent: " + name}},
				} {
					_, _ = e.Try(r)
				}
				if i%10 == 0 {
					_, _ = over(e, e.Internal(0), workerTLS(e, w), harness.Request{Method: strings.ToUpper(name), Path: "/internal/v1/jobs/" + name + "/input"})
				}
			}
			for i := range 10 { // the first of each kind makes its series
				try(i)
			}
			before, err := oracle.Scrape(e.Context(), page)
			e.Must(err, "read the metrics")
			for i := range 100 {
				try(i)
			}
			after, err := oracle.Scrape(e.Context(), page)
			e.Must(err, "read the metrics")
			sum := func(m oracle.Metrics) (n float64) {
				for series, value := range m {
					if strings.Contains(series, "request") && strings.Contains(series, "_count") || strings.Contains(series, "requests_total") {
						n += value
					}
				}
				return n
			}
			e.Control(sum(after) >= sum(before)+300, "counted were %.0f and %.0f", sum(before), sum(after))
			var fresh []string
			for series := range maps.Keys(after) {
				if _, there := before[series]; !there {
					fresh = append(fresh, series)
				}
			}
			e.Check(len(fresh) <= 30, "%d new series: %.600v", len(fresh), fresh)
		},
	},
}
