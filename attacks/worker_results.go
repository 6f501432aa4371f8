package attacks

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"

	"glovebox/attacks/harness"
)

// putResult is a PUT of a result with exactly the given header lines and body.
func putResult(a *harness.Assignment, body []byte, header ...string) harness.Request {
	return harness.Request{Method: http.MethodPut, Path: a.Path("result"), Header: append([]string{a.Fenced()}, header...), Body: body}
}

// notTaken checks that after a forged result the job still runs, the storage holds
// nothing new, and that the true result is then taken whole.
func notTaken(e *harness.Env, owner *harness.User, w *harness.Worker, a *harness.Assignment, before map[string]bool) {
	e.Input("afterwards")
	row := jobRow(e, observer(e), a.ID)
	e.Check(row.Status == "processing" && row.FencingToken == a.FencingToken, "the job is %+v", row)
	e.Check(e.Await(12*time.Second, func() bool { return len(newFiles(e, before)) == 0 }), "the storage keeps %v", newFiles(e, before))
	truth := []byte("the true result " + harness.RandomHex(4))
	got := w.Finish(a, truth)
	e.Check(got.Status == http.StatusOK, "the true result: %s", got.Brief())
	e.Check(bytes.Equal(e.Result(owner, a.ID).Body, truth), "the owner downloads something else")
}

// files are the regular files in storage now.
func files(e *harness.Env) map[string]bool {
	all := map[string]bool{}
	for _, path := range disk(e).Below("") {
		all[path] = true
	}
	return all
}

// newFiles are those that came since.
func newFiles(e *harness.Env, before map[string]bool) (added []string) {
	for path := range files(e) {
		if !before[path] {
			added = append(added, path)
		}
	}
	return added
}

// keepLease renews the lease in the background until stop is called.
func keepLease(e *harness.Env, w *harness.Worker, a *harness.Assignment) (stop func()) {
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = w.Call(http.MethodPost, a.Path("heartbeat"), harness.Slots, a.Fenced(), harness.JSONType)
			case <-done:
				return
			case <-e.Context().Done():
				return
			}
		}
	}()
	return func() { close(done); <-over }
}

// forgery is a case that sends results of a bad kind on a held job, none of which
// may count.
func forgery(name, title, attack, threat string, requirements []string, send func(e *harness.Env, w *harness.Worker, a *harness.Assignment)) harness.Case {
	return harness.Case{
		ID: "worker/" + name, Title: title, World: harness.Quiet, Lock: "queue",
		Requirements: requirements, Threats: []string{threat},
		Attack:  attack,
		Control: "the true result is taken afterwards and its bytes are downloaded",
		Oracle:  "observer's row; inventory of the storage: no file more than before; the owner's download",
		Run: func(e *harness.Env) {
			owner, w, a := given(e)
			heartbeatControl(e, w, a)
			before := files(e)
			stop := keepLease(e, w, a)
			send(e, w, a)
			stop()
			notTaken(e, owner, w, a, before)
		},
	}
}

const maxResult = 1 << 20 // limits.max_result_bytes of these worlds

var workerResults = []harness.Case{
	forgery("result-wrong-digest", "a result is stored under a digest that is not its own", "results whose declared digest is another's, of nothing, or differs in the last bit", "INT-T2",
		[]string{"STO-02", "JOB-03"}, func(e *harness.Env, w *harness.Worker, a *harness.Assignment) {
			body := []byte("forged")
			flipped := []byte(harness.Digest(body))
			flipped[len(flipped)-4] ^= 1
			for what, digest := range map[string]string{
				"of another": harness.Digest([]byte("other")), "of nothing": harness.Digest(nil), "of the text with a line break": harness.Digest([]byte("forged\n")),
				"one bit": string(flipped), "of zeros": "sha-256=:" + strings.Repeat("A", 43) + "=:",
			} {
				e.Input("%s", what)
				got := w.Must(http.MethodPut, a.Path("result"), body, a.Fenced(), "Repr-Digest: "+digest)
				e.Check(got.Status == http.StatusBadRequest, "got %s", got.Brief())
			}
		}),
	forgery("result-digest-forms", "a result is stored under a digest that is read in more than one way", "no digest, two, lists, other algorithms, other encodings, parameters", "INT-T2",
		[]string{"STO-02", "API-07"}, func(e *harness.Env, w *harness.Worker, a *harness.Assignment) {
			body := []byte("forged")
			good := harness.Digest(body)
			name := "Repr-Digest: "
			raw := strings.TrimSuffix(strings.TrimPrefix(good, "sha-256=:"), ":")
			inputs := [][]string{
				nil, {name + good, name + good}, {name + harness.Digest([]byte("x")), name + good}, {name + good + ", " + good}, {name + "sha-512=:" + raw + ":, " + good},
				{name + "md5=:" + raw + ":"}, {name + "SHA-256=:" + raw + ":"}, {name + "sha-256=" + raw}, {name + "sha-256=:" + harness.Hash(body) + ":"},
				{name + "sha-256=:" + strings.TrimRight(raw, "=") + ":"}, {name + "sha-256=:" + raw + "=:"}, {name + "sha-256=:" + strings.NewReplacer("+", "-", "/", "_").Replace(raw) + "_:"},
				{name + good + ";q=1"}, {name + " " + good + ","}, {name}, {"Content-Digest: " + good}, {"Digest: SHA-256=" + raw}, {name + strings.Repeat("sha-256=::, ", 300) + good},
			}
			for _, lines := range inputs {
				e.Input("%.80q", lines)
				got := w.Must(http.MethodPut, a.Path("result"), body, append([]string{a.Fenced()}, lines...)...)
				e.Check(got.Status == http.StatusBadRequest, "got %s", got.Brief())
			}
		}),
	forgery("result-too-large", "a result is larger than the limit", "one byte beyond the limit, twice the limit, a terabyte that is only declared; with a length and in chunks", "INT-D2",
		[]string{"UPL-01"}, func(e *harness.Env, w *harness.Worker, a *harness.Assignment) {
			for _, size := range []int{maxResult + 1, 2 * maxResult} {
				body := bytes.Repeat([]byte("x"), size)
				for what, head := range map[string]string{"length": fmt.Sprintf("Content-Length: %d", size), "chunks": "Transfer-Encoding: chunked"} {
					e.Input("%d bytes by %s", size, what)
					sent := body
					if what == "chunks" {
						sent = []byte(fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", size, body))
					}
					c := workerConn(e, w.ID)
					r := putResult(a, sent, head, "Repr-Digest: "+harness.Digest(body))
					r.NoLength = true
					_ = c.Send(r.Bytes(e.Internal(0))) // the server may have answered and closed
					got, err := c.Receive(http.MethodPut, 10*time.Second)
					e.Check(err != nil || got.Status == http.StatusRequestEntityTooLarge, "got %s", got.Brief())
					c.Close()
				}
			}
			e.Input("a terabyte")
			c := workerConn(e, w.ID)
			r := putResult(a, []byte("x"), "Content-Length: 1099511627776", "Repr-Digest: "+harness.Digest(nil))
			r.NoLength = true
			e.Must(c.Send(r.Bytes(e.Internal(0))), "send")
			got, err := c.Receive(http.MethodPut, 5*time.Second)
			e.Check(err == nil && got.Status == http.StatusRequestEntityTooLarge, "got %s (%v)", got.Brief(), err)
			c.Close()
		}),
	forgery("result-short", "half a result counts as a whole one", "bodies that end before their length, at several places, by a closed and by a reset connection", "INT-T2",
		[]string{"STO-02", "JOB-05"}, func(e *harness.Env, w *harness.Worker, a *harness.Assignment) {
			whole := bytes.Repeat([]byte("y"), 300_000)
			for _, part := range []int{0, 1, 70_000, len(whole) - 1} {
				for _, digest := range []string{harness.Digest(whole), harness.Digest(whole[:part])} {
					e.Input("%d of %d bytes", part, len(whole))
					c := workerConn(e, w.ID)
					r := putResult(a, whole[:part], fmt.Sprintf("Content-Length: %d", len(whole)), "Repr-Digest: "+digest)
					r.NoLength = true
					e.Must(c.Send(r.Bytes(e.Internal(0))), "send")
					if part%2 == 0 {
						e.Must(c.CloseWrite(), "end the body")
						got, err := c.Receive(http.MethodPut, 5*time.Second)
						e.Check(err != nil || got.Status >= 400, "got %s", got.Brief())
					}
					c.Close()
				}
			}
		}),
	forgery("result-framing", "what stands behind a result is read as a request, or a result is cut by its framing", "both lengths and chunks, two lengths, bad chunk sizes, a missing last chunk, trailers that bring the digest", "PUB-T2",
		[]string{"API-07", "STO-02"}, func(e *harness.Env, w *harness.Worker, a *harness.Assignment) {
			body := "forged"
			digest := "Repr-Digest: " + harness.Digest([]byte(body))
			hidden := "POST /internal/v1/jobs/" + a.ID + "/fail HTTP/1.1\r\nHost: x\r\n" + a.Fenced() + "\r\nContent-Type: application/json\r\nContent-Length: 41\r\n\r\n" + `{"code":"invalid_input","retryable":false}`
			for what, c := range map[string]struct {
				head []string
				body string
			}{
				"length and chunks":     {[]string{digest, "Content-Length: 6", "Transfer-Encoding: chunked"}, "0\r\n\r\n" + hidden},
				"two lengths":           {[]string{digest, "Content-Length: 6", "Content-Length: 300"}, body + hidden},
				"length list":           {[]string{digest, "Content-Length: 6, 6"}, body},
				"negative length":       {[]string{digest, "Content-Length: -6"}, body},
				"signed length":         {[]string{digest, "Content-Length: +6"}, body},
				"hex length":            {[]string{digest, "Content-Length: 0x6"}, body},
				"space before colon":    {[]string{digest, "Content-Length : 6"}, body},
				"chunk size not hex":    {[]string{digest, "Transfer-Encoding: chunked"}, "6x\r\n" + body + "\r\n0\r\n\r\n"},
				"negative chunk":        {[]string{digest, "Transfer-Encoding: chunked"}, "-6\r\n" + body + "\r\n0\r\n\r\n"},
				"huge chunk":            {[]string{digest, "Transfer-Encoding: chunked"}, "ffffffffffffffff6\r\n" + body + "\r\n0\r\n\r\n"},
				"chunk longer than its": {[]string{digest, "Transfer-Encoding: chunked"}, "3\r\n" + body + "\r\n0\r\n\r\n"},
				"unknown coding":        {[]string{digest, "Transfer-Encoding: xchunked"}, "6\r\n" + body + "\r\n0\r\n\r\n"},
				"coding twice":          {[]string{digest, "Transfer-Encoding: chunked", "Transfer-Encoding: identity"}, "6\r\n" + body + "\r\n0\r\n\r\n"},
				"coding list":           {[]string{digest, "Transfer-Encoding: gzip, chunked"}, "6\r\n" + body + "\r\n0\r\n\r\n"},
				"digest as a trailer":   {[]string{"Trailer: Repr-Digest", "Transfer-Encoding: chunked"}, "6\r\n" + body + "\r\n0\r\n" + digest + "\r\n\r\n"},
				"folded digest":         {[]string{"Repr-Digest:\r\n sha-256=:x:", "Content-Length: 6"}, body},
				"bare line feeds":       {[]string{digest + "\nContent-Length: 300", "Content-Length: 6"}, body + hidden},
			} {
				e.Input("%s", what)
				conn := workerConn(e, w.ID)
				r := putResult(a, []byte(c.body), c.head...)
				r.NoLength = true
				_ = conn.Send(r.Bytes(e.Internal(0)))
				got, err := conn.Receive(http.MethodPut, 5*time.Second)
				e.Check(err != nil || got.Status >= 400, "got %s", got.Brief())
				conn.Close()
			}
		}),
	forgery("result-missing-last-chunk", "a result without an end counts", "chunks without the last one, and the connection closed for writing", "INT-T2",
		[]string{"STO-02"}, func(e *harness.Env, w *harness.Worker, a *harness.Assignment) {
			body := []byte("forged")
			for _, end := range []string{"", "0\r\n", "0"} {
				c := workerConn(e, w.ID)
				r := putResult(a, []byte("6\r\nforged\r\n"+end), "Transfer-Encoding: chunked", "Repr-Digest: "+harness.Digest(body))
				r.NoLength = true
				e.Must(c.Send(r.Bytes(e.Internal(0))), "send")
				e.Must(c.CloseWrite(), "end the body")
				got, err := c.Receive(http.MethodPut, 5*time.Second)
				e.Check(err != nil || got.Status >= 400, "with the end %q got %s", end, got.Brief())
				c.Close()
			}
		}),
	forgery("result-coded", "a result is stored decoded, or as another type", "content codings and media types that are not octets", "INT-T2",
		[]string{"API-07"}, func(e *harness.Env, w *harness.Worker, a *harness.Assignment) {
			body := []byte("forged")
			for _, line := range []string{
				"Content-Encoding: gzip", "Content-Encoding: identity, gzip", "Content-Encoding: br", "Content-Type: text/html", "Content-Type: application/json", "Content-Type: multipart/form-data; boundary=x",
			} {
				e.Input("%s", line)
				got := w.Must(http.MethodPut, a.Path("result"), body, a.Fenced(), "Repr-Digest: "+harness.Digest(body), line)
				e.Check(got.Status == http.StatusUnsupportedMediaType, "got %s", got.Brief())
			}
		}),
	forgery("result-slow", "a result that trickles holds the server", "a byte every half second, and a body that stops", "INT-D1",
		[]string{"API-06", "REL-01"}, func(e *harness.Env, w *harness.Worker, a *harness.Assignment) {
			whole := bytes.Repeat([]byte("z"), 100_000)
			var conns []*harness.Conn
			for range 2 {
				c := workerConn(e, w.ID)
				r := putResult(a, whole[:10], fmt.Sprintf("Content-Length: %d", len(whole)), "Repr-Digest: "+harness.Digest(whole))
				r.NoLength = true
				e.Must(c.Send(r.Bytes(e.Internal(0))), "send")
				conns = append(conns, c)
			}
			began := time.Now()
			for cut := false; !cut; {
				_, err := conns[0].Write([]byte("z"))
				cut = err != nil
				if time.Since(began) > 20*time.Second {
					break
				}
				_ = e.Await(500*time.Millisecond, func() bool { return false })
			}
			e.Check(time.Since(began) < 15*time.Second, "the trickle lived for %s", time.Since(began))
			got, err := conns[1].Receive(http.MethodPut, 5*time.Second)
			e.Check(err != nil || got.Status == http.StatusRequestTimeout || got.Status >= 400, "the body that stopped: %s", got.Brief())
		}),
	forgery("result-abandoned", "results that are begun and left fill the storage", "forty results of half a megabyte that are left before their end, eight at a time", "INT-D2",
		[]string{"UPL-08", "STO-02"}, func(e *harness.Env, w *harness.Worker, a *harness.Assignment) {
			whole := bytes.Repeat([]byte("q"), 900_000)
			config := workerTLS(e, w.ID)
			e.Parallel(8, func(int) {
				for range 5 {
					c, err := e.Dial(e.Internal(0), config)
					if err != nil {
						continue
					}
					r := putResult(a, whole[:500_000], fmt.Sprintf("Content-Length: %d", len(whole)), "Repr-Digest: "+harness.Digest(whole))
					r.NoLength = true
					_ = c.Send(r.Bytes(e.Internal(0)))
					c.Close()
				}
			})
		}),
	{
		ID: "worker/result-parallel-fill", Title: "a worker with one job fills the disk with results that it never ends", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"UPL-04", "UPL-01"}, Threats: []string{"INT-D2"},
		Attack:  "forty results of one job at once, each almost a megabyte, none ended, to both servers",
		Control: "one such result is seen on disk while it is on its way",
		Oracle:  "inventory of the storage: at no time more than a few results lie there for one job",
		Run: func(e *harness.Env) {
			owner, w, a := given(e)
			base := disk(e).Bytes()
			whole := bytes.Repeat([]byte("f"), maxResult)
			config := workerTLS(e, w.ID)
			stop := keepLease(e, w, a)
			open := func(server int) {
				c, err := e.Dial(e.Internal(server), config)
				if err != nil {
					return
				}
				r := putResult(a, whole[:maxResult-1000], fmt.Sprintf("Content-Length: %d", len(whole)), "Repr-Digest: "+harness.Digest(whole))
				r.NoLength = true
				_ = c.Send(r.Bytes(e.Internal(server)))
				_, _ = c.Receive(http.MethodPut, 1500*time.Millisecond)
				c.Close()
			}
			watch := func(send func()) (most int64) {
				done := make(chan struct{})
				go func() { defer close(done); send() }()
				e.Await(20*time.Second, func() bool {
					most = max(most, disk(e).Bytes()-base)
					select {
					case <-done:
						return true
					default:
						return false
					}
				})
				return most
			}
			one := watch(func() { open(0) })
			e.Control(one > maxResult/2, "one result on its way takes %d bytes on disk", one)
			most := watch(func() { e.Parallel(40, open) })
			const few = 8 * maxResult
			e.Check(most <= few, "%d bytes lie in storage for one job", most)
			stop()
			before := map[string]bool{}
			for path := range files(e) {
				before[path] = !strings.HasPrefix(path, "tmp/")
			}
			notTaken(e, owner, w, a, before)
		},
	},
	{
		ID: "worker/result-other-bytes", Title: "a finished result is replaced by its own worker", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"STO-02", "JOB-03", "JOB-05"}, Threats: []string{"INT-T2", "INT-R1"},
		Attack:  "after completion other bytes of the same length, more and fewer, with the true token, at both servers, at once",
		Control: "the same bytes again are answered as before",
		Oracle:  "owner's download and the file on disk, by hash; observer's history: one end",
		Run: func(e *harness.Env) {
			owner, w, a := given(e)
			truth := []byte("the true result")
			e.Control(w.Finish(a, truth).Status == http.StatusOK, "the result")
			path := stored(e, truth)
			e.Control(path != "", "the result does not lie in storage")
			db := observer(e)
			same := untouched(e, db, a.ID)
			before := files(e)
			e.Parallel(12, func(i int) {
				other := [][]byte{[]byte("the fake result"), []byte("the true result!"), []byte("the"), nil}[i%4]
				got, err := w.CallAt(i, http.MethodPut, a.Path("result"), other, a.Fenced(), "Repr-Digest: "+harness.Digest(other))
				e.Check(err == nil && got.Status == http.StatusConflict && got.Code() == "conflict", "other bytes: %s (%v)", got.Brief(), err)
			})
			again := w.Finish(a, truth)
			e.Control(again.Status == http.StatusOK, "the same again: %s", again.Brief())
			same("by other bytes")
			e.Check(bytes.Equal(e.Result(owner, a.ID).Body, truth) && stored(e, truth) == path && len(newFiles(e, before)) == 0, "the result or the storage has changed: %v", newFiles(e, before))
		},
	},
}
