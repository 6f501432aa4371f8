package model

import (
	"cmp"
	"slices"
	"time"

	"glovebox/chaos/history"
)

// Holding is one attempt: a worker had the job, under a token, from a claim to
// whatever ended it.
type Holding struct {
	Worker string
	Token  int64
	From   time.Time
	Until  time.Time // zero: not ended
	End    string    // the cause
}

// Holdings returns who held the job, in order.
func Holdings(s history.Snapshot, job string) []Holding {
	var all []Holding
	for _, t := range s.Transitions {
		if t.JobID == job && t.Cause == history.Claimed {
			all = append(all, Holding{Worker: t.WorkerID, Token: t.FencingToken, From: t.At})
		}
	}
	for _, t := range s.Transitions {
		for i := range all {
			if t.JobID == job && t.From == history.Processing && t.FencingToken == all[i].Token {
				all[i].Until, all[i].End = t.At, t.Cause
			}
		}
	}
	slices.SortFunc(all, func(a, b Holding) int { return cmp.Compare(a.Token, b.Token) })
	return all
}

// MostContested is the job with the most attempts, and among equals the one that
// took longest: the one worth drawing.
func MostContested(s history.Snapshot) string {
	claims := map[string]int{}
	for _, t := range s.Transitions {
		if t.Cause == history.Claimed {
			claims[t.JobID]++
		}
	}
	best, most, longest := "", 0, time.Duration(0)
	for _, j := range s.Jobs {
		took := j.UpdatedAt.Sub(j.CreatedAt)
		if n := claims[j.ID]; n > most || n == most && took > longest {
			best, most, longest = j.ID, n, took
		}
	}
	return best
}
