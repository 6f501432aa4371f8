package wire_test

import (
	"crypto/sha256"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"glovebox/system/server/internal/httpapi/wire"
	"glovebox/system/server/internal/platform/httperr"
	"glovebox/threat-model/evidence"
)

func TestDigests(t *testing.T) {
	evidence.Proves(t, "API-07")
	sum := sha256.Sum256([]byte("x"))
	good := wire.FormatDigest(sum)
	if got, err := wire.ParseDigest(good); err != nil || got != sum {
		t.Fatalf("%s: %v", good, err)
	}
	for _, bad := range []string{
		"", "sha-256=", "sha-256=::", good[1:], good + " ", " " + good, good + "," + good, strings.Replace(good, "sha-256", "SHA-256", 1), strings.Replace(good, "sha-256", "sha-512", 1),
		strings.Replace(good, "=:", "=", 1), strings.TrimSuffix(good, ":"), good[:len(good)-2] + "A:", strings.Replace(good, good[12:14], "\r\n", 1),
		"sha-256=:" + strings.Repeat("A", 44) + ":", "sha-256=:" + strings.Repeat("-", 43) + "=:", "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB=:",
	} {
		if _, err := wire.ParseDigest(bad); err == nil {
			t.Errorf("%q is a digest", bad)
		}
	}
}

func TestIDs(t *testing.T) {
	const good = "0197f0aa-0000-7000-8000-00000000000f"
	if !wire.ValidUUID(good) {
		t.Fatal("a canonical id is refused")
	}
	for _, bad := range []string{"", strings.ToUpper(good), good + "0", good[1:], strings.ReplaceAll(good, "-", "0"), "g" + good[1:], good[:35] + "\n", good[:8] + "_" + good[9:], "{" + good + "}"} {
		if wire.ValidUUID(bad) {
			t.Errorf("%q is an id", bad)
		}
	}
}

func TestTimesAreUTC(t *testing.T) {
	at := time.Date(2026, 11, 30, 13, 14, 15, 16e6, time.FixedZone("x", 3600))
	if got := wire.Time(at); got != "2026-11-30T12:14:15.016Z" {
		t.Error(got)
	}
}

func TestReadJSON(t *testing.T) {
	evidence.Proves(t, "API-07")
	read := func(body io.Reader) (string, error) {
		r, _ := http.NewRequest("POST", "/", body)
		r.Header.Set("Content-Type", "application/json")
		var v struct {
			A string `json:"a"`
			S string `json:"s"`
		}
		err := wire.ReadJSON(r, &v)
		return v.A, err
	}
	if got, err := read(iotest.OneByteReader(strings.NewReader(` {"a":"` + strings.Repeat("x", 10_000) + `"} `))); err != nil || len(got) != 10_000 {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	for body, want := range map[string]string{
		`{"a":"x","b":1}`: httperr.Invalid, `{"a":"x","A":"y"}`: httperr.Invalid, `{"a":{}}`: httperr.Invalid, `{"a":"x"`: httperr.Invalid,
		`{"A":"x"}`: httperr.Invalid, `{"ſ":"x"}`: httperr.Invalid, `{"s":"x","ſ":"y"}`: httperr.Invalid, `{"":"x"}`: httperr.Invalid,
		`{"a":"x"}{}`: httperr.Invalid, "{\"a\":\"\xff\"}": httperr.Invalid, `{"a":"` + strings.Repeat("x", 20_000) + `"}`: httperr.TooLarge,
		strings.Repeat(`{"a":`, 3000) + `1` + strings.Repeat(`}`, 3000): httperr.TooLarge, strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 6000): httperr.Invalid,
	} {
		_, err := read(onlyReader{strings.NewReader(body)})
		if got := httperr.Of(err).Code; got != want {
			t.Errorf("%.30q: %s, want %s", body, got, want)
		}
		if err != nil && strings.Contains(err.Error(), "xxxx") {
			t.Errorf("the error repeats the body: %v", err)
		}
	}
	if _, err := read(io.MultiReader(strings.NewReader(`{"a":`), iotest.ErrReader(httperr.Refuse(httperr.RequestTimeout, "slow")))); httperr.Of(err).Code != httperr.RequestTimeout {
		t.Errorf("a slow body is %v", err)
	}
}

type onlyReader struct{ io.Reader }
