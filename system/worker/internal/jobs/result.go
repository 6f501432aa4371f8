package jobs

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"

	"glovebox/system/protocol"
)

// Result sends size bytes of src under their SHA-256, with what is to be kept of
// the run they came from, "" for nothing. The same call again, after
// an answer was lost, gets the same answer from the server. An answer that does
// not repeat size and hash is ErrRefused.
func (c *Client) Result(ctx context.Context, fence Fence, src io.ReaderAt, size int64, sum [32]byte, provenance string) error {
	ctx, guard := guardStall(ctx, c.timing.Stall)
	defer guard.stop()
	body := func() io.ReadCloser {
		return io.NopCloser(touching{io.NewSectionReader(src, 0, size), guard})
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, c.attemptURL(protocol.PathResult, fence), body())
	if err != nil {
		return &Error{Verb: "result", kind: ErrRefused, cause: err}
	}
	req.ContentLength = size
	if size == 0 {
		req.Body = http.NoBody
	} else {
		// GetBody lets the transport leave a connection that has gone stale.
		req.GetBody = func() (io.ReadCloser, error) { return body(), nil }
		// A server that will not take the result says so before the bytes go out.
		req.Header.Set("Expect", "100-continue")
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	req.Header.Set("User-Agent", "glovebox-worker")
	req.Header.Set(protocol.HeaderFencingToken, strconv.FormatInt(fence.Token, 10))
	req.Header.Set(protocol.HeaderReprDigest, "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
	setProvenance(req, provenance)

	var answer protocol.ResultAnswer
	status, err := c.call("result", req, &answer)
	if err != nil {
		return err
	}
	if answer.Status != "completed" || answer.SHA256 != hex.EncodeToString(sum[:]) || answer.Size != size {
		return &Error{Verb: "result", Status: status, kind: ErrRefused, cause: errors.New("the server's answer names another status, size or SHA-256")}
	}
	return nil
}
