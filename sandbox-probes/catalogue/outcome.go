package catalogue

import (
	"fmt"
	"strings"
)

// Outcome is what a probe said of one check.
type Outcome struct {
	Word   string // open, shut, signal, note
	Number string // of shut the errno's name, of signal the signal's
	Detail string
}

// String is the outcome in the catalogue's words: "open", "EPERM", "SIGSEGV", "note".
func (o Outcome) String() string {
	if o.Word == "shut" || o.Word == "signal" {
		return o.Number
	}
	return o.Word
}

// Parse reads a probe's result. complete tells whether the program came to its end.
func Parse(result []byte) (outcomes map[string]Outcome, complete bool, err error) {
	outcomes = map[string]Outcome{}
	for line := range strings.Lines(string(result)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "END" {
			complete = true
			continue
		}
		fields := strings.SplitN(line, " ", 5)
		if len(fields) < 4 || fields[0] != "CHECK" {
			return nil, false, fmt.Errorf("read a probe's result: line %q is not of the form CHECK name outcome number detail", line)
		}
		o := Outcome{Word: fields[2], Number: fields[3]}
		if len(fields) == 5 {
			o.Detail = fields[4]
		}
		switch o.Word {
		case "open", "shut", "signal", "note":
		default:
			return nil, false, fmt.Errorf("read a probe's result: outcome %q of %s is unknown", o.Word, fields[1])
		}
		if _, twice := outcomes[fields[1]]; twice {
			return nil, false, fmt.Errorf("read a probe's result: %s stands there twice", fields[1])
		}
		outcomes[fields[1]] = o
	}
	return outcomes, complete, nil
}
