package slot_test

import (
	"slices"
	"testing"
	"time"

	"glovebox/system/worker/internal/container/enginetest"
)

// BenchmarkAttempt tells the latency of a whole attempt, from acquire to
// release, with a core that copies a line.
func BenchmarkAttempt(b *testing.B) {
	m := enginetest.Maker(b, enginetest.Podman(b), enginetest.Scripted(b), nil)
	var whole, run []time.Duration
	for b.Loop() {
		started := time.Now()
		a, err := m.Acquire(b.Context(), 0)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := a.Input().WriteString("copy\nhello"); err != nil {
			b.Fatal(err)
		}
		running := time.Now()
		if v, err := a.Run(b.Context()); err != nil || !v.Succeeded() {
			b.Fatalf("%+v, %v", v, err)
		}
		run = append(run, time.Since(running))
		if err := a.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		whole = append(whole, time.Since(started))
	}
	slices.Sort(whole)
	slices.Sort(run)
	b.ReportMetric(float64(whole[len(whole)/2].Microseconds())/1000, "ms-median")
	b.ReportMetric(float64(whole[len(whole)-1].Microseconds())/1000, "ms-worst")
	b.ReportMetric(float64(run[len(run)/2].Microseconds())/1000, "ms-run-median")
}
