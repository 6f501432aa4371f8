package jobs_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"glovebox/system/server/internal/jobs"
	"glovebox/system/server/internal/jobs/domain"
	"glovebox/threat-model/evidence"
)

func TestSubmitMakesAPendingJobOfTheBytes(t *testing.T) {
	evidence.Proves(t, "API-05", "JOB-01")
	k := setup(t)
	receipt := k.submit(t, "hello")
	if receipt.Status != domain.Pending || receipt.Replayed || receipt.AssetID == "" || !receipt.ExpiresAt.IsZero() {
		t.Errorf("the receipt is %+v", receipt)
	}
	_, a := k.claim(t)
	if a.ID != receipt.ID || a.InputSize != 5 || a.Attempt != 1 || a.FencingToken != 1 || a.LeaseSeconds != 30 || a.HeartbeatSeconds != 10 ||
		a.TimeoutSeconds != 60 || a.MaxResultBytes != maxBytes {
		t.Errorf("the assignment is %+v", a)
	}
	k.clean(t, 1)
}

func TestSubmitRefusalsLeaveNothing(t *testing.T) {
	evidence.Proves(t, "UPL-04", "UPL-08", "API-04")
	broken := errors.New("the client went away")
	for _, c := range []struct {
		name string
		body io.Reader
		sub  func(*jobs.Submission)
		set  func(*flaky)
		code domain.Code
		is   error
		left int
	}{
		{name: "too large", body: bytes.NewReader(make([]byte, maxBytes+1)), code: domain.CodeTooLarge},
		{name: "a broken body", body: io.MultiReader(strings.NewReader("x"), iotest.ErrReader(broken)), is: broken},
		{name: "another digest than declared", sub: func(s *jobs.Submission) { s.Declared = digest("y") }, code: domain.CodeInvalid},
		{name: "no space", set: func(f *flaky) { f.stage = domain.Refuse(domain.CodeInsufficientStorage, "full") }, code: domain.CodeInsufficientStorage},
		{name: "a disk that fails at the end", set: func(f *flaky) { f.commit = errDisk }, is: errDisk},
		{name: "bytes that vanish before the row", set: func(f *flaky) { f.gone = true }, code: domain.CodeUnavailable},
		{name: "a database that fails leaves an orphan at most", set: func(f *flaky) { f.open = errDisk }, code: domain.CodeUnavailable, left: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := setup(t)
			sub := k.submission()
			sub.IdempotencyKey = "k"
			if c.sub != nil {
				c.sub(&sub)
			}
			if c.set != nil {
				k.blobs.set(c.set)
			}
			body := c.body
			if body == nil {
				body = strings.NewReader("x")
			}
			_, err := k.Submit(t.Context(), sub, body)
			if err == nil || c.code != "" && domain.CodeOf(err) != c.code || c.is != nil && !errors.Is(err, c.is) {
				t.Fatalf("error is %v, want code %q, cause %v", err, c.code, c.is)
			}
			k.clean(t, c.left)
			// The key and the slot are free: the same request goes through.
			k.blobs.set(func(f *flaky) { f.stage, f.commit, f.open, f.gone = nil, nil, nil, false })
			sub.Declared = nil
			receipt, err := k.Submit(t.Context(), sub, strings.NewReader("x"))
			if err != nil || receipt.Replayed {
				t.Fatalf("the same request afterwards: %+v, %v", receipt, err)
			}
		})
	}
}

func TestAnIdempotencyKeyIsOneJob(t *testing.T) {
	evidence.Proves(t, "API-04")
	k := setup(t)
	sub := k.submission()
	sub.IdempotencyKey = "k"
	send := func(content string, declared *[32]byte) (jobs.Receipt, error) {
		again := sub
		again.Declared = declared
		return k.Submit(t.Context(), again, strings.NewReader(content))
	}
	first, err := send("x", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, declared := range []*[32]byte{nil, digest("x")} {
		again, err := send("x", declared)
		if err != nil || again.ID != first.ID || !again.Replayed {
			t.Errorf("again: %+v, %v", again, err)
		}
	}
	_, err = send("y", nil)
	wantCode(t, err, domain.CodeIdempotencyMismatch)
	_, err = send("y", digest("y"))
	wantCode(t, err, domain.CodeIdempotencyMismatch)
	_, err = send("y", digest("x")) // lies about the bytes to get the first job
	wantCode(t, err, domain.CodeInvalid)
	sub.FileName = "b.lua"
	_, err = send("x", digest("x"))
	wantCode(t, err, domain.CodeIdempotencyMismatch)
	_, err = k.Submit(t.Context(), jobs.Submission{UserID: k.user, FileName: "a.lua", IdempotencyKey: "k"}, bytes.NewReader(make([]byte, maxBytes+1)))
	wantCode(t, err, domain.CodeTooLarge)
	k.clean(t, 1)
}

func TestADeclaredMismatchIsRefusedBeforeTheBodyIsRead(t *testing.T) {
	evidence.Proves(t, "API-04")
	k := setup(t)
	sub := k.submission()
	sub.IdempotencyKey, sub.Declared = "k", digest("x")
	reading, goOn := make(chan struct{}), make(chan struct{})
	var first sync.WaitGroup
	first.Go(func() {
		body := io.MultiReader(readerFunc(func([]byte) (int, error) { close(reading); <-goOn; return 0, io.EOF }), strings.NewReader("x"))
		if _, err := k.Submit(t.Context(), sub, body); err != nil {
			t.Errorf("the first request: %v", err)
		}
	})
	<-reading
	untouched := iotest.ErrReader(errors.New("the body was read"))
	sub.Declared = digest("y")
	_, err := k.Submit(t.Context(), sub, untouched)
	wantCode(t, err, domain.CodeIdempotencyMismatch)
	sub.Declared = digest("x")
	_, err = k.Submit(t.Context(), sub, untouched)
	wantCode(t, err, domain.CodeIdempotencyInFlight)
	close(goOn)
	first.Wait()
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestKeysAndNamesAreBounded(t *testing.T) {
	evidence.Proves(t, "API-07", "UPL-05")
	k := setup(t)
	for _, key := range []string{strings.Repeat("k", 256), "a b", "a\x00", "ä", "a\n"} {
		sub := k.submission()
		sub.IdempotencyKey = key
		_, err := k.Submit(t.Context(), sub, strings.NewReader("x"))
		wantCode(t, err, domain.CodeInvalid)
	}
	for _, name := range []string{strings.Repeat("é", 200), "a\x00b", "\xff\xfe"} {
		sub := k.submission()
		sub.FileName = name
		receipt, err := k.Submit(t.Context(), sub, strings.NewReader("x"))
		if err != nil {
			t.Fatalf("name %q: %v", name, err)
		}
		record, err := k.store.Look(t.Context(), receipt.ID)
		if err != nil || len(record.Input.FileName) > 255 || strings.Contains(record.Input.FileName, "\x00") || !utf8.ValidString(record.Input.FileName) || strings.Contains(record.Input.StorageKey, name) {
			t.Errorf("name %q became %q under key %q (%v)", name, record.Input.FileName, record.Input.StorageKey, err)
		}
	}
}
