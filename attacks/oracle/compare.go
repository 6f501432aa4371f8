package oracle

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Comparison is what a test of two samples of times found.
type Comparison struct {
	// Shift is the probability that one of B is larger than one of A, less one
	// half: 0 where the two cannot be told apart, ±0.5 where they never overlap.
	Shift float64
	// P is how often chance alone makes a shift at least as large.
	P float64
}

// Differs says whether the two can be told apart: the shift is not chance (P below
// 1 in 1,000), and large enough to be of use to somebody who asks a thousand times
// (a tenth).
func (c Comparison) Differs() bool { return c.P < 0.001 && math.Abs(c.Shift) >= 0.1 }

// Compare is the Mann-Whitney test of two samples, two-sided, by permutation: no
// assumption is made about how the times are spread, and outliers count as ranks.
// The permutations come from rng, so that a run can be repeated.
func Compare(rng *rand.Rand, a, b []float64) Comparison {
	ranks := ranksOf(a, b)
	shift := func() float64 {
		var sum float64
		for _, r := range ranks[len(a):] {
			sum += r
		}
		n, m := float64(len(a)), float64(len(b))
		return (sum-m*(m+1)/2)/(n*m) - 0.5
	}
	found := Comparison{Shift: shift()}
	const rounds = 10_000
	extreme := 1 // the sample itself
	for range rounds {
		rng.Shuffle(len(ranks), func(i, j int) { ranks[i], ranks[j] = ranks[j], ranks[i] })
		if math.Abs(shift()) >= math.Abs(found.Shift)-1e-12 {
			extreme++
		}
	}
	found.P = float64(extreme) / (rounds + 1)
	return found
}

// ranksOf ranks both samples together, from 1; equal values share their mean rank.
func ranksOf(a, b []float64) []float64 {
	all := append(slices.Clone(a), b...)
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		switch {
		case all[i] < all[j]:
			return -1
		case all[i] > all[j]:
			return 1
		}
		return 0
	})
	ranks := make([]float64, len(all))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && all[order[j]] == all[order[i]] {
			j++
		}
		for k := i; k < j; k++ {
			ranks[order[k]] = float64(i+j+1) / 2
		}
		i = j
	}
	return ranks
}

// Median returns the middle of a sample.
func Median(sample []float64) float64 {
	sorted := slices.Sorted(slices.Values(sample))
	if len(sorted) == 0 {
		return math.NaN()
	}
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}
