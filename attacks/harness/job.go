package harness

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"
)

// Job is a job as its owner sees it.
type Job struct {
	ID        string `json:"id"`
	AssetID   string `json:"asset_id"`
	Status    string `json:"status"`
	CreatedAt string `json:"created_at"`
	UpdatedAt string `json:"updated_at"`
	ExpiresAt string `json:"expires_at"`
	ErrorCode string `json:"error_code"`
	SHA256    string `json:"sha256"`
	Size      int64  `json:"size"`
}

// Lua is a small valid input that no other case sends: the seed of the core's
// choices is the input's digest, so results differ too.
func Lua() []byte { return fmt.Appendf(nil, "local mark = %q\nreturn #mark\n", RandomHex(16)) }

// Boundary separates the parts of the forms made here.
const Boundary = "glovebox-attack-boundary"

// Form is a multipart body of one part named file.
func Form(fileName string, content []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"%s\"\r\n\r\n", Boundary, fileName)
	b.Write(content)
	fmt.Fprintf(&b, "\r\n--%s--\r\n", Boundary)
	return b.Bytes()
}

// FormType is the Content-Type line of the forms made here.
const FormType = "Content-Type: multipart/form-data; boundary=" + Boundary

// SubmitRequest uploads content as the user with that token; more are further
// header lines.
func SubmitRequest(token string, content []byte, more ...string) Request {
	return Request{
		Method: http.MethodPost, Path: "/api/v1/jobs", Token: token, Header: append([]string{FormType}, more...), Body: Form("a.lua", content),
	}
}

// Submit makes a job of content, which must be taken.
func (e *Env) Submit(u *User, content []byte, more ...string) Job {
	a := e.Do(SubmitRequest(e.Token(u), content, more...))
	if a.Status != http.StatusCreated {
		e.Fail("submit as %s: %s", u.Login, a.Brief())
	}
	var job Job
	e.JSON(a, &job)
	return job
}

// Status asks for the state of the user's job.
func (e *Env) Status(u *User, id string) Job {
	a := e.Do(Request{Method: http.MethodGet, Path: "/api/v1/jobs/" + id, Token: e.Token(u)})
	if a.Status != http.StatusOK {
		e.Fail("status of %s: %s", id, a.Brief())
	}
	var job Job
	e.JSON(a, &job)
	return job
}

// Done submits content and waits until the job has ended as status. On a target
// that has no worker, or none that is free, the case is unavailable; only the first
// waits long to learn that.
func (e *Env) Done(u *User, content []byte, status string, more ...string) Job {
	job := e.Submit(u, content, more...)
	limit := Patience
	if e.idles.Load() {
		limit /= 10
	}
	if !e.Await(limit, func() bool {
		job = e.Status(u, job.ID)
		return job.Status == "completed" || job.Status == "failed"
	}) {
		if e.target && job.Status == "pending" {
			e.idles.Store(true)
			e.Unavailable("a worker: the target took the job %s and began it not within %s", job.ID, limit)
		}
		e.Fail("the job %s is still %s", job.ID, job.Status)
	}
	if job.Status != status {
		e.Fail("the job %s is %s (%s), not %s", job.ID, job.Status, job.ErrorCode, status)
	}
	return job
}

// Result asks for the bytes of a job's result; header are further lines.
func (e *Env) Result(u *User, id string, header ...string) Answer {
	return e.Do(Request{Method: http.MethodGet, Path: "/api/v1/jobs/" + id + "/result", Token: e.Token(u), Header: header})
}

// Digest is content's SHA-256 as a digest header's value.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// Hash is content's SHA-256 in hexadecimal digits.
func Hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Patience is how long a case waits for what the system does by itself.
const Patience = 30 * time.Second
