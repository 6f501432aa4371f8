package measure

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5}, {[]float64{7, 7, 1e9, 7, 0}, 7}} {
		given := slices.Clone(test.values)
		if got := Median(test.values); got != test.want {
			t.Errorf("%v: %v, wanted %v", test.values, got, test.want)
		}
		if !slices.Equal(given, test.values) {
			t.Errorf("%v was put in order in place", given)
		}
	}
}

func TestPairTakesInTurnAndDividesOursByThePeers(t *testing.T) {
	var order strings.Builder
	next := map[string][]float64{"o": {100, 1, 2, 3, 4, 5, 6, 7}, "p": {900, 2, 4, 6, 8, 10, 12, 14}}
	take := func(name string) Take {
		return func(context.Context) (float64, error) {
			order.WriteString(name)
			value := next[name][0]
			next[name] = next[name][1:]
			return value, nil
		}
	}
	f, err := Pair{Name: "x", Unit: "ms", Better: Lower, Ours: take("o"), Peer: take("p"), PeerName: "peer", Runs: 7}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if order.String() != "oppooppooppooppo" {
		t.Errorf("taken in the order %s", order.String())
	}
	if f.Ours != 4 || f.Peer != 8 || f.Ratio != 0.5 || f.Runs != 7 {
		t.Errorf("%+v: the first run of each must not count", f)
	}
}

func TestPairEndsAtAnError(t *testing.T) {
	bad := errors.New("bad")
	_, err := Pair{Name: "x", PeerName: "peer", Runs: 7, Ours: func(context.Context) (float64, error) { return 1, nil },
		Peer: func(context.Context) (float64, error) { return 0, bad }}.Run(t.Context())
	if !errors.Is(err, bad) || !strings.Contains(err.Error(), "x, peer") {
		t.Errorf("error is %v", err)
	}
}

func TestMeanAndRate(t *testing.T) {
	var calls atomic.Int64
	work := func(context.Context) error {
		calls.Add(1)
		time.Sleep(2 * time.Millisecond) // what is measured takes time, or it is no measurement
		return nil
	}
	if got, err := Mean(5, work)(t.Context()); err != nil || calls.Load() != 5 || got < 2 {
		t.Errorf("mean of %d calls: %v ms, %v", calls.Load(), got, err)
	}
	calls.Store(0)
	if got, err := Rate(2, 11, work)(t.Context()); err != nil || calls.Load() != 11 || got <= 0 || got > 1000 {
		t.Errorf("rate of %d calls: %v, %v", calls.Load(), got, err)
	}
	bad := errors.New("bad")
	if _, err := Rate(2, 4, func(context.Context) error { return bad })(t.Context()); !errors.Is(err, bad) {
		t.Errorf("error is %v", err)
	}
}

func TestDocumentRefusesDoubtfulFigures(t *testing.T) {
	good := func() Document {
		return Document{Case: "x", Figures: []Figure{{Name: "a", Unit: "ms", Better: Lower, Ours: 1, Peer: 2, PeerName: "p", Ratio: 0.5, Runs: 7}}}
	}
	if err := good().Write(filepath.Join(t.TempDir(), "bench/x.json")); err != nil {
		t.Fatalf("control: %v", err)
	}
	for name, spoil := range map[string]func(*Document){
		"no figures":      func(d *Document) { d.Figures = nil },
		"no case":         func(d *Document) { d.Case = "" },
		"too few runs":    func(d *Document) { d.Figures[0].Runs = 6 },
		"no direction":    func(d *Document) { d.Figures[0].Better = "" },
		"nothing ours":    func(d *Document) { d.Figures[0].Ours = 0 },
		"turned round":    func(d *Document) { d.Figures[0].Ratio = 2 },
		"no peer's name":  func(d *Document) { d.Figures[0].PeerName = "" },
		"the name twice":  func(d *Document) { d.Figures = append(d.Figures, d.Figures[0]) },
		"not even a unit": func(d *Document) { d.Figures[0].Unit = "" },
	} {
		d := good()
		spoil(&d)
		if d.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestMissedKnowsBothDirections(t *testing.T) {
	figures := []Figure{{Name: "time", Better: Lower, Ratio: 0.9}, {Name: "rate", Better: Higher, Ratio: 1.5}}
	if got := Missed(figures, map[string]float64{"time": 1, "rate": 1.5}); len(got) != 0 {
		t.Errorf("reached, and missed: %v", got)
	}
	if got := Missed(figures, map[string]float64{"time": 0.8, "rate": 1.6, "another": 1}); len(got) != 3 {
		t.Errorf("missed: %v", got)
	}
	if table := Table(figures, map[string]float64{"rate": 1.5}); !strings.Contains(table, "at least 1.50") {
		t.Error(table)
	}
}
