package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"glovebox/ci/bytecode"
)

// result is one compared file.
type result struct {
	item
	size, resultSize int64
	same             bool
	how              string // how it was compared, or why it is not the same
}

func compareAll(ctx context.Context, items []item) (results []result, failed int) {
	for _, it := range items {
		r := result{item: it, how: "bytecode"}
		r.size, r.resultSize = sizeOf(it.input), sizeOf(it.result)
		same, err := bytecode.Same(ctx, it.input, it.result)
		switch {
		case err != nil:
			r.how = err.Error()
		case !same:
			r.how = "the bytecode differs"
		case it.run:
			r.how, r.same = runBoth(ctx, it)
		default:
			r.same = true
		}
		if !r.same {
			failed++
		}
		results = append(results, r)
	}
	return results, failed
}

// runBoth runs original and result and compares what they print and how they end.
func runBoth(ctx context.Context, it item) (string, bool) {
	before, errBefore := exec.CommandContext(ctx, "lua5.4", it.input).Output()
	after, errAfter := exec.CommandContext(ctx, "lua5.4", it.result).Output()
	if errBefore != nil || errAfter != nil {
		return fmt.Sprintf("running them: %v, %v", errBefore, errAfter), false
	}
	if len(before) == 0 || !bytes.Equal(before, after) {
		return "they print different things", false
	}
	return fmt.Sprintf("bytecode, and run: %d equal lines", bytes.Count(before, []byte("\n"))), true
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

func printTable(results []result) {
	fmt.Printf("\n%-13s %-44s %9s %9s  %s\n", "from", "file", "bytes in", "out", "same program")
	for _, r := range results {
		name := r.name
		if len(name) > 44 {
			name = "..." + name[len(name)-41:]
		}
		verdict := "yes (" + r.how + ")"
		if !r.same {
			verdict = "NO: " + r.how
		}
		fmt.Printf("%-13s %-44s %9d %9d  %s\n", r.origin, name, r.size, r.resultSize, verdict)
	}
}

// showOne shows a sample before and after.
func showOne(results []result) error {
	for _, r := range results {
		if r.origin != "samples" {
			continue
		}
		before, err := os.ReadFile(r.input)
		if err != nil {
			return err
		}
		after, err := os.ReadFile(r.result)
		if err != nil {
			return err
		}
		fmt.Printf("\n%s before:\n%s\n%s after:\n%s\n", r.name, excerpt(string(before), 14, 100), r.name, excerpt(string(after), 10, 100))
		return nil
	}
	return nil
}

// excerpt returns the first lines of text, long lines wrapped at width.
func excerpt(text string, lines, width int) string {
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		for len(line) > width {
			out = append(out, line[:width])
			line = line[width:]
		}
		out = append(out, line)
		if len(out) >= lines {
			return "  | " + strings.Join(out[:lines], "\n  | ") + "\n  | ..."
		}
	}
	return "  | " + strings.Join(out, "\n  | ")
}
