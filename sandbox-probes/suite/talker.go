package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// talker gives orders to one running pair probe, by its input, and reads answers,
// by its result.
type talker struct {
	orders, answers *os.File
	number          int
	read            int64
}

// ask gives one order and returns the answer's value.
func (t *talker) ask(ctx context.Context, form string, args ...any) (int64, error) {
	t.number++
	if _, err := fmt.Fprintf(t.orders, "%d %s\n", t.number, fmt.Sprintf(form, args...)); err != nil {
		return 0, fmt.Errorf("give an order: %w", err)
	}
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		line, err := t.line()
		if err != nil {
			return 0, err
		}
		if line != "" {
			return t.value(line)
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for an answer: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// line returns the next whole line of the answers, or nothing yet.
func (t *talker) line() (string, error) {
	var buffer [64]byte
	n, err := t.answers.ReadAt(buffer[:], t.read)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read an answer: %w", err)
	}
	line, _, whole := strings.Cut(string(buffer[:n]), "\n")
	if !whole {
		return "", nil
	}
	t.read += int64(len(line)) + 1
	return line, nil
}

func (t *talker) value(line string) (int64, error) {
	number, value, _ := strings.Cut(line, " ")
	if number != strconv.Itoa(t.number) {
		return 0, fmt.Errorf("read an answer: %q is not to order %d", line, t.number)
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read an answer: %w", err)
	}
	return n, nil
}

// end lets the probe go.
func (t *talker) end() error {
	t.number++
	_, err := fmt.Fprintf(t.orders, "%d - end 0\n", t.number)
	return err
}
