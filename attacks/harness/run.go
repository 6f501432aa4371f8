package harness

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	mathrand "math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"glovebox/ci/local"
	"glovebox/threat-model/evidence"
)

// Options say what to run, against what, and where to tell of it.
type Options struct {
	Root     string
	Families []Family
	Cases    []string // globs over ids, or names of families; none is all
	Seed     uint64
	Short    bool    // leave slow cases out
	Endpoint string  // an endpoint.json that stands for the world Main
	Target   *Target // a deployed system: safe cases only
	Lanes    int     // cases at once; 0: 6, on a target 1
	PortBase int     // of the systems it starts; 0: PortBase
	JSON     bool    // one evidence case a line, in place of the pleasant form
	Color    bool
	Out      io.Writer
}

// errInterrupted tells that the run did not come to its end.
var errInterrupted = errors.New("interrupted")

// Select returns the chosen cases; a pattern that fits none is an error.
func Select(families []Family, patterns []string, target, short bool) ([]*Case, error) {
	var chosen []*Case
	used := make([]bool, len(patterns))
	for i := range families {
		f := &families[i]
		for j := range f.Cases {
			c := &f.Cases[j]
			wanted := len(patterns) == 0
			for k, p := range patterns {
				ok, err := path.Match(p, c.ID)
				if err != nil {
					return nil, fmt.Errorf("%q is not a pattern: %w", p, err)
				}
				if ok || p == f.Name {
					wanted, used[k] = true, true
				}
			}
			if wanted && (!target || c.Safe) && !(short && c.Slow && len(patterns) == 0) {
				chosen = append(chosen, c)
			}
		}
	}
	for k, p := range patterns {
		if !used[k] {
			return nil, fmt.Errorf("no case fits %q; glovebox-attack list shows them", p)
		}
	}
	if len(chosen) == 0 {
		return nil, errors.New("no case is left to run")
	}
	return chosen, nil
}

// Run runs the chosen cases world by world and returns their evidence.
func Run(ctx context.Context, o Options) (evidence.Document, error) {
	doc := evidence.Document{Suite: "attacks", Started: time.Now().UTC(), Machine: evidence.Machine(), Seed: int64(o.Seed)}
	chosen, err := Select(o.Families, o.Cases, o.Target != nil, o.Short)
	if err != nil {
		return doc, err
	}
	if o.PortBase == 0 {
		o.PortBase = PortBase
	}
	unlock, err := lock(o)
	if err != nil {
		return doc, err
	}
	defer unlock()
	r := &runner{o: o, show: newPrinter(o)}
	r.show.begin(chosen)
	for _, world := range inOrder(chosen) {
		cases := slices.DeleteFunc(slices.Clone(chosen), func(c *Case) bool { return worldOf(c) != world })
		if err := r.inWorld(ctx, world, cases); err != nil {
			return doc, err
		}
		if ctx.Err() != nil {
			return doc, errInterrupted
		}
	}
	r.show.end(r.outcomes)
	for _, out := range r.outcomes {
		doc.Cases = append(doc.Cases, out.evidence())
	}
	slices.SortFunc(doc.Cases, func(a, b evidence.Case) int { return compare(a.ID, b.ID) })
	doc.Finished = time.Now().UTC()
	doc.ImageDigest = imageDigest(o.Root)
	if doc.SourceDigest, doc.Dirty, err = evidence.SourceDigest(o.Root); err != nil && o.Target == nil {
		return doc, err
	}
	return doc, nil
}

// lock keeps two runs from having the same systems: each clears what an earlier one
// left, and would clear the other's.
func lock(o Options) (unlock func(), err error) {
	if o.Target != nil {
		return func() {}, nil
	}
	dir := filepath.Join(o.Root, "out")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, instance("run", o.PortBase)+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil { //nolint:gosec // a descriptor is small
		return nil, errors.Join(errors.New("another run is under way; wait for it, or give this one --port-base"), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

// imageDigest is the core image's, "" where none was built here.
func imageDigest(root string) string {
	var image struct {
		Digest string `json:"digest"`
	}
	content, err := os.ReadFile(filepath.Join(root, "out/images/core.json"))
	if err != nil || json.Unmarshal(content, &image) != nil {
		return ""
	}
	return image.Digest
}

func worldOf(c *Case) string {
	if c.World == "" {
		return Main
	}
	return c.World
}

// inOrder lists the worlds that the cases need, Main first.
func inOrder(cases []*Case) []string {
	var names []string
	for _, w := range worlds {
		if slices.ContainsFunc(cases, func(c *Case) bool { return worldOf(c) == w.name }) {
			names = append(names, w.name)
		}
	}
	return names
}

// runner holds what a run has come to.
type runner struct {
	o    Options
	show *printer

	mu       sync.Mutex
	outcomes []Outcome
}

// inWorld starts the world, runs its cases and stops it.
func (r *runner) inWorld(ctx context.Context, world string, cases []*Case) (err error) {
	s, stop, err := r.open(ctx, world)
	if err != nil {
		return err
	}
	defer func() {
		s.close()
		err = errors.Join(err, stop())
	}()
	lanes := r.o.Lanes
	if lanes == 0 {
		lanes = 6
	}
	if s.target {
		lanes = 1 // its two users are in every case
	}
	var together, alone []*Case
	for _, c := range cases {
		if c.Serial {
			alone = append(alone, c)
		} else {
			together = append(together, c)
		}
	}
	r.together(ctx, s, together, lanes)
	for _, c := range alone {
		r.one(ctx, s, c, 0)
	}
	return nil
}

// open returns the world and what ends it.
func (r *runner) open(ctx context.Context, world string) (*System, func() error, error) {
	nothing := func() error { return nil }
	switch {
	case r.o.Target != nil:
		s, err := r.o.Target.open()
		if err != nil {
			return nil, nil, err
		}
		return s, func() error { return s.leave(context.WithoutCancel(ctx)) }, nil
	case r.o.Endpoint != "" && world == Main:
		e, err := readEndpoint(r.o.Endpoint)
		if err != nil {
			return nil, nil, err
		}
		s, err := fromEndpoint(world, e)
		return s, nothing, err
	}
	// A run that was cut off may have left its system.
	if err := local.DownAt(r.o.Root, instance(world, r.o.PortBase)); err != nil {
		r.show.say("what an earlier run left: %v", err)
	}
	began := time.Now()
	s, err := start(ctx, r.o.Root, world, r.o.PortBase, func(step string) { r.show.starting(world, step) })
	if err != nil {
		return nil, nil, err
	}
	r.show.started(s, time.Since(began))
	return s, s.Processes.Down, nil
}

// together runs cases several at once; those of one lock one after another.
func (r *runner) together(ctx context.Context, s *System, cases []*Case, lanes int) {
	var mu sync.Mutex
	held := map[string]bool{}
	waiting := slices.Clone(cases)
	free := sync.NewCond(&mu)
	next := func() *Case {
		mu.Lock()
		defer mu.Unlock()
		for {
			if len(waiting) == 0 || ctx.Err() != nil {
				return nil
			}
			for i, c := range waiting {
				if c.Lock == "" || !held[c.Lock] {
					held[c.Lock] = true
					waiting = slices.Delete(waiting, i, i+1)
					return c
				}
			}
			free.Wait()
		}
	}
	done := func(c *Case) {
		mu.Lock()
		defer mu.Unlock()
		held[c.Lock] = false
		free.Broadcast()
	}
	var wg sync.WaitGroup
	for lane := range lanes {
		wg.Go(func() {
			for c := next(); c != nil; c = next() {
				r.one(ctx, s, c, lane)
				done(c)
			}
		})
	}
	wg.Wait()
}

func (r *runner) one(ctx context.Context, s *System, c *Case, lane int) {
	if ctx.Err() != nil {
		return
	}
	o := newEnv(ctx, s, c, r.o.Seed, lane).run()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes = append(r.outcomes, o)
	r.show.outcome(o)
}

func newEnv(ctx context.Context, s *System, c *Case, seed uint64, lane int) *Env {
	ctx, cancel := context.WithTimeout(ctx, caseTimeout)
	sum := fnv.New64a()
	_, _ = io.WriteString(sum, c.ID) // a hash does not fail
	e := &Env{
		System: s, Case: c, Rand: mathrand.New(mathrand.NewPCG(seed, sum.Sum64())), //nolint:gosec // repeatable on purpose
		ctx: ctx, cancel: cancel, tape: &tape{}, lane: lane, began: time.Now(), conns: map[string]*Conn{},
	}
	if s.target {
		// Whatever way a case logs in, its token is revoked at the end.
		e.tape.given = s.toRevoke
	} else {
		// Every case is a client of its own: limits by address do not join them.
		var b [3]byte
		_, _ = rand.Read(b[:]) // never fails
		e.source = fmt.Sprintf("127.%d.%d.%d", 1+b[0]%250, b[1], 1+b[2]%250)
	}
	return e
}

// evidence is the outcome in the one form of every suite.
func (o Outcome) evidence() evidence.Case {
	return evidence.Case{
		ID: o.Case.ID, Title: o.Case.Title, Requirements: o.Case.Requirements, Threats: o.Case.Threats,
		Tried: o.Case.Attack + "; control: " + o.Case.Control, Oracle: o.Case.Oracle,
		Verdict: o.Verdict, Detail: clip(o.Detail, 2000), DurationMS: o.Took.Milliseconds(),
	}
}
