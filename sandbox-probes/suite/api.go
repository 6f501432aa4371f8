package suite

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"time"

	"glovebox/ci/local"
)

// maxAnswer bounds an answer of the API, a result included.
const maxAnswer = 8 << 20

// person speaks the public API as one user.
type person struct {
	url    string
	token  string
	client *http.Client
}

// logIn returns user of the running system with a token.
func logIn(ctx context.Context, s *local.System, user local.User) (*person, error) {
	pem, err := os.ReadFile(s.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the system's authority: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("read the system's authority: no certificate in it")
	}
	password, err := os.ReadFile(user.PasswordFile)
	if err != nil {
		return nil, fmt.Errorf("read a user's password: %w", err)
	}
	p := &person{url: s.PublicURL, client: &http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}},
	}}
	body, err := json.Marshal(map[string]string{"login": user.Login, "password": strings.TrimSpace(string(password))})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Token string `json:"token"`
	}
	content, err := p.call(ctx, http.MethodPost, "/api/v1/auth/token", "application/json", body)
	if err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	if err := json.Unmarshal(content, &answer); err != nil || answer.Token == "" {
		return nil, errors.New("log in: the answer holds no token")
	}
	p.token = answer.Token
	return p, nil
}

// call makes one request and returns the body of a 2xx answer. A refusal for load
// is tried again when its Retry-After is over.
func (p *person) call(ctx context.Context, method, path, kind string, body []byte) ([]byte, error) {
	for {
		req, err := http.NewRequestWithContext(ctx, method, p.url+path, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		if kind != "" {
			req.Header.Set("Content-Type", kind)
		}
		if p.token != "" {
			req.Header.Set("Authorization", "Bearer "+p.token)
		}
		resp, err := p.client.Do(req)
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return nil, err
		}
		switch resp.StatusCode {
		case http.StatusOK, http.StatusCreated:
			return content, nil
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			wait, err := time.ParseDuration(resp.Header.Get("Retry-After") + "s")
			if err != nil {
				wait = time.Second
			}
			select {
			case <-time.After(wait):
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return nil, fmt.Errorf("%s %s: status %d: %.200s", method, path, resp.StatusCode, content)
	}
}

// submit sends a file and returns the job's id.
func (p *person) submit(ctx context.Context, content []byte) (string, error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "probe.lua")
	if err == nil {
		_, err = part.Write(content)
	}
	if err = errors.Join(err, form.Close()); err != nil {
		return "", err
	}
	answer, err := p.call(ctx, http.MethodPost, "/api/v1/jobs", form.FormDataContentType(), body.Bytes())
	if err != nil {
		return "", fmt.Errorf("submit: %w", err)
	}
	var job struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(answer, &job); err != nil || job.ID == "" {
		return "", fmt.Errorf("submit: the answer names no job: %.200s", answer)
	}
	return job.ID, nil
}

// result downloads the result of a completed job.
func (p *person) result(ctx context.Context, id string) ([]byte, error) {
	return p.call(ctx, http.MethodGet, "/api/v1/jobs/"+id+"/result", "", nil)
}
