package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"glovebox/system/protocol"
)

// Bounds of what the client takes from a server.
const (
	maxAnswerBytes  = 64 << 10
	maxErrorBytes   = 4 << 10
	maxMessageBytes = 256
	maxRetryAfter   = 5 * time.Minute
)

// Timing is how long the client waits. The zero value is not usable; see
// DefaultTiming.
type Timing struct {
	// Call bounds a call with a short answer, long poll aside.
	Call time.Duration
	// Stall bounds the time in which no byte of a transfer moves. After the last
	// byte of a result it is how long the server may take to store it.
	Stall time.Duration
	// Wait is the long poll of a claim.
	Wait time.Duration
	// First and Most bound the wait between tries.
	First, Most time.Duration
	// HandBack is how long reporting may take once the process must stop.
	HandBack time.Duration
}

// DefaultTiming is what the worker runs with.
var DefaultTiming = Timing{
	Call: 10 * time.Second, Stall: time.Minute, Wait: 20 * time.Second,
	First: 500 * time.Millisecond, Most: 30 * time.Second, HandBack: 10 * time.Second,
}

// Client speaks the internal API. It is safe for concurrent use.
type Client struct {
	base   string
	http   *http.Client
	timing Timing
}

// NewClient returns a client of the server at base, an https address without a
// path. transport presents the worker's certificate.
func NewClient(base string, transport http.RoundTripper, timing Timing) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the server's address is not usable; wanted one such as https://box.example:9443")
	}
	return &Client{
		base: "https://" + u.Host,
		http: &http.Client{
			Transport: transport,
			// A redirect would carry fencing tokens and results elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		timing: timing,
	}, nil
}

// Fence names one attempt of one job.
type Fence struct {
	JobID string
	Token int64
}

func (c *Client) attemptURL(path string, fence Fence) string {
	return c.base + strings.Replace(path, "{id}", fence.JobID, 1)
}

func (c *Client) newRequest(ctx context.Context, method, address string, body any) (*http.Request, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return nil, fmt.Errorf("form the request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", "glovebox-worker")
	return req, nil
}

func (c *Client) fenced(ctx context.Context, method, path string, fence Fence, body any) (*http.Request, error) {
	req, err := c.newRequest(ctx, method, c.attemptURL(path, fence), body)
	if err == nil {
		req.Header.Set(protocol.HeaderFencingToken, strconv.FormatInt(fence.Token, 10))
	}
	return req, err
}

// setProvenance adds what is to be kept of a run, where there is anything. The text
// is the launcher's in part: a header that the server must refuse would cost a result.
func setProvenance(req *http.Request, text string) {
	if text = strings.TrimSpace(ascii(text, protocol.MaxProvenanceBytes)); text != "" {
		req.Header.Set(protocol.HeaderProvenance, text)
	}
}

// call sends a request with a short answer and decodes it into answer. The
// status is 200, or 204 with answer untouched.
func (c *Client) call(verb string, req *http.Request, answer any) (status int, err error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, unreachable(verb, req.Context(), err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusNoContent:
		return resp.StatusCode, nil
	case http.StatusOK:
	default:
		return resp.StatusCode, refusal(verb, resp)
	}
	content := io.LimitReader(resp.Body, maxAnswerBytes)
	if err := json.NewDecoder(content).Decode(answer); err != nil {
		if isTransport(err) || req.Context().Err() != nil {
			return 0, unreachable(verb, req.Context(), err)
		}
		return 0, &Error{Verb: verb, Status: resp.StatusCode, kind: ErrRefused, cause: errors.New("the answer is not the JSON of the protocol")}
	}
	_, _ = io.Copy(io.Discard, content) // so that the connection can be used again
	return resp.StatusCode, nil
}

// isTransport tells a cut connection from text that is no JSON.
func isTransport(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return !errors.As(err, &syntax) && !errors.As(err, &kind)
}

// unreachable keeps the reason why a context ended, which is what the caller
// decides by, before the transport's words for it.
func unreachable(verb string, ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return &Error{Verb: verb, kind: ErrUnreachable, cause: err}
}

// refusal reads the error form, whatever of it there is, within bounds.
func refusal(verb string, resp *http.Response) error {
	e := &Error{Verb: verb, Status: resp.StatusCode}
	var form protocol.Error
	if json.NewDecoder(io.LimitReader(resp.Body, maxErrorBytes)).Decode(&form) == nil && isCode(form.Error.Code) {
		e.Code, e.Message = form.Error.Code, printable(form.Error.Message)
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	switch {
	case resp.StatusCode == http.StatusConflict:
		// lease_lost, and conflict: somebody completed the job with other bytes.
		e.kind = ErrLeaseLost
	case resp.StatusCode == http.StatusForbidden:
		e.kind = ErrNotAllowed
	case resp.StatusCode == http.StatusRequestEntityTooLarge:
		e.kind = ErrTooLarge
	case resp.StatusCode >= 500, resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusRequestTimeout,
		// An open connection whose certificate has ended; the next one shows the renewed.
		resp.StatusCode == http.StatusUnauthorized:
		e.kind = ErrServer
	default:
		e.kind = ErrRefused
	}
	return e
}

func isCode(code string) bool {
	if code == "" || len(code) > 64 {
		return false
	}
	return strings.Trim(code, "abcdefghijklmnopqrstuvwxyz_") == ""
}

// printable bounds text from the server and drops what a terminal might obey.
func printable(text string) string {
	if len(text) > maxMessageBytes {
		text = strings.ToValidUTF8(text[:maxMessageBytes], "")
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
}
