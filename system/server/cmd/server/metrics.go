package main

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"glovebox/system/platform/metrics"
	jobstore "glovebox/system/server/internal/jobs/adapters/postgres"
)

// figures are what the server counts, for Prometheus.
type figures struct {
	registry  *prometheus.Registry
	durations *prometheus.HistogramVec
}

func newFigures() *figures {
	f := &figures{
		registry: metrics.NewRegistry(),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "glovebox_http_request_duration_seconds",
			Help:    "Time from a request's header to its answer, bodies included.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 120},
		}, []string{"api", "route", "method", "status"}),
	}
	f.registry.MustRegister(f.durations)
	return f
}

// observe returns what an API calls for each request it answered.
func (f *figures) observe(api string) func(route, method string, status int, took time.Duration) {
	return func(route, method string, status int, took time.Duration) {
		f.durations.WithLabelValues(api, route, method, strconv.Itoa(status)).Observe(took.Seconds())
	}
}

// queueCollector asks the database when somebody scrapes, and only then.
type queueCollector struct {
	store                 *jobstore.Store
	free                  func() (int64, error)
	log                   *slog.Logger
	jobs, age, room, dead *prometheus.Desc
}

func newQueueCollector(store *jobstore.Store, free func() (int64, error), log *slog.Logger) *queueCollector {
	return &queueCollector{
		store: store, free: free, log: log,
		jobs: prometheus.NewDesc("glovebox_jobs", "Jobs that are not finished, by status.", []string{"status"}, nil),
		age:  prometheus.NewDesc("glovebox_queue_oldest_seconds", "How long the oldest pending job has waited.", nil, nil),
		room: prometheus.NewDesc("glovebox_storage_free_bytes", "Bytes that may still be stored above limits.min_free_bytes.", nil, nil),
		dead: prometheus.NewDesc("glovebox_jobs_dead_rows", "Dead rows of the jobs table; if they only grow, a session holds an old snapshot open.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *queueCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.jobs
	out <- c.age
	out <- c.room
	out <- c.dead
}

// Collect implements prometheus.Collector. A figure that cannot be had is left out.
func (c *queueCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if depth, err := c.store.Depth(ctx); err != nil {
		c.log.Warn("cannot measure the queue", "error", err)
	} else {
		out <- prometheus.MustNewConstMetric(c.jobs, prometheus.GaugeValue, float64(depth.Pending), "pending")
		out <- prometheus.MustNewConstMetric(c.jobs, prometheus.GaugeValue, float64(depth.Processing), "processing")
		out <- prometheus.MustNewConstMetric(c.age, prometheus.GaugeValue, depth.OldestPending.Seconds())
	}
	if dead, err := c.store.DeadRows(ctx); err != nil {
		c.log.Warn("cannot count dead rows", "error", err)
	} else {
		out <- prometheus.MustNewConstMetric(c.dead, prometheus.GaugeValue, float64(dead))
	}
	if free, err := c.free(); err != nil {
		c.log.Warn("cannot measure the free space", "error", err)
	} else {
		out <- prometheus.MustNewConstMetric(c.room, prometheus.GaugeValue, float64(free))
	}
}
