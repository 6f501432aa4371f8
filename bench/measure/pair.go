package measure

import (
	"context"
	"fmt"
	"time"
)

// Take measures one value.
type Take func(context.Context) (float64, error)

// Pair says what is measured beside what.
type Pair struct {
	Name, Unit, Better string
	Ours               Take
	Peer               Take
	PeerName           string
	Runs               int // of each, MinRuns or more
}

// warmUps are runs of both that do not count: caches, lazy parts.
const warmUps = 1

// Run takes ours and the peer's in turn, each first in every second run, and
// returns the medians. An error of either ends it: a figure of runs that failed
// would be of something else.
func (p Pair) Run(ctx context.Context) (Figure, error) {
	f := Figure{Name: p.Name, Unit: p.Unit, Better: p.Better, PeerName: p.PeerName, Runs: p.Runs}
	var values [2][]float64
	takes := [2]Take{p.Ours, p.Peer}
	for run := range warmUps + p.Runs {
		for i := range takes {
			which := (run + i) % 2
			value, err := takes[which](ctx)
			if err != nil {
				return f, fmt.Errorf("%s, %s: %w", p.Name, [2]string{"ours", p.PeerName}[which], err)
			}
			if run >= warmUps {
				values[which] = append(values[which], value)
			}
		}
	}
	f.Ours, f.Peer = Median(values[0]), Median(values[1])
	f.Ratio = f.Ours / f.Peer
	return f, nil
}

// Milliseconds is a duration as the unit "ms" has it.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Mean makes a Take that does work n times without a pause and gives the mean
// duration in milliseconds: what one costs when the next one waits for it.
func Mean(n int, work func(context.Context) error) Take {
	return func(ctx context.Context) (float64, error) {
		started := time.Now()
		for range n {
			if err := work(ctx); err != nil {
				return 0, err
			}
		}
		return Milliseconds(time.Since(started)) / float64(n), nil
	}
}

// Rate makes a Take that lets several callers at once do work n times in all, and
// gives how many were done in a second.
func Rate(callers, n int, work func(context.Context) error) Take {
	return func(ctx context.Context) (float64, error) {
		started := time.Now()
		next := make(chan struct{}, n)
		for range n {
			next <- struct{}{}
		}
		close(next)
		failed := make(chan error, callers)
		for range callers {
			go func() {
				for range next {
					if err := work(ctx); err != nil {
						failed <- err
						return
					}
				}
				failed <- nil
			}()
		}
		var first error
		for range callers {
			if err := <-failed; err != nil && first == nil {
				first = err
			}
		}
		return float64(n) / time.Since(started).Seconds(), first
	}
}
