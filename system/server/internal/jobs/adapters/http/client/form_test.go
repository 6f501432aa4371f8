package client

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"glovebox/system/server/internal/platform/httperr"
	"glovebox/threat-model/evidence"
)

func formRequest(t testing.TB, boundary string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, "/", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", `multipart/form-data; boundary="`+boundary+`"`)
	return r
}

// delimiter is what a client that chose the boundary b-b must not have in its file.
var delimiter = regexp.MustCompile(`\r\n--b-b(--|[ \t\r])`)

// TestFileFormGivesTheFileWhateverItHolds compares with the standard library's
// writer for contents that are full of almost-delimiters, read in any pieces.
func TestFileFormGivesTheFileWhateverItHolds(t *testing.T) {
	evidence.Proves(t, "API-04")
	rapid.Check(t, func(t *rapid.T) {
		const boundary = "b-b"
		pieces := []string{"\r", "\n", "-", "--", "\r\n", "\r\n-", "\r\n--", "\r\n--b", "\r\n--b-", "\r\n--b-bb", "\r\n--b-b-x", "b-b", "\x00", "x", strings.Repeat("y", 70_000)}
		parts := rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 30).Filter(func(parts []string) bool {
			return !delimiter.MatchString(strings.Join(parts, "") + "\r\n")
		})
		content := strings.Join(parts.Draw(t, "content"), "")
		var body bytes.Buffer
		w := multipart.NewWriter(&body)
		if err := w.SetBoundary(boundary); err != nil {
			t.Fatal(err)
		}
		part, _ := w.CreateFormFile("file", "a.lua") // a buffer does not fail
		_, _ = io.WriteString(part, content)
		_ = w.Close()

		var src io.Reader = &body
		switch rapid.IntRange(0, 3).Draw(t, "reader") {
		case 1:
			src = iotest.OneByteReader(src)
		case 2:
			src = iotest.DataErrReader(src)
		case 3:
			src = iotest.HalfReader(src)
		}
		r, _ := http.NewRequest(http.MethodPost, "/", src)
		r.Header.Set("Content-Type", w.FormDataContentType())
		f, err := openFileForm(r)
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		defer f.Close()
		got, err := io.ReadAll(f)
		if err != nil || string(got) != content {
			t.Fatalf("read %d bytes (%v), want %d", len(got), err, len(content))
		}
		if f.Label() != "a.lua" {
			t.Fatalf("label %q", f.Label())
		}
	})
}

// FuzzFileForm: whatever comes, the reader ends, and a form that it calls whole
// has the same file for the standard library's reader.
func FuzzFileForm(f *testing.F) {
	f.Add("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\ncontent\r\n--b--\r\n")
	f.Add("x\r\n--b \r\nContent-Disposition: form-data; name=file\r\nX: y\r\n\r\n\r\n--b\r\n\r\n--b--")
	f.Fuzz(func(t *testing.T, body string) {
		form, err := openFileForm(formRequest(t, "b", strings.NewReader(body)))
		if err != nil {
			return
		}
		defer form.Close()
		content, err := io.ReadAll(form)
		if err != nil {
			return
		}
		if label := form.Label(); label == "" || len(label) > maxLabelBytes || strings.ContainsAny(label, "/\\\x00\r\n") {
			t.Fatalf("label %q", label)
		}
		part, err := multipart.NewReader(strings.NewReader(body), "b").NextRawPart()
		if err != nil {
			return // the library is stricter with headers
		}
		if want, err := io.ReadAll(part); err == nil && !bytes.Equal(want, content) {
			t.Fatalf("content %q, the library reads %q", content, want)
		}
	})
}

// TestABrokenBodyIsItsOwnError: what the body says of its end is not replaced.
func TestABrokenBodyIsItsOwnError(t *testing.T) {
	slow := httperr.Refuse(httperr.RequestTimeout, "slow")
	whole := "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\ncontent\r\n--b--\r\n"
	for i := range len(whole) {
		f, err := openFileForm(formRequest(t, "b", io.MultiReader(strings.NewReader(whole[:i]), iotest.ErrReader(slow))))
		if err == nil {
			_, err = io.ReadAll(f)
			f.Close()
		}
		if httperr.Of(err).Code != httperr.RequestTimeout {
			t.Fatalf("cut after %d bytes: %v", i, err)
		}
	}
}

func TestRanges(t *testing.T) {
	evidence.Proves(t, "API-07")
	const size = 100
	for _, c := range []struct {
		header  string
		want    span
		verdict rangeVerdict
	}{
		{"bytes=0-9", span{0, 10}, rangePart},
		{"Bytes = 0-9", span{0, 10}, rangePart},
		{"bytes=90-", span{90, 10}, rangePart},
		{"bytes=90-1000", span{90, 10}, rangePart},
		{"bytes=90-99999999999999999999", span{90, 10}, rangePart},
		{"bytes=-1", span{99, 1}, rangePart},
		{"bytes=-1000", span{0, 100}, rangePart},
		{"bytes=0-0", span{0, 1}, rangePart},
		{"bytes=99-99", span{99, 1}, rangePart},
		{"bytes=100-", span{}, rangeUnsatisfied},
		{"bytes=99999999999999999999-", span{}, rangeUnsatisfied},
		{"bytes=-0", span{}, rangeUnsatisfied},
		{"bytes=0-1,3-4", span{}, rangeWhole},
		{"bytes=" + strings.Repeat("0-,", 1000), span{}, rangeWhole},
		{"bytes=5-4", span{}, rangeWhole},
		{"bytes=-", span{}, rangeWhole},
		{"bytes=a-b", span{}, rangeWhole},
		{"bytes=+1-2", span{}, rangeWhole},
		{"bytes=--1", span{}, rangeWhole},
		{"bytes=1", span{}, rangeWhole},
		{"bytes", span{}, rangeWhole},
		{"items=0-9", span{}, rangeWhole},
		{"", span{}, rangeWhole},
	} {
		got, verdict := parseRange(c.header, size)
		if got != c.want || verdict != c.verdict {
			t.Errorf("%.40q: %v %d, want %v %d", c.header, got, verdict, c.want, c.verdict)
		}
	}
	if _, verdict := parseRange("bytes=0-", 0); verdict != rangeUnsatisfied {
		t.Error("a range of nothing is satisfied")
	}
}

// FuzzDisplayLabel: a label is short, printable, one line, no path, and stays the
// same when it is cleaned again.
func FuzzDisplayLabel(f *testing.F) {
	for _, s := range []string{"", "..", "/", "a/b\\c", "\u202e", "x.lua", strings.Repeat("ü", 300), "\xff", ". .", "a\x00b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		label := displayLabel(name)
		if label == "" || len(label) > maxLabelBytes || strings.ContainsAny(label, "/\\\x00\r\n\t\u202e\u200b") || label == "." || label == ".." {
			t.Fatalf("label %q", label)
		}
		header := attachment(label)
		for i := range len(header) {
			if header[i] < 0x20 || header[i] > 0x7e {
				t.Fatalf("header %q", header)
			}
		}
	})
}
