package campaign

import (
	"fmt"
	"time"

	"glovebox/chaos/history"
)

// judge holds the restored system to what the lost one had answered before the
// backup, and leaves in the record what is younger than the restore.
func (f *failover) judge(record history.Record) history.Record {
	old, young := map[string]history.Job{}, history.Snapshot{Now: record.Snapshot.Now}
	for _, j := range record.Snapshot.Jobs {
		if j.CreatedAt.After(f.since) {
			young.Jobs = append(young.Jobs, j)
		} else {
			old[j.ID] = j
		}
	}
	claims, finishes := map[string]int{}, map[string][]history.Transition{}
	for _, t := range record.Snapshot.Transitions {
		if _, is := old[t.JobID]; !is {
			young.Transitions = append(young.Transitions, t)
			continue
		}
		switch {
		case t.Cause == history.Claimed:
			claims[t.JobID]++
		case t.Cause == history.Finished:
			finishes[t.JobID] = append(finishes[t.JobID], t)
		}
	}
	f.judgeOld(old, claims, finishes)
	record.Snapshot = young
	return record
}

func (f *failover) judgeOld(old map[string]history.Job, claims map[string]int, finishes map[string][]history.Transition) {
	bad := func(job, format string, args ...any) { f.finding("failover", job, fmt.Sprintf(format, args...)) }
	kept, done := 0, 0
	results := map[string]string{} // what users had been given before the loss
	for _, e := range f.lost.Events {
		if e.Op == history.Download && e.Outcome == history.OK {
			results[e.Job] = e.Digest
		}
	}
	lostAt := f.lost.Rules.Began.Add(time.Duration(f.backupAt))
	endedBefore, claimedBefore := map[string]bool{}, map[string]int{}
	for _, t := range f.lost.Snapshot.Transitions {
		if t.At.Before(lostAt) {
			endedBefore[t.JobID] = endedBefore[t.JobID] || t.To == history.Completed
			if t.Cause == history.Claimed {
				claimedBefore[t.JobID]++
			}
		}
	}
	for _, e := range f.lost.Events {
		if e.Op != history.Submit || e.Outcome != history.OK || e.Return > f.backupAt {
			continue
		}
		j, ok := old[e.Job]
		switch {
		case !ok:
			bad(e.Job, "acknowledged before the backup, and not there after the restore")
			continue
		case !history.Terminal(j.Status):
			bad(e.Job, "%s, long after the restore", j.Status)
		case j.Status == history.Completed && len(finishes[e.Job]) != 1:
			bad(e.Job, "completed %d times", len(finishes[e.Job]))
		case endedBefore[e.Job] && claims[e.Job] != claimedBefore[e.Job]:
			bad(e.Job, "completed before the backup, and claimed again after the restore")
		case j.Stored != "" && results[e.Job] != "" && j.Stored != results[e.Job]:
			bad(e.Job, "its result is another than the one its owner had before the loss")
		}
		kept++
		if endedBefore[e.Job] {
			done++
		}
	}
	for _, t := range finishes[f.impostor.Job] {
		if t.FencingToken < f.restored.TokenBase {
			bad(t.JobID, "completed under token %d, which the lost system can have given out", t.FencingToken)
		}
	}
	if len(finishes[f.impostor.Job]) == 0 {
		bad(f.impostor.Job, "the job that was in progress in the backup was never completed")
	}
	fmt.Fprintf(f.Out, "%d jobs had been acknowledged before the backup, %d of them completed; all were held to that\n", kept, done)
	if done == 0 {
		bad("", "no job had been completed before the backup: nothing was put to the test")
	}
}

// withoutOld leaves out what users of the restored system asked of jobs of the
// lost one: those are held to what they were before, elsewhere.
func withoutOld(events []history.Event, lost history.Record) []history.Event {
	was := map[string]bool{}
	for _, j := range lost.Snapshot.Jobs {
		was[j.ID] = true
	}
	var young []history.Event
	for _, e := range events {
		if !was[e.Job] {
			young = append(young, e)
		}
	}
	return young
}
