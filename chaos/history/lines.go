package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// line is one line of a saved history: exactly one field is set. The order is
// rules, events, the snapshot, the end.
type line struct {
	Rules      *Rules      `json:"rules,omitempty"`
	Event      *Event      `json:"event,omitempty"`
	Now        *time.Time  `json:"now,omitempty"`
	Job        *Job        `json:"job,omitempty"`
	Transition *Transition `json:"transition,omitempty"`
	End        *ending     `json:"end,omitempty"`
}

// ending is the last line: what a whole file holds.
type ending struct {
	Events      int `json:"events"`
	Jobs        int `json:"jobs"`
	Transitions int `json:"transitions"`
}

func (r Record) ending() ending {
	return ending{Events: len(r.Events), Jobs: len(r.Snapshot.Jobs), Transitions: len(r.Snapshot.Transitions)}
}

func (l line) fields() (n int) {
	for _, set := range []bool{l.Rules != nil, l.Event != nil, l.Now != nil, l.Job != nil, l.Transition != nil, l.End != nil} {
		if set {
			n++
		}
	}
	return n
}

// Encode writes the record as JSON lines.
func Encode(w io.Writer, record Record) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	lines := []line{{Rules: &record.Rules}}
	for i := range record.Events {
		lines = append(lines, line{Event: &record.Events[i]})
	}
	lines = append(lines, line{Now: &record.Snapshot.Now})
	for i := range record.Snapshot.Jobs {
		lines = append(lines, line{Job: &record.Snapshot.Jobs[i]})
	}
	for i := range record.Snapshot.Transitions {
		lines = append(lines, line{Transition: &record.Snapshot.Transitions[i]})
	}
	end := record.ending()
	lines = append(lines, line{End: &end})
	for _, l := range lines {
		if err := enc.Encode(l); err != nil {
			return fmt.Errorf("write the history: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	return nil
}

// maxLine bounds a line of a saved history, in bytes.
const maxLine = 64 << 10

// Decode reads what Encode wrote. An unknown key, a line that is none or several
// of the kinds, and a history without rules, snapshot or end are errors: a file
// that was cut off must not pass for a short history.
func Decode(r io.Reader) (Record, error) {
	var (
		record    Record
		haveRules bool
		end       *ending
		in        = bufio.NewScanner(r)
	)
	in.Buffer(make([]byte, 4<<10), maxLine)
	for n := 1; in.Scan(); n++ {
		dec := json.NewDecoder(bytes.NewReader(in.Bytes()))
		dec.DisallowUnknownFields()
		var l line
		if err := dec.Decode(&l); err != nil {
			return Record{}, fmt.Errorf("line %d of the history: %w", n, err)
		}
		if l.fields() != 1 || dec.More() {
			return Record{}, fmt.Errorf("line %d of the history is not one of rules, event, now, job, transition, end", n)
		}
		switch {
		case l.Rules != nil:
			record.Rules, haveRules = *l.Rules, true
		case l.Event != nil:
			record.Events = append(record.Events, *l.Event)
		case l.Now != nil:
			record.Snapshot.Now = *l.Now
		case l.Job != nil:
			record.Snapshot.Jobs = append(record.Snapshot.Jobs, *l.Job)
		case l.Transition != nil:
			record.Snapshot.Transitions = append(record.Snapshot.Transitions, *l.Transition)
		case l.End != nil:
			end = l.End
		}
	}
	if err := in.Err(); err != nil {
		return Record{}, fmt.Errorf("read the history: %w", err)
	}
	if !haveRules || record.Snapshot.Now.IsZero() || end == nil || *end != record.ending() {
		return Record{}, errors.New("the history is not whole; it was cut off, or is another kind of file")
	}
	return record, nil
}
