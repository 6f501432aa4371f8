package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"glovebox/chaos/history"
	"glovebox/chaos/model"
)

// The drawing's measures, in units of the SVG's own.
const (
	drawWidth  = 1000.0
	labelWidth = 110.0
	laneHeight = 34.0
	barHeight  = 20.0
	axisHeight = 26.0
	shadeLabel = 14.0 // below the lanes, for the faults' numbers
)

// timeline is one job's history: who asked what, who held which token when, and
// which faults went on meanwhile.
type timeline struct {
	Job    string
	Height float64
	Base   float64 // of the faults' numbers
	Lanes  []lane
	Marks  []mark // of the axis
	Shades []bar  // faults, behind all lanes
}

type lane struct {
	Label string
	Y     float64
	Bars  []bar
	Dots  []dot
}

type bar struct {
	X, Y, Width, Height float64
	Class, Text, Title  string
}

type dot struct {
	X, Y, R      float64
	Class, Title string
}

type mark struct {
	X    float64
	Text string
}

// span maps times to the drawing.
type span struct{ from, until int64 }

func (s span) x(at int64) float64 {
	at = min(max(at, s.from), s.until)
	return tenth(labelWidth + (drawWidth-labelWidth)*float64(at-s.from)/float64(max(s.until-s.from, 1)))
}

// tenth rounds: more digits are only noise in the page.
func tenth(x float64) float64 { return math.Round(x*10) / 10 }

func (s span) bar(from, until int64, y float64) bar {
	x := s.x(from)
	return bar{X: x, Y: y, Width: max(tenth(s.x(until)-x), 2), Height: barHeight}
}

// marks are at most so many round times along the axis.
func (s span) marks() (all []mark) {
	const most = 10
	step := int64(time.Second)
	for _, n := range []int64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600} {
		if step = n * int64(time.Second); (s.until-s.from)/step <= most {
			break
		}
	}
	for at := (s.from/step + 1) * step; at < s.until; at += step {
		all = append(all, mark{s.x(at), time.Duration(at).String()})
	}
	return all
}

func drawTimeline(run model.Run, record history.Record, job string) timeline {
	t := timeline{Job: job}
	if job == "" {
		return t
	}
	since := func(at time.Time) int64 { return int64(at.Sub(run.Began)) }
	holdings := model.Holdings(record.Snapshot, job)
	s := span{math.MaxInt64, 0}
	var asked []history.Event
	keys := map[string]bool{}
	for _, e := range record.Events {
		if e.Job == job && e.Key != "" {
			keys[e.Key] = true
		}
	}
	for _, e := range record.Events {
		if e.Job == job || keys[e.Key] {
			asked = append(asked, e)
			s.from, s.until = min(s.from, e.Call), max(s.until, e.Call, e.Return)
		}
	}
	for _, h := range holdings {
		s.from, s.until = min(s.from, since(h.From)), max(s.until, since(h.From))
		if !h.Until.IsZero() {
			s.until = max(s.until, since(h.Until))
		}
	}
	margin := max((s.until-s.from)/40, int64(100*time.Millisecond))
	s = span{max(s.from-margin, 0), s.until + margin}

	users := lane{Label: "user", Y: axisHeight}
	for _, e := range asked {
		radius := 5.0
		if e.Op == history.Status {
			radius = 2 // there are many, and each says little
		}
		users.Dots = append(users.Dots, dot{s.x(e.Call), users.Y + barHeight/2, radius, string(e.Op) + " " + string(e.Outcome), fmt.Sprintf("%s  %s", time.Duration(e.Call).Round(time.Millisecond), e)})
	}
	t.Lanes = append(t.Lanes, users)
	t.Lanes = append(t.Lanes, holderLanes(s, holdings, since)...)
	t.Height = axisHeight + float64(len(t.Lanes))*laneHeight + shadeLabel
	t.Base = t.Height - 3
	t.Marks = s.marks()
	for i, r := range run.Rounds {
		until := max(r.Recovered, r.Heal, r.Broken)
		if !r.Done() || r.Inject > s.until || until < s.from {
			continue
		}
		broken, healing := s.bar(r.Inject, r.Heal, axisHeight-4), s.bar(r.Heal, until, axisHeight-4)
		for _, b := range []*bar{&broken, &healing} {
			b.Height, b.Title = t.Height-axisHeight+4, fmt.Sprintf("fault %d: %s; recovered in %s", i+1, strings.Join(r.Faults, " and "), round(r.Recovery()))
		}
		broken.Text, healing.Class = fmt.Sprint(i+1), "healing"
		t.Shades = append(t.Shades, healing, broken)
	}
	return t
}

// holderLanes is one lane for each worker that held the job.
func holderLanes(s span, holdings []model.Holding, since func(time.Time) int64) (lanes []lane) {
	var workers []string
	for _, h := range holdings {
		if !slices.Contains(workers, h.Worker) {
			workers = append(workers, h.Worker)
		}
	}
	slices.Sort(workers)
	for i, worker := range workers {
		l := lane{Label: worker, Y: axisHeight + float64(i+1)*laneHeight}
		for _, h := range holdings {
			if h.Worker != worker {
				continue
			}
			until, end := s.until, "still held"
			if !h.Until.IsZero() {
				until, end = since(h.Until), h.End
			}
			b := s.bar(since(h.From), until, l.Y)
			b.Class, b.Text = end, fmt.Sprint(h.Token)
			b.Title = fmt.Sprintf("%s held token %d for %s, ended by %s", h.Worker, h.Token, time.Duration(until-since(h.From)).Round(time.Millisecond), end)
			l.Bars = append(l.Bars, b)
		}
		lanes = append(lanes, l)
	}
	return lanes
}

// overview is the whole run: faults, and jobs that were completed meanwhile.
type overview struct {
	Height float64
	Marks  []mark
	Faults []bar
	Rates  []bar
	Most   int // completed in one slice of time
	Slice  time.Duration
}

const rateHeight = 60.0

func drawOverview(run model.Run, record history.Record) overview {
	s := span{0, int64(run.Ended.Sub(run.Began))}
	const slices = 150
	o := overview{Height: axisHeight + laneHeight + rateHeight, Marks: s.marks(), Slice: time.Duration(s.until / slices).Round(100 * time.Millisecond)}
	counts := make([]int, slices)
	for _, t := range record.Snapshot.Transitions {
		if at := int64(t.At.Sub(run.Began)); t.To == history.Completed && at >= 0 && at < s.until {
			n := at * slices / s.until
			counts[n]++
			o.Most = max(o.Most, counts[n])
		}
	}
	for n, count := range counts {
		if count == 0 {
			continue
		}
		b := s.bar(int64(n)*s.until/slices, int64(n+1)*s.until/slices, 0)
		b.Height = tenth(rateHeight * float64(count) / float64(o.Most))
		b.Y = tenth(o.Height - b.Height)
		b.Title = fmt.Sprintf("%d completed", count)
		o.Rates = append(o.Rates, b)
	}
	for i, r := range run.Rounds {
		if !r.Done() {
			continue
		}
		broken, healing := s.bar(r.Inject, r.Heal, axisHeight), s.bar(r.Heal, max(r.Recovered, r.Heal), axisHeight)
		broken.Class, healing.Class = "broken", "healing"
		if r.Recovered == 0 {
			healing = s.bar(r.Heal, s.until, axisHeight)
			healing.Class = "bad"
		}
		for _, b := range []bar{healing, broken} {
			b.Title = fmt.Sprintf("fault %d: %s; recovered in %s", i+1, strings.Join(r.Faults, " and "), round(r.Recovery()))
			o.Faults = append(o.Faults, b)
		}
	}
	return o
}
