package jobs

import (
	"context"
	"errors"
	"net/http"
	"time"

	"glovebox/system/protocol"
)

// Heartbeat extends the lease and returns how long it now lives, counted from
// when the server answered.
func (c *Client) Heartbeat(ctx context.Context, fence Fence, slots protocol.Saturation) (time.Duration, error) {
	req, err := c.fenced(ctx, http.MethodPost, protocol.PathHeartbeat, fence, slots)
	if err != nil {
		return 0, err
	}
	var answer protocol.HeartbeatAnswer
	if _, err := c.call("heartbeat", req, &answer); err != nil {
		return 0, err
	}
	if answer.LeaseSeconds < 1 {
		return 0, &Error{Verb: "heartbeat", Status: http.StatusOK, kind: ErrRefused, cause: errors.New("the lease's length is not positive")}
	}
	return time.Duration(answer.LeaseSeconds) * time.Second, nil
}
