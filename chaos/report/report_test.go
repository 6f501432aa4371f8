package report

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"glovebox/chaos/history"
	"glovebox/chaos/model"
	"glovebox/threat-model/evidence"
)

// drawn is a run of one fault and one job that two workers had.
func drawn() (model.Run, history.Record) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	second := int64(time.Second)
	run := model.Run{Seed: 9, Began: began, Ended: at(60), Rounds: []model.Round{{
		Kinds: []string{"kill-worker"}, Titles: []string{"SIGKILL of a worker"}, Faults: []string{"kill <worker-0>"},
		Inject: 11 * second, Broken: 12 * second, Heal: 13 * second, Recovered: 20 * second,
	}}}
	record := history.Record{
		Events: []history.Event{
			{Op: history.Submit, Caller: "alice-0", User: "alice", Key: "k", Call: 9 * second, Outcome: history.Maybe},
			{Op: history.Submit, Caller: "alice-0", User: "alice", Key: "k", Job: "j", Call: 10 * second, Return: 11 * second, Outcome: history.OK},
		},
		Snapshot: history.Snapshot{Now: at(60), Jobs: []history.Job{{ID: "j", Status: history.Completed, CreatedAt: at(10), UpdatedAt: at(19)}}, Transitions: []history.Transition{
			{JobID: "j", From: history.Pending, To: history.Processing, Cause: history.Claimed, FencingToken: 1, WorkerID: "w1", At: at(11)},
			{JobID: "j", From: history.Processing, To: history.Pending, Cause: history.LeaseLost, FencingToken: 1, WorkerID: "w1", At: at(16)},
			{JobID: "j", From: history.Pending, To: history.Processing, Cause: history.Claimed, FencingToken: 2, WorkerID: "w2", At: at(17)},
			{JobID: "j", From: history.Processing, To: history.Completed, Cause: history.Finished, FencingToken: 2, WorkerID: "w2", At: at(19)},
		}},
	}
	return run, record
}

func TestTimelineShowsWhoHeldWhich(t *testing.T) {
	evidence.Proves(t, "HAR-06")
	run, record := drawn()
	line := drawTimeline(run, record, "j")
	if len(line.Lanes) != 3 || len(line.Lanes[0].Dots) != 2 || len(line.Shades) != 2 {
		t.Fatalf("%d lanes, %d dots, %d shades", len(line.Lanes), len(line.Lanes[0].Dots), len(line.Shades))
	}
	first, second := line.Lanes[1], line.Lanes[2]
	if first.Label != "w1" || first.Bars[0].Text != "1" || first.Bars[0].Class != history.LeaseLost || second.Label != "w2" || second.Bars[0].Text != "2" || second.Bars[0].Class != history.Finished {
		t.Errorf("lanes: %+v %+v", first, second)
	}
	if end := first.Bars[0].X + first.Bars[0].Width; end >= second.Bars[0].X {
		t.Errorf("token 1 ends at %.1f, token 2 begins at %.1f", end, second.Bars[0].X)
	}
}

// The page must need nothing beside itself, and its drawings must be well formed.
func TestPageIsSelfContained(t *testing.T) {
	evidence.Proves(t, "HAR-06")
	run, record := drawn()
	path := filepath.Join(t.TempDir(), "report.html")
	if err := Write(path, run, record, []history.Violation{{Rule: "recovered", Text: "<b>planted</b>"}}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for _, bad := range []string{"http:", "https:", "<script", "src=", "<link", "@import", "<b>planted"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	drawings := strings.Split(text, "<svg")[1:]
	if len(drawings) != 2 {
		t.Fatalf("%d drawings", len(drawings))
	}
	for _, rest := range drawings {
		body, _, _ := strings.Cut("<svg"+rest, "</svg>")
		dec := xml.NewDecoder(strings.NewReader(body + "</svg>"))
		for {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("a drawing is not well formed: %v", err)
			}
		}
	}
	if !strings.Contains(text, "violated</span></h1>") || !strings.Contains(text, "prefers-color-scheme: dark") {
		t.Error("the page does not say that the run was violated, or has no dark form")
	}
}
