package recovery

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"time"

	"glovebox/system/platform/secret"
)

// JobRun says how to run one job through the whole system, as a user does.
type JobRun struct {
	URL    string // of the public API
	CAFile string // the authority that signed its certificate; the system's when empty
	Token  secret.Text
	Input  string // a file that the core takes
	Poll   time.Duration
}

// JobOutcome is what became of it.
type JobOutcome struct {
	ID     string        `json:"id"`
	Status string        `json:"status"`
	Code   string        `json:"error_code,omitempty"`
	SHA256 string        `json:"sha256,omitempty"`
	Size   int64         `json:"size,omitempty"`
	Took   time.Duration `json:"took_ns"`
}

// RunJob submits the file, waits for its end until ctx ends, and downloads the
// result, whose bytes must be the ones that the status names.
func RunJob(ctx context.Context, run JobRun) (JobOutcome, error) {
	began := time.Now()
	client, err := run.client()
	if err != nil {
		return JobOutcome{}, err
	}
	outcome, err := run.submit(ctx, client)
	for err == nil && outcome.Status != "completed" && outcome.Status != "failed" {
		select {
		case <-ctx.Done():
			return outcome, fmt.Errorf("job %s is still %s: %w", outcome.ID, outcome.Status, ctx.Err())
		case <-time.After(run.Poll):
		}
		err = run.call(ctx, client, http.MethodGet, "/api/v1/jobs/"+outcome.ID, "", nil, &outcome)
	}
	if err == nil && outcome.Status != "completed" {
		err = fmt.Errorf("job %s failed with %s", outcome.ID, outcome.Code)
	}
	if err == nil {
		err = run.download(ctx, client, outcome)
	}
	outcome.Took = time.Since(began)
	return outcome, err
}

func (run JobRun) client() (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if run.CAFile != "" {
		pem, err := os.ReadFile(run.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the authority's certificate: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", run.CAFile)
		}
	}
	const most = time.Minute // of one request; the job may take longer
	return &http.Client{Timeout: most, Transport: &http.Transport{TLSClientConfig: config}}, nil
}

// maxRunInput bounds the trial's input, which is held in memory to be sent.
const maxRunInput = 1 << 20

func (run JobRun) submit(ctx context.Context, client *http.Client) (JobOutcome, error) {
	f, err := os.Open(run.Input)
	if err != nil {
		return JobOutcome{}, fmt.Errorf("open the trial's input: %w", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxRunInput+1))
	if err != nil || len(content) > maxRunInput {
		return JobOutcome{}, errors.Join(fmt.Errorf("read the trial's input, which may have %d bytes", maxRunInput), err)
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "recovery-trial")
	if err == nil {
		_, err = part.Write(content)
	}
	if err = errors.Join(err, form.Close()); err != nil {
		return JobOutcome{}, fmt.Errorf("make the request: %w", err)
	}
	var outcome JobOutcome
	err = run.call(ctx, client, http.MethodPost, "/api/v1/jobs", form.FormDataContentType(), &body, &outcome)
	return outcome, err
}

func (run JobRun) request(ctx context.Context, client *http.Client, method, path, kind string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(run.URL, "/")+path, body)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+run.Token.Reveal())
	if kind != "" {
		key := make([]byte, 16)
		_, _ = rand.Read(key) // never fails
		req.Header.Set("Content-Type", kind)
		req.Header.Set("Idempotency-Key", "recovery-"+hex.EncodeToString(key))
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if res.StatusCode/100 != 2 {
		defer res.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
		return nil, fmt.Errorf("%s %s: status %d: %s", method, path, res.StatusCode, bytes.TrimSpace(text))
	}
	return res, nil
}

func (run JobRun) call(ctx context.Context, client *http.Client, method, path, kind string, body io.Reader, into *JobOutcome) error {
	res, err := run.request(ctx, client, method, path, kind, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	const most = 64 << 10
	if err := json.NewDecoder(io.LimitReader(res.Body, most)).Decode(into); err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	return nil
}

func (run JobRun) download(ctx context.Context, client *http.Client, o JobOutcome) error {
	res, err := run.request(ctx, client, http.MethodGet, "/api/v1/jobs/"+o.ID+"/result", "", nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, res.Body)
	if err != nil {
		return fmt.Errorf("download the result of job %s: %w", o.ID, err)
	}
	sum := hash.Sum(nil)
	if size != o.Size || hex.EncodeToString(sum) != o.SHA256 || res.Header.Get("Repr-Digest") != "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":" {
		return fmt.Errorf("the result of job %s came as %d bytes with SHA-256 %x, its status says %d and %s", o.ID, size, sum, o.Size, o.SHA256)
	}
	return nil
}
