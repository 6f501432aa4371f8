package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"

	"glovebox/system/protocol"
)

// Input writes the job's input to dst from offset 0 and checks size and SHA-256
// against the assignment while the bytes pass (JOB-12). On an error dst holds
// anything, but never more than the assigned size.
func (c *Client) Input(ctx context.Context, a protocol.Assignment, dst io.WriterAt) error {
	ctx, guard := guardStall(ctx, c.timing.Stall)
	defer guard.stop()
	fence := Fence{JobID: a.ID, Token: a.FencingToken}
	req, err := c.fenced(ctx, http.MethodGet, protocol.PathInput, fence, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return unreachable("input", ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusal("input", resp)
	}
	mismatch := func(text string) error {
		return &Error{Verb: "input", Status: resp.StatusCode, kind: ErrInputMismatch, cause: errors.New(text)}
	}
	if resp.ContentLength >= 0 && resp.ContentLength != a.InputSize {
		return mismatch(fmt.Sprintf("the server announces %d bytes, the assignment says %d", resp.ContentLength, a.InputSize))
	}
	sum := sha256.New()
	local := &localWriter{to: io.NewOffsetWriter(dst, 0)}
	body := touching{resp.Body, guard}
	n, err := io.Copy(io.MultiWriter(local, sum), io.LimitReader(body, a.InputSize))
	if local.err != nil {
		return &Error{Verb: "input", kind: ErrLocal, cause: local.err}
	}
	// A transfer that this side gave up may still end in order: its server sees
	// the goodbye and closes the body before the connection is gone.
	if err != nil || ctx.Err() != nil {
		return unreachable("input", ctx, err)
	}
	if n < a.InputSize {
		return mismatch(fmt.Sprintf("%d bytes came, the assignment says %d", n, a.InputSize))
	}
	// The end must be the end. A connection cut here has cost nothing but itself.
	if extra, err := io.ReadFull(body, make([]byte, 1)); extra > 0 {
		return mismatch(fmt.Sprintf("more than the assigned %d bytes came", a.InputSize))
	} else if !errors.Is(err, io.EOF) || ctx.Err() != nil {
		return unreachable("input", ctx, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != a.InputSHA256 {
		return mismatch("the SHA-256 differs from the assignment's")
	}
	return nil
}

// localWriter remembers its own error, which io.Copy mixes with the reader's.
type localWriter struct {
	to  io.Writer
	err error
}

func (w *localWriter) Write(b []byte) (int, error) {
	n, err := w.to.Write(b)
	if err != nil {
		w.err = err
	}
	return n, err
}
