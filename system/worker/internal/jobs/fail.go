package jobs

import (
	"context"
	"net/http"
	"strings"

	"glovebox/system/protocol"
)

// Fail reports a failed attempt, with what is to be kept of its run, "" for
// nothing. The same report again gets the same answer
// while the lease lives.
func (c *Client) Fail(ctx context.Context, fence Fence, report protocol.FailureReport, provenance string) (protocol.FailureAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timing.Call)
	defer cancel()
	report.Detail = ascii(report.Detail, protocol.MaxDetailBytes)
	req, err := c.fenced(ctx, http.MethodPost, protocol.PathFail, fence, report)
	if err != nil {
		return protocol.FailureAnswer{}, err
	}
	setProvenance(req, provenance)
	var answer protocol.FailureAnswer
	_, err = c.call("fail", req, &answer)
	return answer, err
}

// ascii keeps text within what the protocol takes: printable and at most most bytes.
func ascii(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), most)]
}
