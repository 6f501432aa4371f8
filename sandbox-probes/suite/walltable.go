package suite

import (
	"bytes"
	"fmt"
	"strings"

	"glovebox/system/worker/probe"
)

// wallRow is one setting with the lines that report its absence.
type wallRow struct {
	wall    probe.Wall
	reports []string
}

// wallTable says of each setting of the sandbox who notices when it is not there.
type wallTable []wallRow

// shownReports bounds how many reports a row of the table quotes.
const shownReports = 4

// markdown is the table for a reader, a row a setting.
func (t wallTable) markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Each setting of the sandbox taken away\n\n%s\n\n", t.summary())
	b.WriteString("Away is the setting alone; where another one covers it, that one is away in both\nruns that are compared. A report is a line of the posture that changes, a probe that\nno longer is stopped, or the refusal to start.\n\n")
	b.WriteString("| setting | where | what is lost | also away | reported by |\n|---|---|---|---|---|\n")
	for _, r := range t {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.wall.ID, cell(r.wall.Field), cell(r.wall.What), strings.Join(r.wall.Under, ", "), r.quoted())
	}
	return b.Bytes()
}

func (r wallRow) quoted() string {
	if len(r.reports) == 0 {
		return "**nobody**"
	}
	var quoted []string
	for _, report := range r.reports[:min(len(r.reports), shownReports)] {
		quoted = append(quoted, cell(report))
	}
	if more := len(r.reports) - len(quoted); more > 0 {
		quoted = append(quoted, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(quoted, "<br>")
}

// cell makes text safe for a cell: a core's words may be in it.
func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "<", "&lt;", "\n", " ").Replace(text)
}

// summary is the table in one line.
func (t wallTable) summary() string {
	reported, silent := 0, []string{}
	for _, r := range t {
		if len(r.reports) > 0 {
			reported++
		} else {
			silent = append(silent, r.wall.ID)
		}
	}
	text := fmt.Sprintf("%d settings taken away one at a time, %d reported", len(t), reported)
	if len(silent) > 0 {
		text += ", silent: " + strings.Join(silent, ", ")
	}
	return text
}
