package attacks

import (
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"glovebox/attacks/harness"
)

// uploadLimits are the bounds on what one user may have at once.
var uploadLimits = []harness.Case{
	{
		ID: "upload/at-once", Title: "one user holds more uploads open than is permitted",
		Requirements: []string{"UPL-03"}, Threats: []string{"PUB-D3", "PUB-D1"},
		Attack:  "24 uploads of one user begun at the same moment over both servers, and held",
		Control: "some of them are taken once they end; another user uploads meanwhile",
		Oracle:  "the temporary files on disk that hold the user's marker; the count of uploads that are taken in the end",
		Run:     limitsAtOnce,
	},
	{
		ID: "upload/slots-come-back", Title: "uploads that broke off shut their user out",
		Requirements: []string{"UPL-03", "UPL-08"}, Threats: []string{"PUB-D1", "STO-D2"},
		Attack:  "all uploads that are permitted at once are begun and cut off, five times over",
		Control: "while they are held, one more is refused",
		Oracle:  "an upload afterwards is taken; nothing of theirs is on disk",
		Run:     limitsComeBack,
	},
	{
		ID: "upload/active-jobs", Title: "requests at once pass a limit that holds for each alone", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"UPL-03"}, Threats: []string{"PUB-D3"},
		Attack:  "80 submissions of one user over both servers, four at a time, where 40 active jobs are permitted and no worker works",
		Control: "the first are taken; another user's is taken at the end",
		Oracle:  "the count of jobs that were made, each seen by the observer as pending",
		Run:     limitsActive,
	},
	{
		ID: "upload/stored-bytes", Title: "one user fills the disk", World: harness.Quiet, Lock: "queue",
		Requirements: []string{"UPL-10"}, Threats: []string{"PUB-D3"},
		Attack:  "files of the greatest size of one user over both servers, four at a time, until well beyond the cap",
		Control: "the first are taken; another user's is taken at the end",
		Oracle:  "the bytes on disk that hold the user's marker, of the whole storage",
		Run:     limitsStored,
	},
}

// hold begins an upload and sends all but the end of its form.
func hold(e *harness.Env, c *harness.Conn, token, server, marker string) (rest []byte, err error) {
	raw := harness.SubmitRequest(token, append([]byte("-- "+marker+"\n"), make([]byte, 70_000)...)).Bytes(server)
	cut := len(raw) - 30
	return raw[cut:], c.Send(raw[:cut])
}

func limitsAtOnce(e *harness.Env) {
	u, other := e.NewUser(), e.NewUser()
	token := e.Token(u)
	const tries = 24
	conns, rests := make([]*harness.Conn, tries), make([][]byte, tries)
	marker, _ := harness.Marked()
	for i := range conns {
		conns[i] = e.MustDial(e.Public(i), nil)
	}
	var sent atomic.Int64
	e.Parallel(tries, func(i int) {
		var err error
		if rests[i], err = hold(e, conns[i], token, e.Public(i), marker); err == nil {
			sent.Add(1)
		}
	})
	// A refused one is answered once the server has stopped waiting for the rest of
	// its body; the disk tells at once who was let in.
	const permitted = 4
	most := 0
	e.Await(time.Second, func() bool {
		most = max(most, len(e.OnDisk(marker)))
		return most > permitted
	})
	e.Control(sent.Load() > permitted && most > 0, "%d were begun, %d let in", sent.Load(), most)
	e.Check(most <= permitted, "%d uploads are held open, %d are permitted", most, permitted)
	var taken, limited, odd atomic.Int64
	e.Parallel(tries, func(i int) {
		if conns[i].Send(rests[i]) != nil {
			limited.Add(1)
			return
		}
		switch a, err := conns[i].Receive(http.MethodPost, harness.Patience); {
		case err == nil && a.Status == http.StatusCreated:
			taken.Add(1)
		case err != nil && !isTimeout(err), a.Status == http.StatusTooManyRequests:
			limited.Add(1)
		default:
			odd.Add(1)
		}
	})
	e.Control(taken.Load() > 0, "none of the uploads is taken")
	e.Check(taken.Load() <= permitted && odd.Load() == 0, "%d were taken, %d refused, %d neither", taken.Load(), limited.Load(), odd.Load())
	a := e.Do(harness.SubmitRequest(e.Token(other), harness.Lua()))
	e.Control(a.Status == http.StatusCreated, "another user: %s", a.Brief())
}

func limitsComeBack(e *harness.Env) {
	u := e.NewUser()
	token := e.Token(u)
	marker, _ := harness.Marked()
	const permitted = 4
	for range 5 {
		conns := make([]*harness.Conn, permitted)
		for i := range conns {
			conns[i] = e.MustDial(e.Public(i), nil)
			_, err := hold(e, conns[i], token, e.Public(i), marker)
			e.Must(err, "begin an upload")
		}
		e.Control(e.Await(2*time.Second, func() bool { return len(e.OnDisk(marker)) == permitted }), "the uploads are not on disk: %v", e.OnDisk(marker))
		a := e.Do(harness.SubmitRequest(token, harness.Lua()))
		e.Control(a.Status == http.StatusTooManyRequests, "one more is %s", a.Brief())
		for _, c := range conns {
			e.Must(c.Raw.Close(), "cut it off")
		}
		var after harness.Answer
		e.Check(e.Await(5*time.Second, func() bool {
			after = e.Do(harness.SubmitRequest(token, harness.Lua()))
			return after.Status == http.StatusCreated
		}), "an upload afterwards: %s", after.Brief())
	}
	gone(e, marker)
}

// submitAll sends n submissions, four at a time over both servers, and returns the
// jobs that were made and the answers that were neither 201 nor 429.
func submitAll(e *harness.Env, token string, n int, content func() []byte) (made []string, odd []string) {
	const callers = 4
	conns := make([]*harness.Conn, callers)
	for i := range conns {
		conns[i] = e.MustDial(e.Public(i), nil)
	}
	var mu sync.Mutex
	e.Parallel(callers, func(i int) {
		for range n / callers {
			a, err := exchange(conns[i], harness.SubmitRequest(token, content()), e.Public(i))
			if err != nil || a.Close {
				conns[i].Close()
				fresh, dialErr := e.Dial(e.Public(i), nil)
				if dialErr != nil {
					return
				}
				conns[i] = fresh
			}
			var job harness.Job
			mu.Lock()
			switch {
			case err == nil && a.Status == http.StatusCreated && json.Unmarshal(a.Body, &job) == nil:
				made = append(made, job.ID)
			case err == nil && a.Status != http.StatusTooManyRequests:
				odd = append(odd, a.Brief())
			}
			mu.Unlock()
		}
	})
	for _, c := range conns {
		c.Close()
	}
	return made, odd
}

func limitsActive(e *harness.Env) {
	u, other := e.NewUser(), e.NewUser()
	made, odd := submitAll(e, e.Token(u), 80, harness.Lua)
	const permitted = 40
	e.Control(len(made) > 0, "none was taken: %v", odd)
	e.Check(len(made) <= permitted, "%d jobs were made, %d are permitted", len(made), permitted)
	e.Check(len(odd) == 0, "answers beside 201 and 429: %v", odd)
	pending := 0
	for _, id := range made {
		if e.Row(id).Status == "pending" {
			pending++
		}
	}
	e.Note("%d jobs made, %d pending", len(made), pending)
	e.Check(pending <= permitted, "%d are pending", pending)
	a := e.Do(harness.SubmitRequest(e.Token(u), harness.Lua()))
	e.Check(a.Status == http.StatusTooManyRequests && a.Code() == "limit_exceeded" && a.Header.Get("Retry-After") != "", "one more: %s", a.Brief())
	a = e.Do(harness.SubmitRequest(e.Token(other), harness.Lua()))
	e.Control(a.Status == http.StatusCreated, "another user: %s", a.Brief())
}

func limitsStored(e *harness.Env) {
	u, other := e.NewUser(), e.NewUser()
	marker, _ := harness.Marked()
	content := func() []byte {
		c := append([]byte("-- "+marker+"\n"+harness.RandomHex(8)), make([]byte, maxInput)...)
		return c[:maxInput]
	}
	// 16 MiB are 64 such files, and 40 jobs may be active: those that have ended make
	// room for more, while their files stay.
	const permitted = 16 << 20
	worker := e.Worker(harness.Spare1)
	var made, odd []string
	for range 3 {
		some, others := submitAll(e, e.Token(u), 40, content)
		made, odd = append(made, some...), append(odd, others...)
		for _, id := range some {
			a := worker.ClaimJob(id)
			worker.Fail(a, "invalid_input", false)
		}
	}
	e.Control(len(made) > 4, "%d were taken: %v", len(made), odd)
	files := e.OnDisk(marker)
	e.Check(len(files)*maxInput <= permitted, "%d files of %d bytes are on disk, %d bytes are permitted", len(files), maxInput, permitted)
	e.Check(len(odd) == 0, "answers beside 201 and 429: %v", odd)
	e.Check(len(made) < 120, "all %d were taken", len(made))
	a := e.Do(harness.SubmitRequest(e.Token(other), harness.Lua()))
	e.Control(a.Status == http.StatusCreated, "another user: %s", a.Brief())
}
