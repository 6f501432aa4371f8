package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"glovebox/system/platform/metrics"
)

// figures are what the worker counts, for Prometheus. It is the jobs.Observer.
type figures struct {
	registry   *prometheus.Registry
	attempts   *prometheus.CounterVec
	busy       prometheus.Gauge
	heartbeats prometheus.Counter
}

func newFigures(slots int, certificateEnd func() time.Time) *figures {
	f := &figures{
		registry: metrics.NewRegistry(),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glovebox_worker_attempts_total",
			Help: "Attempts by how they ended: completed, lease_lost, or the failure code that was reported.",
		}, []string{"end"}),
		busy:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "glovebox_worker_slots_busy", Help: "Slots with an attempt."}),
		heartbeats: prometheus.NewCounter(prometheus.CounterOpts{Name: "glovebox_worker_heartbeat_failures_total", Help: "Heartbeats without a good answer."}),
	}
	total := prometheus.NewGauge(prometheus.GaugeOpts{Name: "glovebox_worker_slots", Help: "Slots of this worker."})
	total.Set(float64(slots))
	end := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "glovebox_worker_certificate_not_after_seconds", Help: "End of the certificate in use, in Unix time.",
	}, func() float64 { return float64(certificateEnd().Unix()) })
	f.registry.MustRegister(f.attempts, f.busy, f.heartbeats, total, end)
	return f
}

// AttemptEnded implements jobs.Observer.
func (f *figures) AttemptEnded(end string) { f.attempts.WithLabelValues(end).Inc() }

// SlotsBusy implements jobs.Observer.
func (f *figures) SlotsBusy(n int) { f.busy.Set(float64(n)) }

// HeartbeatFailed implements jobs.Observer.
func (f *figures) HeartbeatFailed() { f.heartbeats.Inc() }
