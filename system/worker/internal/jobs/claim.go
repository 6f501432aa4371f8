package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"glovebox/system/protocol"
)

// claimMargin is what a long poll may take beyond its own length.
const claimMargin = 10 * time.Second

// Claim asks for one job under requestID, a UUID. The same id again while the
// assignment's lease lives gives the same assignment. assigned is nil when there
// is none. wait bounds the long poll, up to 30 s.
func (c *Client) Claim(ctx context.Context, requestID string, wait time.Duration, slots protocol.Saturation) (assigned *protocol.Assignment, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait+claimMargin)
	defer cancel()
	address := c.base + protocol.PathClaim + "?" + url.Values{"wait": {wait.String()}}.Encode()
	req, err := c.newRequest(ctx, http.MethodPost, address, slots)
	if err != nil {
		return nil, err
	}
	req.Header.Set(protocol.HeaderRequestID, requestID)
	var a protocol.Assignment
	status, err := c.call("claim", req, &a)
	if err != nil {
		return nil, err
	}
	if status == http.StatusNoContent {
		return nil, nil
	}
	if err := checkAssignment(a); err != nil {
		return nil, &Error{Verb: "claim", Status: status, kind: ErrRefused, cause: err}
	}
	return &a, nil
}

var jobIDForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// checkAssignment refuses what this worker could not act on: the id becomes part
// of an address, the numbers become timers and bounds.
func checkAssignment(a protocol.Assignment) error {
	switch {
	case !jobIDForm.MatchString(a.ID):
		return errors.New("the assignment's id is not a UUID in lower case")
	case a.FencingToken < 1 || a.Attempt < 1:
		return errors.New("the assignment's fencing token or attempt is not positive")
	case a.HeartbeatSeconds < 1 || a.LeaseSeconds <= a.HeartbeatSeconds || a.LeaseSeconds > 24*3600:
		return errors.New("the assignment's lease does not outlast its heartbeat")
	case a.TimeoutSeconds < 1 || a.TimeoutSeconds > 24*3600:
		return errors.New("the assignment's timeout is not between a second and a day")
	case a.InputSize < 0 || a.MaxResultBytes < 0:
		return errors.New("the assignment has a negative size")
	}
	if sum, err := hex.DecodeString(a.InputSHA256); err != nil || len(sum) != sha256.Size {
		return errors.New("the assignment's SHA-256 is not 64 hexadecimal digits")
	}
	return nil
}
