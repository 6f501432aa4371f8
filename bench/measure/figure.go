// Package measure takes pairs of figures, ours beside a peer's, in one run: the
// machine's other work then falls on both.
package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// MinRuns is the least number of runs of a figure.
const MinRuns = 7

// Which way a figure is good.
const (
	Lower  = "lower"
	Higher = "higher"
)

// Figure is one measured pair: medians, and ratio = ours / peer.
type Figure struct {
	Name     string  `json:"name"`
	Unit     string  `json:"unit"`
	Better   string  `json:"better"`
	Ours     float64 `json:"ours"`
	Peer     float64 `json:"peer"`
	PeerName string  `json:"peer_name"`
	Ratio    float64 `json:"ratio"`
	Runs     int     `json:"runs"`
}

// Document is out/bench/CASE.json.
type Document struct {
	Case    string            `json:"case"`
	Machine map[string]string `json:"machine"`
	Figures []Figure          `json:"figures"`
}

// Validate returns every fault of the document, joined.
func (d Document) Validate() error {
	var errs []error
	if d.Case == "" || len(d.Figures) == 0 {
		errs = append(errs, errors.New("no case or no figure"))
	}
	seen := map[string]bool{}
	for _, f := range d.Figures {
		fault := func(what string) { errs = append(errs, fmt.Errorf("figure %q: %s", f.Name, what)) }
		if f.Name == "" || seen[f.Name] {
			fault("the name is empty or stands twice")
		}
		seen[f.Name] = true
		if f.Better != Lower && f.Better != Higher {
			fault("better is neither lower nor higher")
		}
		if f.Unit == "" || f.PeerName == "" {
			fault("no unit or no peer")
		}
		if f.Runs < MinRuns {
			fault(fmt.Sprintf("%d runs, %d are the least", f.Runs, MinRuns))
		}
		if !(f.Ours > 0) || !(f.Peer > 0) || math.IsInf(f.Ours, 0) || math.IsInf(f.Peer, 0) {
			fault("a value is not a positive number")
		} else if math.Abs(f.Ratio-f.Ours/f.Peer) > 1e-9*f.Ratio {
			fault("the ratio is not ours / peer")
		}
	}
	return errors.Join(errs...)
}

// Write validates the document and replaces the file at path with it.
func (d Document) Write(path string) error {
	if err := d.Validate(); err != nil {
		return fmt.Errorf("figures of case %s are not valid: %w", d.Case, err)
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the folder of figures: %w", err)
	}
	if err := os.WriteFile(path+".part", append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	return os.Rename(path+".part", path)
}

// Median is the middle value, or the mean of the two middle ones. It panics without
// values: a figure of nothing is a programming error.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
