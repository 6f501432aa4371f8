// Package wire holds the small forms that both APIs speak: ids, digests, JSON
// bodies, correlation ids. Each is judged strictly and in one place.
package wire

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"glovebox/system/server/internal/platform/httperr"
)

// ValidUUID reports whether id is a UUID in canonical lower case, the one form in
// which ids exist here.
func ValidUUID(id string) bool {
	if len(id) != 36 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}

// NotFound is the one answer for what is missing, foreign, or no id at all.
func NotFound() error { return httperr.Refuse(httperr.NotFound, "there is no such thing here") }

const (
	digestPrefix = "sha-256=:"
	digestSuffix = ":"
)

// ParseDigest reads `sha-256=:BASE64:` (RFC 9530), one algorithm and nothing else.
func ParseDigest(text string) (sum [sha256.Size]byte, err error) {
	bad := errors.New("a digest has the form sha-256=:BASE64:, of 32 bytes")
	if len(text) != len(digestPrefix)+44+len(digestSuffix) || !strings.HasPrefix(text, digestPrefix) || !strings.HasSuffix(text, digestSuffix) {
		return sum, bad
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(text[len(digestPrefix) : len(text)-1])
	if err != nil || len(decoded) != len(sum) {
		return sum, bad
	}
	return [sha256.Size]byte(decoded), nil
}

// FormatDigest is the inverse of ParseDigest.
func FormatDigest(sum [sha256.Size]byte) string {
	return digestPrefix + base64.StdEncoding.EncodeToString(sum[:]) + digestSuffix
}

// Time formats an instant as both APIs show it: RFC 3339, UTC, milliseconds.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// maxJSON bounds a JSON body; none of ours needs more.
const maxJSON = 16 << 10

// ReadJSON decodes a request's body into v: one JSON object of known keys, each
// at most once, of at most 16 KiB, in valid UTF-8, and nothing behind it.
func ReadJSON(r *http.Request, v any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return httperr.Refuse(httperr.UnsupportedMedia, "the body must be application/json")
	}
	if r.ContentLength > maxJSON {
		return httperr.Refuse(httperr.TooLarge, "the body is larger than %d bytes", maxJSON)
	}
	body := make([]byte, 0, 512)
	for {
		if len(body) > maxJSON {
			return httperr.Refuse(httperr.TooLarge, "the body is larger than %d bytes", maxJSON)
		}
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if !utf8.Valid(body) {
		return httperr.Refuse(httperr.Invalid, "the body is not valid UTF-8")
	}
	if err := judgeKeys(body); err != nil {
		return httperr.Refuse(httperr.Invalid, "the body %v", err)
	}
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return httperr.Refuse(httperr.Invalid, "the body is not the expected JSON object: %s", jsonFault(err))
	}
	return nil
}

// jsonFault says what is wrong without repeating the body, which may hold a
// password.
func jsonFault(err error) string {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return "a value has the wrong type"
	}
	if strings.Contains(err.Error(), "unknown field") {
		return "it has a key that is not known"
	}
	return "its syntax is wrong"
}

// judgeKeys requires one JSON object without a repeated key at its top level, and
// nothing after it. Go's decoder would take the last of two, and a reader
// elsewhere the first. It would also take a key in other letters for ours, a long
// s or a Kelvin sign included, so keys are small ASCII letters, digits and _.
func judgeKeys(body []byte) error {
	dec := json.NewDecoder(strings.NewReader(string(body)))
	token, err := dec.Token()
	if err != nil || token != json.Delim('{') {
		return errors.New("is not a JSON object")
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		key, isKey := token.(string)
		if err != nil || !isKey {
			return errors.New("is not valid JSON")
		}
		if strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			return errors.New("has a key that is not known")
		}
		if seen[key] {
			return errors.New("repeats a key")
		}
		seen[key] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return errors.New("is not valid JSON")
		}
	}
	if _, err := dec.Token(); err != nil {
		return errors.New("is not valid JSON")
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("has something behind the object")
	}
	return nil
}

// WriteJSON answers with v.
func WriteJSON(w http.ResponseWriter, r *http.Request, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("answer is not JSON: %v", err)) // our own types always marshal
	}
	body = append(body, '\n')
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

type correlationKey struct{}

// WithCorrelationID returns a context that carries the request's id.
func WithCorrelationID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, correlationKey{}, id)
}

// CorrelationID returns the request's id, or "".
func CorrelationID(ctx context.Context) string {
	id, _ := ctx.Value(correlationKey{}).(string)
	return id
}
