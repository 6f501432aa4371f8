package rig

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"glovebox/chaos/traffic"
)

// Impostor is a worker that the harness plays with a certificate of its own: one
// that was cut off with a job and comes back when the world has moved on.
type Impostor struct {
	base string
	http *http.Client

	Job   string
	Token int64
}

// Impostor returns one with the spare identity, which calls server 0.
func (r *Rig) Impostor(id string) (*Impostor, error) {
	for _, w := range r.Workers {
		if w.ID != id {
			continue
		}
		pair, err := tls.LoadX509KeyPair(w.Cert, w.Key)
		if err != nil {
			return nil, fmt.Errorf("read the certificate of worker %s: %w", id, err)
		}
		trust, err := traffic.Trust(r.InternalCAFile)
		if err != nil {
			return nil, err
		}
		transport := &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: trust}}
		return &Impostor{base: r.InternalURL + "/internal/v1/jobs/", http: &http.Client{Transport: transport, Timeout: 30 * time.Second}}, nil
	}
	return nil, fmt.Errorf("there is no worker %s", id)
}

const saturation = `{"slots_free":1,"slots_total":1}`

// Claim takes a job, whichever comes.
func (i *Impostor) Claim(ctx context.Context) error {
	for ctx.Err() == nil {
		status, body, err := i.ask(ctx, http.MethodPost, "claim?wait=5s", []byte(saturation), "Content-Type", "application/json", "Glovebox-Request-Id", uuid.NewString())
		if err != nil {
			return err
		}
		var assignment struct {
			ID    string `json:"id"`
			Token int64  `json:"fencing_token"`
		}
		switch status {
		case http.StatusNoContent:
			continue
		case http.StatusOK:
			if err := json.Unmarshal(body, &assignment); err != nil {
				return fmt.Errorf("read an assignment: %w", err)
			}
			i.Job, i.Token = assignment.ID, assignment.Token
			return nil
		}
		return fmt.Errorf("a claim was answered %d: %s", status, body)
	}
	return ctx.Err()
}

// Heartbeat keeps the job and returns the status of the answer.
func (i *Impostor) Heartbeat(ctx context.Context) (int, error) {
	status, _, err := i.ask(ctx, http.MethodPost, i.Job+"/heartbeat", []byte(saturation), "Content-Type", "application/json", "Glovebox-Fencing-Token", strconv.FormatInt(i.Token, 10))
	return status, err
}

// Finish hands in bytes that are no result of the job, and returns the status.
func (i *Impostor) Finish(ctx context.Context, content []byte) (int, error) {
	sum := sha256.Sum256(content)
	status, _, err := i.ask(ctx, http.MethodPut, i.Job+"/result", content, "Content-Type", "application/octet-stream", "Glovebox-Fencing-Token", strconv.FormatInt(i.Token, 10),
		"Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
	return status, err
}

func (i *Impostor) ask(ctx context.Context, method, path string, body []byte, headers ...string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, i.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	for n := 0; n+1 < len(headers); n += 2 {
		req.Header.Set(headers[n], headers[n+1])
	}
	resp, err := i.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return resp.StatusCode, content, err
}
