package oracle_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"glovebox/attacks/oracle"
)

// times are what a request may take: a floor, a spread, and now and then an outlier.
func times(rng *rand.Rand, n int, more float64) []float64 {
	sample := make([]float64, n)
	for i := range sample {
		sample[i] = 10 + math.Abs(rng.NormFloat64()) + more
		if rng.IntN(20) == 0 {
			sample[i] += 50 * rng.Float64()
		}
	}
	return sample
}

// Equal sources are told apart no more often than stated; a difference of half the
// spread always is.
func TestTimesAreToldApartWhereTheyDifferAndOnlyThere(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var wrong, missed int
	const rounds = 60
	for range rounds {
		if oracle.Compare(rng, times(rng, 100, 0), times(rng, 100, 0)).Differs() {
			wrong++
		}
		if c := oracle.Compare(rng, times(rng, 100, 0), times(rng, 100, 0.5)); !c.Differs() || c.Shift < 0 {
			missed++
		}
	}
	if wrong > 1 || missed > 3 {
		t.Errorf("of %d, equal ones were told apart %d times and different ones missed %d times", rounds, wrong, missed)
	}
	if c := oracle.Compare(rng, []float64{1, 2, 3}, []float64{4, 5, 6}); c.Shift != 0.5 {
		t.Errorf("without overlap the shift is %v", c.Shift)
	}
	if c := oracle.Compare(rng, []float64{1, 1, 1}, []float64{1, 1, 1}); c.Shift != 0 || c.P != 1 {
		t.Errorf("of equal values: %+v", c)
	}
	if m := oracle.Median([]float64{3, 1, 2, 10}); m != 2.5 {
		t.Errorf("the median is %v", m)
	}
}
