package oracle

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Metrics are the series of one scrape: name with labels → value.
type Metrics map[string]float64

// Scrape reads a /metrics page in the Prometheus text form.
func Scrape(ctx context.Context, url string) (Metrics, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read the metrics: status %d", answer.StatusCode)
	}
	all := Metrics{}
	scanner := bufio.NewScanner(answer.Body)
	for scanner.Scan() {
		line := scanner.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		end := strings.LastIndexByte(line, ' ')
		if end < 0 {
			return nil, fmt.Errorf("read the metrics: %q is no series", line)
		}
		value, err := strconv.ParseFloat(line[end+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("read the metrics: %q has no value", line)
		}
		all[line[:end]] = value
	}
	return all, scanner.Err()
}

// Sum adds the series of a name whose labels hold every one of the given texts,
// as in Sum("x_total", `code="409"`).
func (m Metrics) Sum(name string, labels ...string) (sum float64) {
series:
	for series, value := range m {
		base, rest, _ := strings.Cut(series, "{")
		if base != name {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(rest, label) {
				continue series
			}
		}
		sum += value
	}
	return sum
}
