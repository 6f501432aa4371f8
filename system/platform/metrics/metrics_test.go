package metrics_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"glovebox/system/platform/metrics"
)

func TestServerTellsTheRegistryUntilItIsStopped(t *testing.T) {
	registry := metrics.NewRegistry()
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "glovebox_seen", Help: "A figure."})
	gauge.Set(7)
	registry.MustRegister(gauge)
	server, err := metrics.Listen("127.0.0.1:0", registry)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	url := "http://" + server.Addr().String()

	for path, want := range map[string]struct {
		status int
		text   string
	}{"/metrics": {200, "glovebox_seen 7"}, "/": {404, "404"}} {
		resp, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != want.status || !strings.Contains(string(body), want.text) {
			t.Errorf("GET %s: %d (%v), want %d with %q", path, resp.StatusCode, err, want.status, want.text)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the end by the context is an error: %v", err)
	}
	if err := server.Close(); err != nil {
		t.Errorf("close after the end: %v", err)
	}
	if _, err := http.Get(url + "/metrics"); err == nil {
		t.Error("it still answers after it was stopped")
	}
}

func TestATakenAddressNamesTheKey(t *testing.T) {
	first, err := metrics.Listen("127.0.0.1:0", metrics.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	_, err = metrics.Listen(first.Addr().String(), metrics.NewRegistry())
	if err == nil || !strings.Contains(err.Error(), "metrics.listen") {
		t.Errorf("%v, want a refusal that names metrics.listen", err)
	}
}
