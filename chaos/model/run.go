// Package model is what a chaos run was, without the system: its faults over time,
// what was seen from outside, and who held which job when. It is saved beside the
// history, so that a run can be judged and drawn again later.
package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"glovebox/chaos/history"
)

// The files of a saved run, in a folder named by its seed.
const (
	RunFile     = "run.json"
	HistoryFile = "history.jsonl"
)

// Run is one run. Times are nanoseconds on the history's clock.
type Run struct {
	Seed     uint64        `json:"seed"`
	Case     string        `json:"case"` // "" for all kinds at random
	Began    time.Time     `json:"began"`
	Ended    time.Time     `json:"ended"`
	Servers  int           `json:"servers"`
	Workers  int           `json:"workers"`
	Desks    int           `json:"desks"`
	Lease    time.Duration `json:"lease"`
	Retained time.Duration `json:"retained"` // how long results are kept
	Rounds   []Round       `json:"rounds"`

	// Findings are violations that were seen while it ran, by themselves.
	Findings []history.Violation `json:"findings"`
	// Restarted are processes that had ended by themselves, with their last words, and
	// were started again as their units would.
	Restarted []string `json:"restarted"`
	// Open is what the users were still waiting for when their patience ended.
	Open []string `json:"open"`
	// Leftovers are containers, cgroups, mounts, processes, slot folders and temporary
	// files that were there after everything had ended.
	Leftovers []string `json:"leftovers"`
	// Mismatches are rows without their file and files without a row, at the end.
	Mismatches []string `json:"mismatches"`
	// Quiet is that the system had come to rest before the last look.
	Quiet bool `json:"quiet"`
}

// Round is one fault, or two at once, and the recovery from it.
type Round struct {
	Kinds  []string `json:"kinds"`
	Titles []string `json:"titles"`
	Faults []string `json:"faults"` // in words, with whom and for how long

	Inject    int64 `json:"inject"`              // it begins to break
	Broken    int64 `json:"broken,omitempty"`    // it is broken
	Heal      int64 `json:"heal,omitempty"`      // the repair begins
	Recovered int64 `json:"recovered,omitempty"` // every server has taken a job and given its result; 0: never

	Unavailable string `json:"unavailable,omitempty"` // what the host lacks for it
	NotDone     string `json:"not_done,omitempty"`    // why it did not come to be broken
}

// Done reports whether the fault happened.
func (r Round) Done() bool { return r.Broken > 0 && r.NotDone == "" && r.Unavailable == "" }

// Recovery is the time from the beginning of the repair to health.
func (r Round) Recovery() time.Duration {
	if r.Recovered == 0 {
		return 0
	}
	return time.Duration(r.Recovered - r.Heal)
}

// Save writes run and record into dir.
func Save(dir string, run Run, record history.Record) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of the run: %w", err)
	}
	content, err := json.MarshalIndent(run, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, RunFile), append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("save the run: %w", err)
	}
	f, err := os.Create(filepath.Join(dir, HistoryFile))
	if err != nil {
		return fmt.Errorf("save the history: %w", err)
	}
	return errors.Join(history.Encode(f, record), f.Close())
}

// Load reads what Save wrote. path is the folder or the history in it; a history
// whose run is missing is refused, because without it half the checks are blind.
func Load(path string) (Run, history.Record, error) {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		path = filepath.Dir(path)
	}
	var run Run
	f, err := os.Open(filepath.Join(path, RunFile))
	if err != nil {
		return run, history.Record{}, fmt.Errorf("read the run: %w", err)
	}
	defer f.Close()
	dec := json.NewDecoder(f)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&run); err != nil {
		return run, history.Record{}, fmt.Errorf("read %s: %w", RunFile, err)
	}
	h, err := os.Open(filepath.Join(path, HistoryFile))
	if err != nil {
		return run, history.Record{}, fmt.Errorf("read the history: %w", err)
	}
	defer h.Close()
	record, err := history.Decode(h)
	return run, record, err
}
