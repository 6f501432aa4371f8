package jobs

import (
	"context"
	"net/http"
	"strings"

	"glovebox/system/protocol"
)

// Fail reports a failed attempt. The same report again gets the same answer
// while the lease lives.
func (c *Client) Fail(ctx context.Context, fence Fence, report protocol.FailureReport) (protocol.FailureAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timing.Call)
	defer cancel()
	report.Detail = asciiDetail(report.Detail)
	req, err := c.fenced(ctx, http.MethodPost, protocol.PathFail, fence, report)
	if err != nil {
		return protocol.FailureAnswer{}, err
	}
	var answer protocol.FailureAnswer
	_, err = c.call("fail", req, &answer)
	return answer, err
}

// asciiDetail keeps a detail within what the protocol takes.
func asciiDetail(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), protocol.MaxDetailBytes)]
}
