package main

import (
	"bytes"
	"strings"
)

// A token of the core's output, which has no comments.
type token struct {
	text       string
	begin, end int
	kind       tokenKind
}

type tokenKind int

const (
	symbol tokenKind = iota
	name
	keyword
	number
	str
)

var keywords = map[string]bool{
	"and": true, "break": true, "do": true, "else": true, "elseif": true, "end": true, "false": true, "for": true,
	"function": true, "goto": true, "if": true, "in": true, "local": true, "nil": true, "not": true, "or": true,
	"repeat": true, "return": true, "then": true, "true": true, "until": true, "while": true,
}

// symbols of more than one byte, the longest first.
var symbols = []string{"...", "..", "==", "~=", "<=", ">=", "<<", ">>", "//", "::"}

// scan splits an output of the core into tokens. It is a scanner of its own, not
// the core's, so that the mutants do not depend on the program under test.
func scan(text []byte) []token {
	var tokens []token
	at := 0
	if bytes.HasPrefix(text, []byte("#")) {
		at = len(text)
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			at = i
		}
	}
	for at < len(text) {
		if strings.IndexByte(" \t\r\n\v\f", text[at]) >= 0 {
			at++
			continue
		}
		end, kind := scanOne(text, at)
		word := string(text[at:end])
		if kind == name && keywords[word] {
			kind = keyword
		}
		tokens = append(tokens, token{text: word, begin: at, end: end, kind: kind})
		at = end
	}
	return tokens
}

func scanOne(text []byte, at int) (end int, kind tokenKind) {
	c := text[at]
	switch {
	case isLetter(c):
		end = at + 1
		for end < len(text) && (isLetter(text[end]) || isDigit(text[end])) {
			end++
		}
		return end, name
	case isDigit(c) || c == '.' && at+1 < len(text) && isDigit(text[at+1]):
		return scanNumber(text, at), number
	case c == '"' || c == '\'':
		for end = at + 1; end < len(text) && text[end] != c; end++ {
			if text[end] == '\\' {
				end++
			}
		}
		return min(end+1, len(text)), str
	case c == '[':
		level := at + 1
		for level < len(text) && text[level] == '=' {
			level++
		}
		if level < len(text) && text[level] == '[' {
			closer := "]" + strings.Repeat("=", level-at-1) + "]"
			if i := bytes.Index(text[level:], []byte(closer)); i >= 0 {
				return level + i + len(closer), str
			}
		}
	}
	for _, s := range symbols {
		if bytes.HasPrefix(text[at:], []byte(s)) {
			return at + len(s), symbol
		}
	}
	return at + 1, symbol
}

func scanNumber(text []byte, at int) int {
	exponent := "eE"
	if bytes.HasPrefix(text[at:], []byte("0x")) || bytes.HasPrefix(text[at:], []byte("0X")) {
		exponent = "pP"
	}
	end := at
	for end < len(text) {
		c := text[end]
		switch {
		case strings.IndexByte(exponent, c) >= 0:
			end++
			if end < len(text) && (text[end] == '+' || text[end] == '-') {
				end++
			}
		case isDigit(c) || isLetter(c) || c == '.':
			end++
		default:
			return end
		}
	}
	return end
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
