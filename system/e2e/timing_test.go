package e2e_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"glovebox/threat-model/evidence"
)

// The timing test. Requests of both kinds alternate in random order on one
// connection; two samples are taken for different when the Mann-Whitney statistic
// is beyond timingZ in each of timingRounds independent rounds. With no difference
// one round is beyond it by chance once in about 16,000 runs.
const (
	timingSamples = 600 // of each kind in a round
	timingZ       = 4.0
	timingRounds  = 2
	// timingDelay is the difference that the control plants, and which must be found.
	timingDelay = 2 * time.Millisecond
)

// mannWhitney returns the normal approximation of the rank-sum statistic: how many
// standard deviations the ranks of a lie from those of a sample like b. Durations
// in nanoseconds hardly tie; ties get their order by chance.
func mannWhitney(a, b []time.Duration) float64 {
	type observation struct {
		took time.Duration
		ofA  bool
	}
	var all []observation
	for _, d := range a {
		all = append(all, observation{d, true})
	}
	for _, d := range b {
		all = append(all, observation{d, false})
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	slices.SortStableFunc(all, func(x, y observation) int { return int(x.took - y.took) })
	var ranks float64
	for i, o := range all {
		if o.ofA {
			ranks += float64(i + 1)
		}
	}
	n, m := float64(len(a)), float64(len(b))
	u := ranks - n*(n+1)/2
	return (u - n*m/2) / math.Sqrt(n*m*(n+m+1)/12)
}

func TestMannWhitneyFindsADifferenceAndNoneInNoise(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	sample := func(shift float64) (s []time.Duration) {
		for range timingSamples {
			s = append(s, time.Duration(1e6*(1+random.ExpFloat64()+shift)))
		}
		return s
	}
	for range 50 {
		if z := mannWhitney(sample(0), sample(0)); math.Abs(z) > timingZ {
			t.Errorf("noise alone gives z = %.1f", z)
		}
	}
	if z := mannWhitney(sample(0.3), sample(0)); z < timingZ {
		t.Errorf("a third of the scale gives only z = %.1f", z)
	}
	if z := mannWhitney(sample(0), sample(0.3)); z > -timingZ {
		t.Errorf("the other way round it gives z = %.1f", z)
	}
}

func middle(d []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[len(sorted)/2]
}

// foreignJobsTest compares another user's job with a job that does not exist: the
// bytes, and the time.
func foreignJobsTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"AUT-06", "JOB-07", "API-03"},
		Tried:        "status, result and part of the result of another user's completed job and of random ids, in random order",
		Oracle: fmt.Sprintf("the bytes of the answers; Mann-Whitney over %d requests of each kind, |z| < %.0f in one of %d rounds; control: a planted delay of %s is found",
			timingSamples, timingZ, timingRounds, timingDelay),
	})
	alice, bob := w.people[0].caller(0), w.people[1].caller(0)
	id := alice.created("mine", []byte("nobody else's"))
	w.ended(t, id, "nobody else's")

	for _, path := range []string{"/api/v1/jobs/%s", "/api/v1/jobs/%s/result"} {
		for _, method := range []string{"GET", "HEAD"} {
			for _, extra := range [][]string{nil, {"Range", "bytes=0-3"}, {"If-None-Match", "*"}} {
				foreign := bob.do(method, fmt.Sprintf(path, id), nil, extra...)
				missing := bob.do(method, fmt.Sprintf(path, uuid.NewString()), nil, extra...)
				if foreign.status != missing.status || foreign.status < 400 || stable(foreign) != stable(missing) {
					t.Errorf("%s %s %v: foreign %d %s, missing %d %s", method, path, extra, foreign.status, stable(foreign), missing.status, stable(missing))
				}
			}
		}
	}
	for _, path := range []string{"/api/v1/jobs/%s", "/api/v1/jobs/%s/result"} {
		differ := 0
		for round := range timingRounds {
			z, foreign, missing := compareTimes(bob, path, id, 0)
			t.Logf("%s round %d: z = %.2f, medians %s and %s", path, round, z, foreign, missing)
			if math.Abs(z) >= timingZ {
				differ++
			}
		}
		if differ == timingRounds {
			t.Errorf("%s: a foreign job can be told from a missing one by time", path)
		}
	}
	if z, foreign, missing := compareTimes(bob, "/api/v1/jobs/%s", id, timingDelay); z < timingZ {
		t.Errorf("control: a planted delay of %s is not found: z = %.2f, medians %s and %s", timingDelay, z, foreign, missing)
	}
}

// compareTimes measures both kinds in random order. planted is added to each
// request for the foreign job.
func compareTimes(c caller, path, id string, planted time.Duration) (z float64, foreign, missing time.Duration) {
	c.t.Helper()
	measure := func(id string, planted time.Duration) time.Duration {
		began := time.Now()
		for planted > 0 && time.Since(began) < planted { // exact, where a sleep is not
		}
		a, err := c.try("GET", fmt.Sprintf(path, id), nil)
		if err != nil || a.status != http.StatusNotFound {
			c.t.Fatalf("status %d (%v)", a.status, err)
		}
		return time.Since(began)
	}
	for range 20 {
		measure(uuid.NewString(), 0) // warm
	}
	var f, m []time.Duration
	for range timingSamples {
		for _, isForeign := range [][2]bool{{true, false}, {false, true}}[rand.IntN(2)] {
			if isForeign {
				f = append(f, measure(id, planted))
			} else {
				m = append(m, measure(uuid.NewString(), 0))
			}
		}
	}
	return mannWhitney(f, m), middle(f), middle(m)
}

// stable is an answer without what differs from one request to the next.
func stable(a answer) string {
	header := a.header.Clone()
	for _, name := range []string{"Date", "X-Request-Id", "Glovebox-Request-Id", "Glovebox-Correlation-Id", "X-Correlation-Id"} {
		header.Del(name)
	}
	return fmt.Sprint(header) + " " + string(a.body)
}
