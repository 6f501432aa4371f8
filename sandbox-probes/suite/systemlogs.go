package suite

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"glovebox/threat-model/evidence"
)

// Bounds on what jobs write into the logs of the system's own processes, whatever
// they do: on the average of many hostile jobs, and for a single line.
const (
	maxLinesOfJob  = 12
	maxBytesOfLine = 4096
)

// logs looks how much all jobs of this stage have made the system write.
func (w *whole) logs() error {
	c := evidence.Case{
		ID: systemPrefix + "log-lines", Title: "the lines that a job causes in the system's logs are bounded", Requirements: []string{"SBX-16"}, Threats: []string{"BOX-D2", "OPS-D1"},
		Tried: "every hostile job of this stage", Oracle: "the log files of server, worker, launcher and engine", Verdict: evidence.Held,
	}
	files, err := filepath.Glob(filepath.Join(w.system.LogsDir, "*.log"))
	if err != nil {
		return err
	}
	jobs := int(w.jobs.Load())
	lines, longest, where := 0, 0, ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read the system's logs: %w", err)
		}
		for line := range bytes.Lines(text) {
			lines++
			if len(line) > longest {
				longest, where = len(line), filepath.Base(file)
			}
		}
	}
	c.Detail = fmt.Sprintf("%d lines in %d files for %d jobs; the longest line has %d bytes (%s)", lines, len(files), jobs, longest, where)
	switch {
	case jobs == 0 || lines == 0:
		c.Verdict = evidence.Errored
	case lines > maxLinesOfJob*jobs || longest > maxBytesOfLine:
		c.Verdict = evidence.Breached
	}
	w.suite.file(c)
	return nil
}
