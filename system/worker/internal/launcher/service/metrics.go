package service

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"glovebox/system/worker/internal/container/selftest"
	"glovebox/system/worker/internal/container/verdict"
)

// Metrics are the launcher's figures. None has a label that a user's data could
// reach: the kinds of ends and the names of walls are closed lists.
type Metrics struct {
	total, available, unclean prometheus.Gauge
	ended                     *prometheus.CounterVec
	duration                  prometheus.Histogram
	walls                     *prometheus.GaugeVec

	poolSize, poolReady                                           prometheus.Gauge
	poolHits, poolMisses, poolRecycled, poolRebuilt, poolFailures prometheus.Counter
}

// NewMetrics registers the figures with r.
func NewMetrics(r prometheus.Registerer) *Metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "glovebox", Subsystem: "launcher", Name: name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "glovebox", Subsystem: "launcher", Name: name, Help: help})
	}
	m := &Metrics{
		poolSize:     gauge("pool_size", "Containers to be kept ready (sandbox.warm)."),
		poolReady:    gauge("pool_ready", "Containers that are ready."),
		poolHits:     counter("pool_hits_total", "Slots given out with a container that was ready."),
		poolMisses:   counter("pool_misses_total", "Slots that had to be waited for or made when asked for."),
		poolRecycled: counter("pool_recycled_total", "Ready containers replaced for their age."),
		poolRebuilt:  counter("pool_rebuilt_total", "Ready containers replaced because they or their engine had died."),
		poolFailures: counter("pool_failures_total", "Containers that could not be made ahead."),
		total:        gauge("slots", "Slots configured."),
		available:    gauge("slots_free", "Slots that can be acquired."),
		unclean:      gauge("slots_unclean", "Slots out of use because something of an attempt is left."),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "glovebox", Subsystem: "launcher", Name: "attempts_total", Help: "Attempts by the kind of their end.",
		}, []string{"kind"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "glovebox", Subsystem: "launcher", Name: "attempt_duration_seconds", Help: "From the core's start to its death.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 16),
		}),
		walls: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "glovebox", Subsystem: "launcher", Name: "wall_stands", Help: "1 if the last self-test ran into the wall.",
		}, []string{"wall"}),
	}
	r.MustRegister(m.total, m.available, m.unclean, m.ended, m.duration, m.walls,
		m.poolSize, m.poolReady, m.poolHits, m.poolMisses, m.poolRecycled, m.poolRebuilt, m.poolFailures)
	return m
}

func (m *Metrics) slots(total, available, unclean int) {
	m.total.Set(float64(total))
	m.available.Set(float64(available))
	m.unclean.Set(float64(unclean))
}

func (m *Metrics) attempt(kind verdict.Kind, took time.Duration) {
	m.ended.WithLabelValues(string(kind)).Inc()
	m.duration.Observe(took.Seconds())
}

func (m *Metrics) selfTest(r selftest.Report) {
	m.walls.Reset()
	for _, w := range r.Walls {
		stands := 0.0
		if w.Stands {
			stands = 1
		}
		m.walls.WithLabelValues(w.Name).Set(stands)
	}
}
