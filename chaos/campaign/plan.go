package campaign

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"glovebox/chaos/fault"
	"glovebox/chaos/rig"
)

// Plan says which faults come, and until when.
type Plan struct {
	Name     string        // of the case; "" for everything at random
	Rounds   int           // 0: as many as Duration allows
	Duration time.Duration // 0: as long as Rounds take
	// kinds are gone through in a new random order each time, or in this order.
	kinds   []fault.Kind
	inOrder bool
	pairs   bool // now and then two at once
}

// pairShare is how many rounds of a hundred have two faults at once.
const pairShare = 25

// AtRandom is every kind of fault in random order, again and again.
func AtRandom(rounds int, duration time.Duration) Plan {
	return Plan{Rounds: rounds, Duration: duration, kinds: fault.Kinds(), pairs: true}
}

// Named is a named regression, or all kinds whose name holds the word.
func Named(name string, rounds int, duration time.Duration) (Plan, error) {
	for _, c := range Cases() {
		if c.Name == name {
			if rounds == 0 && duration == 0 {
				rounds = len(c.Kinds)
			}
			return Plan{Name: name, Rounds: rounds, Duration: duration, kinds: c.Kinds, inOrder: true}, nil
		}
	}
	var kinds []fault.Kind
	for _, k := range fault.Kinds() {
		if strings.Contains(k.Name, name) {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) == 0 {
		var known []string
		for _, c := range Cases() {
			known = append(known, c.Name)
		}
		for _, k := range fault.Kinds() {
			known = append(known, k.Name)
		}
		return Plan{}, fmt.Errorf("CASE=%s is neither a case nor a part of a fault's name; there are: %s", name, strings.Join(known, " "))
	}
	if rounds == 0 && duration == 0 {
		rounds = len(kinds)
	}
	return Plan{Name: name, Rounds: rounds, Duration: duration, kinds: kinds}, nil
}

// Short is one fault of each group, drawn by the seed: over some seeds every kind
// has its turn, and every requirement of this suite is put to the test each time.
func Short(seed uint64) Plan {
	all := fault.Kinds()
	named := func(names ...string) (found []fault.Kind) {
		for _, k := range all {
			if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(k.Name, name) }) {
				found = append(found, k)
			}
		}
		return found
	}
	groups := [][]fault.Kind{
		named("kill-worker", "kill-launcher", "kill-everything", "kill-engine", "stop-engine"),
		named("stop-worker", "stop-server", "stop-launcher"),
		named("crash-finish"),
		named("crash-submit", "crash-sweep", "kill-sweeper", "kill-server"),
		named("kill-postgres", "restart-postgres", "end-sessions", "old-snapshot", "stop-postgres", "clock-", "stop-sweeper"),
		named("net-"),
		named("disk-full"),
		named("flip-input", "cut-input", "flip-result", "cut-result"),
		named("drain-worker"),
	}
	var kinds []fault.Kind
	for _, group := range groups {
		kinds = append(kinds, group[seed%uint64(len(group))])
	}
	return Plan{Rounds: len(kinds), kinds: kinds, inOrder: true}
}

// course is a plan under way.
type course struct {
	plan   Plan
	random *rand.Rand
	rig    *rig.Rig
	queue  []fault.Kind
	done   int
	until  time.Time
}

func (p Plan) start(random *rand.Rand, r *rig.Rig) *course {
	c := &course{plan: p, random: random, rig: r}
	if p.Duration > 0 {
		c.until = time.Now().Add(p.Duration)
	}
	return c
}

// next returns the kinds of the next round; ok is false when the plan is done.
func (c *course) next() (kinds []fault.Kind, ok bool) {
	if c.plan.Rounds > 0 && c.done >= c.plan.Rounds || !c.until.IsZero() && time.Now().After(c.until) {
		return nil, false
	}
	c.done++
	kinds = []fault.Kind{c.take()}
	if c.plan.pairs && !kinds[0].Alone && c.random.IntN(100) < pairShare {
		if second := c.take(); !second.Alone && second.Family != kinds[0].Family {
			kinds = append(kinds, second)
		}
	}
	return kinds, true
}

func (c *course) take() fault.Kind {
	if len(c.queue) == 0 {
		c.queue = slices.Clone(c.plan.kinds)
		if !c.plan.inOrder {
			c.random.Shuffle(len(c.queue), func(i, j int) { c.queue[i], c.queue[j] = c.queue[j], c.queue[i] })
		}
	}
	first := c.queue[0]
	c.queue = c.queue[1:]
	return first
}
