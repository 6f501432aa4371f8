package attacks

import (
	"context"
	"net/http"
	"time"

	"glovebox/attacks/harness"
)

// ctxDone is the context in which a case cleans up.
type ctxDone = context.Context

// exchange sends a request on an open connection and reads its answer; for cases
// that act on several connections at once.
func exchange(c *harness.Conn, r harness.Request, host string) (harness.Answer, error) {
	if err := c.Send(r.Bytes(host)); err != nil {
		return harness.Answer{}, err
	}
	const limit = 30 * time.Second
	return c.Receive(r.Method, limit)
}

// renewing asks as the user and logs in again where the token has ended: in the
// world Brief it does within seconds.
func renewing(e *harness.Env, u *harness.User) func(harness.Request) harness.Answer {
	token := ""
	return func(r harness.Request) harness.Answer {
		for range 2 {
			if token == "" {
				token = e.FreshToken(u)
			}
			r.Token = token
			if a := e.Do(r); a.Status != http.StatusUnauthorized {
				return a
			}
			token = ""
		}
		e.Fail("a fresh token is refused")
		return harness.Answer{}
	}
}

// submitFresh makes a job by ask and waits until it has completed.
func submitFresh(e *harness.Env, ask func(harness.Request) harness.Answer, content []byte) harness.Job {
	a := ask(harness.SubmitRequest("", content))
	var job harness.Job
	e.JSON(a, &job)
	if a.Status != http.StatusCreated {
		e.Fail("submit: %s", a.Brief())
	}
	const limit = 30 * time.Second
	if !e.Await(limit, func() bool { return e.Row(job.ID).Status == "completed" }) {
		e.Fail("the job %s does not complete", job.ID)
	}
	return job
}
