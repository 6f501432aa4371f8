package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the worker's figures for Prometheus, on a loopback listener of
// their own. It is the jobs.Observer.
type metrics struct {
	registry   *prometheus.Registry
	attempts   *prometheus.CounterVec
	busy       prometheus.Gauge
	heartbeats prometheus.Counter
	listener   net.Listener
	server     *http.Server
}

func newMetrics(slots int, certificateEnd func() time.Time) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
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
	m.registry.MustRegister(m.attempts, m.busy, m.heartbeats, total, end,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// AttemptEnded implements jobs.Observer.
func (m *metrics) AttemptEnded(end string) { m.attempts.WithLabelValues(end).Inc() }

// SlotsBusy implements jobs.Observer.
func (m *metrics) SlotsBusy(n int) { m.busy.Set(float64(n)) }

// HeartbeatFailed implements jobs.Observer.
func (m *metrics) HeartbeatFailed() { m.heartbeats.Inc() }

// listen opens the listener; config has seen that it is loopback.
func (m *metrics) listen(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen for metrics (metrics.listen): %w", err)
	}
	m.listener = listener
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: 10 * time.Second}))
	m.server = &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 20 * time.Second,
		IdleTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10,
	}
	return nil
}

func (m *metrics) run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- m.server.Serve(m.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve metrics: %w", err)
	case <-ctx.Done():
		err := m.server.Close()
		<-served
		return err
	}
}

// close releases the listener where run never did.
func (m *metrics) close() {
	if m.listener == nil {
		return
	}
	if err := m.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return // nothing to be done about it at the end of the process
	}
}
