package client

import (
	"math"
	"strconv"
	"strings"
)

// span is a part of a representation: length bytes from start.
type span struct{ start, length int64 }

// rangeVerdict is what a Range header comes to.
type rangeVerdict int

const (
	rangeWhole       rangeVerdict = iota // no range, or one that is not honoured: send all
	rangePart                            // send the span
	rangeUnsatisfied                     // 416
)

// parseRange judges a Range header against size (RFC 9110 §14). One range of
// bytes is honoured. Several are not, which a server may decide: the whole is
// sent, and nobody can have a small file sent many times over by one request. A
// malformed header counts as none.
func parseRange(header string, size int64) (span, rangeVerdict) {
	unit, spec, found := strings.Cut(header, "=")
	if !found || !strings.EqualFold(strings.TrimSpace(unit), "bytes") || strings.Contains(spec, ",") {
		return span{}, rangeWhole
	}
	first, last, found := strings.Cut(strings.TrimSpace(spec), "-")
	if !found {
		return span{}, rangeWhole
	}
	if first == "" { // the last n bytes
		n, ok := parsePosition(last)
		switch {
		case !ok:
			return span{}, rangeWhole
		case n == 0 || size == 0:
			return span{}, rangeUnsatisfied
		}
		n = min(n, size)
		return span{size - n, n}, rangePart
	}
	start, ok := parsePosition(first)
	if !ok {
		return span{}, rangeWhole
	}
	end := size - 1
	if last != "" {
		asked, ok := parsePosition(last)
		if !ok || asked < start {
			return span{}, rangeWhole
		}
		end = min(end, asked)
	}
	if start >= size {
		return span{}, rangeUnsatisfied
	}
	return span{start, end - start + 1}, rangePart
}

// parsePosition reads digits and nothing else; a number beyond int64 is as good
// as the largest one.
func parsePosition(s string) (int64, bool) {
	if s == "" {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return math.MaxInt64, true
	}
	return n, true
}

// matchesETag reports whether a list of entity tags (If-None-Match, If-Match)
// holds tag or is "*". weak lets W/"x" equal "x".
func matchesETag(list, tag string, weak bool) bool {
	if strings.TrimSpace(list) == "*" {
		return true
	}
	for candidate := range strings.SplitSeq(list, ",") {
		candidate = strings.TrimSpace(candidate)
		if weak {
			candidate = strings.TrimPrefix(candidate, "W/")
		}
		if candidate == tag {
			return true
		}
	}
	return false
}
