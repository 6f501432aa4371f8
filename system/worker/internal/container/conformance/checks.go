package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/slot"
	"glovebox/system/worker/internal/container/verdict"
)

// sample: an input the core accepts, twice.
func (s *Suite) sample(ctx context.Context) ([]Check, error) {
	first, err := s.attempt(ctx, bytesOf(s.Sample), nil)
	if err != nil {
		return nil, err
	}
	second, err := s.attempt(ctx, bytesOf(s.Sample), nil)
	if err != nil {
		return nil, err
	}
	return []Check{judge("accepts the sample", first, 0), same("gives the same bytes for the sample", first, second)}, nil
}

// odd: inputs that no format expects. A core may accept them; it may not fail in
// a way of its own.
func (s *Suite) odd(ctx context.Context) ([]Check, error) {
	var checks []Check
	for _, c := range []struct {
		name  string
		input []byte
	}{
		{"an empty input", nil},
		{"one zero byte", []byte{0}},
		{"4 KiB of 0xFF", bytes.Repeat([]byte{0xff}, 4<<10)},
		{"64 KiB of noise", noise(64 << 10)},
		{"100,000 opening brackets", bytes.Repeat([]byte("("), 100_000)},
	} {
		first, err := s.attempt(ctx, bytesOf(c.input), nil)
		if err != nil {
			return checks, err
		}
		second, err := s.attempt(ctx, bytesOf(c.input), nil)
		if err != nil {
			return checks, err
		}
		checks = append(checks, judge("stands "+c.name, first, 0, 3, 4), same("says the same of "+c.name, first, second))
	}
	return checks, nil
}

// noise is the same bytes on every machine.
func noise(n int) []byte {
	out := make([]byte, n)
	state := uint64(0x9e3779b97f4a7c15)
	for i := range out {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		out[i] = byte(state)
	}
	return out
}

// large: an input near the launcher's limit, and one beyond the core's own.
func (s *Suite) large(ctx context.Context) ([]Check, error) {
	size := min(int64(largeInput), s.Maker.Limits.MaxInputBytes)
	large, err := s.attempt(ctx, filler(size), nil)
	if err != nil {
		return nil, err
	}
	beyond := s.Maker.Limits.MaxInputBytes + 1
	over, err := s.attempt(ctx, filler(beyond), limits(func(l *container.Limits) { l.MaxInputBytes = beyond }))
	if err != nil {
		return nil, err
	}
	return []Check{
		judge(fmt.Sprintf("stands %d bytes within its memory and time", size), large, 0, 3, 4, 5),
		judge(fmt.Sprintf("stands %d bytes, more than is configured", beyond), over, 0, 3, 4, 5),
	}, nil
}

// filler is n bytes of text in short lines.
func filler(n int64) source {
	return func() io.Reader {
		return io.LimitReader(&repeater{text: []byte("-- the quick brown fox jumps over the lazy dog\n")}, n)
	}
}

type repeater struct {
	text []byte
	at   int
}

func (r *repeater) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = r.text[r.at]
		r.at = (r.at + 1) % len(r.text)
	}
	return len(p), nil
}

// tiny: a result that does not fit is exit 5, never exit 0 with a part of it.
func (s *Suite) tiny(ctx context.Context) ([]Check, error) {
	r, err := s.attempt(ctx, bytesOf(s.Sample), limits(func(l *container.Limits) { l.MaxResultBytes = TinyResult }))
	if err != nil {
		return nil, err
	}
	return []Check{judge(fmt.Sprintf("says that a result does not fit into %d bytes", TinyResult), r, exitTooLarge)}, nil
}

// littleMemory: refused memory is an exit code, not a crash.
func (s *Suite) littleMemory(ctx context.Context) ([]Check, error) {
	size := min(int64(largeInput), s.Maker.Limits.MaxInputBytes)
	r, err := s.attempt(ctx, filler(size), limits(func(l *container.Limits) { l.AddressSpaceBytes = leastMemory }))
	if err != nil {
		return nil, err
	}
	return []Check{judge(fmt.Sprintf("stands %d bytes in %d MiB of address space", size, leastMemory>>20), r, 0, 3, 4, 5, 6)}, nil
}

// argument: nothing can be told to a core but its input.
func (s *Suite) argument(ctx context.Context) ([]Check, error) {
	r, err := s.attempt(ctx, bytesOf(s.Sample), func(m *slot.Maker) {
		m.Alter = func(spec *container.Spec) { spec.Command = []string{container.CorePath, "--help"} }
	})
	if err != nil {
		return nil, err
	}
	c := judge("refuses an argument", r, 2)
	// The result of a refusal is ignored, whatever it is.
	if r.verdict.Kind == verdict.Exited && r.verdict.ExitCode == 2 {
		c.Passed = true
	}
	return []Check{c}, nil
}

// maxDiagnostic bounds a diagnostic, without its line end.
const maxDiagnostic = 512

// checkDiagnostic holds the result of a refusal to the contract: empty, or one
// JSON object with line, column and message.
func checkDiagnostic(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	if len(text) > maxDiagnostic || !utf8.Valid(text) {
		return fmt.Errorf("it is not UTF-8 of at most %d bytes", maxDiagnostic)
	}
	var d struct {
		Line    *int64  `json:"line"`
		Column  *int64  `json:"column"`
		Message *string `json:"message"`
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return errors.New("it is not one JSON object of line, column and message")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	if d.Line == nil || d.Column == nil || d.Message == nil || *d.Line < 1 || *d.Column < 1 || *d.Message == "" {
		return errors.New("line and column are integers from 1 on, and there is a message")
	}
	for _, b := range []byte(*d.Message) {
		if b < 0x20 || b > 0x7e {
			return errors.New("the message is not printable ASCII")
		}
	}
	return nil
}
