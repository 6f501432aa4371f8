package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"glovebox/system/worker/internal/container/verdict"
)

// maxDiagnosticBytes is the contract's bound (core/CONTRACT.md).
const maxDiagnosticBytes = 512

// genericInput stands where the core gave no diagnostic, or none in order.
const genericInput = "the file is not valid or is beyond the limits"

// inputDetail is what the file's owner will read of a refused input: the core's
// diagnostic when the result is exactly that, else a fixed text. The core ran on
// hostile bytes, so its words are taken only whole and only in their form.
func inputDetail(v verdict.Verdict, result io.ReaderAt) string {
	if !v.Result.OK || v.Result.Size == 0 || v.Result.Size > maxDiagnosticBytes {
		return genericInput
	}
	text := make([]byte, v.Result.Size)
	if n, err := result.ReadAt(text, 0); n != len(text) || err != nil && !errors.Is(err, io.EOF) {
		return genericInput
	}
	d, err := parseDiagnostic(text)
	if err != nil {
		return genericInput
	}
	return fmt.Sprintf("line %d, column %d: %s", d.line, d.column, d.message)
}

type diagnostic struct {
	line, column int
	message      string
}

var (
	errForm    = errors.New("not the form of a diagnostic")
	numberForm = regexp.MustCompile(`^[1-9][0-9]{0,8}$`)
)

// parseDiagnostic reads one JSON object that has line, column and message, each
// once and nothing else. The standard decoder into a struct would take other
// cases of the names, a name twice (the last wins), and names left out.
func parseDiagnostic(text []byte) (diagnostic, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return diagnostic{}, errForm
	}
	var d diagnostic
	seen := make(map[string]bool, 3)
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return diagnostic{}, errForm
		}
		key, _ := name.(string) // within an object a name is always a string
		value, err := dec.Token()
		if err != nil || seen[key] || !d.set(key, value) {
			return diagnostic{}, errForm
		}
		seen[key] = true
	}
	if end, err := dec.Token(); err != nil || end != json.Delim('}') || len(seen) != 3 {
		return diagnostic{}, errForm
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return diagnostic{}, errForm
	}
	return d, nil
}

func (d *diagnostic) set(key string, value json.Token) bool {
	switch key {
	case "line", "column":
		number, ok := value.(json.Number)
		if !ok || !numberForm.MatchString(number.String()) {
			return false
		}
		n, err := strconv.Atoi(number.String())
		if key == "line" {
			d.line = n
		} else {
			d.column = n
		}
		return err == nil
	case "message":
		text, ok := value.(string)
		d.message = text
		return ok && text != "" && isPrintableASCII(text)
	default:
		return false
	}
}

func isPrintableASCII(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
