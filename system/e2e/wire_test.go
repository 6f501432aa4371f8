package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"glovebox/ci/local"
)

// caller speaks HTTP itself, where the client would tidy or repeat.
type caller struct {
	t     *testing.T
	base  string
	http  *http.Client
	token string
}

// answer is a whole small answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// code returns the code of the error form.
func (a answer) code() string {
	var form struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	_ = json.Unmarshal(a.body, &form)
	return form.Error.Code
}

// id returns the job's id of a created job or a status.
func (a answer) id() string {
	var form struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(a.body, &form)
	return form.ID
}

// maxAnswer bounds what a test reads as one piece; results are streamed.
const maxAnswer = 1 << 20

// trust reads a bundle of authorities.
func trust(t *testing.T, file string) *x509.CertPool {
	t.Helper()
	pem, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		t.Fatalf("%s holds no certificate", file)
	}
	return pool
}

// caller returns one that talks to server i as the person.
func (p person) caller(server int) caller {
	p.t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust(p.t, p.system.CAFile)}, MaxIdleConnsPerHost: 64}
	p.t.Cleanup(transport.CloseIdleConnections)
	return caller{p.t, p.system.Servers[server].PublicURL, &http.Client{Transport: transport, Timeout: time.Minute}, p.token()}
}

// token reads what the client keeps.
func (p person) token() string {
	p.t.Helper()
	content, err := os.ReadFile(filepath.Join(p.home, "token"))
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(string(content))
}

// asWorker returns one that presents the certificate of the worker with that id.
func asWorker(t *testing.T, s *local.System, id string, base string) caller {
	t.Helper()
	for _, w := range s.Workers {
		if w.ID == id {
			pair, err := tls.LoadX509KeyPair(w.Cert, w.Key)
			if err != nil {
				t.Fatal(err)
			}
			config := &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: trust(t, s.InternalCAFile)}
			config.RootCAs.AppendCertsFromPEM(mustRead(t, s.CAFile)) // for the crossing of the two APIs
			transport := &http.Transport{TLSClientConfig: config}
			t.Cleanup(transport.CloseIdleConnections)
			return caller{t, base, &http.Client{Transport: transport, Timeout: time.Minute}, ""}
		}
	}
	t.Fatalf("there is no worker %s", id)
	return caller{}
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// try sends a request; headers are name, value, name, value.
func (c caller) try(method, path string, body io.Reader, headers ...string) (answer, error) {
	req, err := http.NewRequest(method, c.base+path, body)
	if err != nil {
		return answer{}, err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return answer{resp.StatusCode, resp.Header, content}, err
}

func (c caller) do(method, path string, body io.Reader, headers ...string) answer {
	c.t.Helper()
	a, err := c.try(method, path, body, headers...)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// boundary of the forms that the tests write themselves.
const boundary = "a-boundary-that-stands-in-no-file"

// formHead is everything of a form before the file's bytes, formTail what follows.
func formHead(name string) string {
	return "--" + boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name + "\"\r\n\r\n"
}

const formTail = "\r\n--" + boundary + "--\r\n"

// upload posts a file; the size is announced.
func (c caller) upload(name string, content []byte, headers ...string) (answer, error) {
	body := bytes.NewReader(bytes.Join([][]byte{[]byte(formHead(name)), content, []byte(formTail)}, nil))
	return c.try("POST", "/api/v1/jobs", body, append([]string{"Content-Type", "multipart/form-data; boundary=" + boundary}, headers...)...)
}

// digest is the value of Glovebox-File-Digest for content.
func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// slowUpload is an upload over a connection of its own, written by hand: an HTTP
// client would keep the first bytes in its buffer.
type slowUpload struct {
	conn   *tls.Conn
	done   chan struct{}
	answer answer
	err    error
}

// beginUpload sends the headers, the form's head and the first bytes. The length is
// announced, so that what is missing is missing.
func (c caller) beginUpload(first string, total int, headers ...string) *slowUpload {
	c.t.Helper()
	host := strings.TrimPrefix(c.base, "https://")
	config := c.http.Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", host, config)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	u := &slowUpload{conn: conn, done: make(chan struct{})}
	head := fmt.Sprintf("POST /api/v1/jobs HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: multipart/form-data; boundary=%s\r\nContent-Length: %d\r\n",
		host, c.token, boundary, len(formHead("slow"))+total+len(formTail))
	for i := 0; i < len(headers); i += 2 {
		head += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"+formHead("slow")+first); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		defer close(u.done)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			u.err = err
			return
		}
		defer resp.Body.Close()
		content, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		u.answer, u.err = answer{resp.StatusCode, resp.Header, content}, err
	}()
	return u
}

// state says whether the answer has come, and which.
func (u *slowUpload) state() string {
	select {
	case <-u.done:
		return fmt.Sprintf("%d %s (%v)", u.answer.status, u.answer.body, u.err)
	default:
		return "no answer yet"
	}
}

// finish sends the rest and returns the answer.
func (u *slowUpload) finish(rest string) (answer, error) {
	if _, err := io.WriteString(u.conn, rest+formTail); err != nil {
		return answer{}, err
	}
	<-u.done
	return u.answer, u.err
}

// abandon ends the request where it stands.
func (u *slowUpload) abandon() {
	_ = u.conn.Close()
	<-u.done
}

// download streams a result and returns its SHA-256 and size.
func (c caller) download(id string) (sum [32]byte, size int64, err error) {
	req, err := http.NewRequestWithContext(context.Background(), "GET", c.base+"/api/v1/jobs/"+id+"/result", nil)
	if err != nil {
		return sum, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.http.Do(req)
	if err != nil {
		return sum, 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return sum, 0, fmt.Errorf("status %d", resp.StatusCode)
	}
	hash := sha256.New()
	size, err = io.Copy(hash, resp.Body)
	return [32]byte(hash.Sum(nil)), size, err
}

// created submits content over c and returns the job's id.
func (c caller) created(name string, content []byte, headers ...string) string {
	c.t.Helper()
	a, err := c.upload(name, content, headers...)
	if err != nil || a.status != http.StatusCreated {
		c.t.Fatalf("upload: status %d %s (%v)", a.status, a.body, err)
	}
	return a.id()
}
