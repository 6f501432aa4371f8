package validate

import (
	"cmp"
	"slices"
	"time"

	"glovebox/chaos/history"
	"glovebox/chaos/model"
)

// Summary is a run in figures.
type Summary struct {
	Operations int
	Maybe      int // whose answer was lost
	Refused    int
	Submitted  int // requests to submit
	Acked      int // jobs whose id a user was given
	Jobs       int // rows
	Completed  int
	Failed     int
	Attempts   int // claims
	LeasesLost int
	HandedBack int
	Retried    int
	Downloads  int // whole, and right
	Rounds     int
	Done       int
	Duration   time.Duration
	Worst      time.Duration // to recover
	WorstAfter string
	Kinds      []KindSummary
}

// KindSummary is the rounds of one kind of fault.
type KindSummary struct {
	Kind, Title string
	Done        int
	NotDone     int
	Recovered   int
	Worst       time.Duration
	Felt        int    // answers lost and leases run out between fault and recovery
	Why         string // why one was not done or not available
}

// Summarise counts.
func Summarise(run model.Run, record history.Record) Summary {
	s := Summary{Operations: len(record.Events), Jobs: len(record.Snapshot.Jobs), Rounds: len(run.Rounds), Duration: run.Ended.Sub(run.Began)}
	acked := map[string]bool{}
	for _, e := range record.Events {
		switch e.Outcome {
		case history.Maybe:
			s.Maybe++
		case history.Refused:
			s.Refused++
		}
		switch {
		case e.Op == history.Submit:
			s.Submitted++
			if e.Outcome == history.OK {
				acked[e.Job] = true
			}
		case e.Op == history.Download && e.Outcome == history.OK && e.Digest == e.Want:
			s.Downloads++
		}
	}
	s.Acked = len(acked)
	for _, j := range record.Snapshot.Jobs {
		switch j.Status {
		case history.Completed:
			s.Completed++
		case history.Failed:
			s.Failed++
		}
	}
	for _, t := range record.Snapshot.Transitions {
		switch t.Cause {
		case history.Claimed:
			s.Attempts++
		case history.LeaseLost, history.Exhausted:
			s.LeasesLost++
		case history.HandedBack:
			s.HandedBack++
		case history.Retried:
			s.Retried++
		}
	}
	s.addRounds(run, record)
	return s
}

func (s *Summary) addRounds(run model.Run, record history.Record) {
	kinds := map[string]*KindSummary{}
	for _, r := range run.Rounds {
		if r.Done() {
			s.Done++
		}
		if took := r.Recovery(); took > s.Worst {
			s.Worst, s.WorstAfter = took, r.Faults[0]
		}
		for i, name := range r.Kinds {
			k := kinds[name]
			if k == nil {
				k = &KindSummary{Kind: name, Title: r.Titles[i]}
				kinds[name] = k
			}
			if !r.Done() {
				k.NotDone++
				k.Why = cmp.Or(r.Unavailable, r.NotDone)
				continue
			}
			k.Done++
			k.Felt += felt(run, record, r)
			if r.Recovered > 0 {
				k.Recovered++
			}
			k.Worst = max(k.Worst, r.Recovery())
		}
	}
	for _, k := range kinds {
		s.Kinds = append(s.Kinds, *k)
	}
	slices.SortFunc(s.Kinds, func(a, b KindSummary) int { return cmp.Compare(a.Kind, b.Kind) })
}

// felt counts the answers that were lost and the leases that ran out in a round.
func felt(run model.Run, record history.Record, r model.Round) (n int) {
	within := func(at int64) bool { return at >= r.Inject && at <= max(r.Recovered, r.Heal) }
	for _, e := range record.Events {
		if e.Outcome == history.Maybe && within(e.Call) {
			n++
		}
	}
	for _, t := range record.Snapshot.Transitions {
		if (t.Cause == history.LeaseLost || t.Cause == history.Exhausted) && within(int64(t.At.Sub(run.Began))) {
			n++
		}
	}
	return n
}
