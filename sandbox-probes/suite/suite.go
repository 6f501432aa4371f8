// Package suite runs the probes in the sandbox and beside it, and writes what came
// of it as evidence. Stages are independent; each files its cases with the suite,
// which prints them as they come.
package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"glovebox/sandbox-probes/bundle"
	"glovebox/sandbox-probes/catalogue"
	"glovebox/sandbox-probes/posture"
	"glovebox/system/worker/probe"
	"glovebox/threat-model/evidence"
)

// Options say what to run.
type Options struct {
	Root     string    // the project's folder
	Short    bool      // the CI size
	Case     string    // only cases whose id contains it
	Seed     uint64    // of the bits that pairs of jobs try to pass
	Expected []byte    // expected.yaml
	Out      io.Writer // a line for each case
}

// Suite is one run.
type Suite struct {
	opts      Options
	bench     *probe.Bench
	program   string              // the bundle of all probes
	catalogue catalogue.Catalogue // what is wanted of the driver's stages
	jobs      catalogue.Catalogue // what is wanted as jobs of the whole system
	expected  posture.Expected
	random    *rand.Rand

	mu  sync.Mutex
	doc evidence.Document
}

// stage is one part of the suite.
type stage struct {
	name  string
	short bool // is run in the CI size too
	run   func(*Suite, context.Context) error
}

var stages = []stage{
	{"checks", true, (*Suite).checks},
	{"endings", true, (*Suite).endings},
	{"posture", true, (*Suite).posture},
	{"filter", true, (*Suite).filter},
	{"host-side", true, (*Suite).hostSide},
	{"accounting", true, (*Suite).accounting},
	{"pairs", true, (*Suite).pairs},
	{"walls", false, (*Suite).walls},
	{"contract", false, (*Suite).contract},
	{"system", false, (*Suite).system},
}

// Run runs the stages and returns the document. A stage that cannot do its work
// files an error, so that nothing unproven passes; the returned error is for what
// keeps the suite from running at all.
func Run(ctx context.Context, o Options) (evidence.Document, error) {
	s := &Suite{opts: o, random: rand.New(rand.NewPCG(o.Seed, 0))}
	s.doc = evidence.Document{Suite: "probes", Started: time.Now().UTC(), Seed: int64(o.Seed), Machine: evidence.Machine()}
	if err := s.open(ctx); err != nil {
		return s.doc, err
	}
	before, err := s.inventory()
	if err != nil {
		return s.doc, errors.Join(err, s.bench.Close())
	}
	for _, stage := range stages {
		if o.Short && !stage.short {
			continue
		}
		started := time.Now()
		if err := stage.run(s, ctx); err != nil {
			s.file(evidence.Case{ID: "stage/" + stage.name, Title: "the stage " + stage.name + " runs", Verdict: evidence.Errored, Detail: err.Error()})
		}
		if took := time.Since(started); took > 10*time.Millisecond { // else nothing of it was wanted
			fmt.Fprintf(o.Out, "            %s took %.1f s\n", stage.name, took.Seconds())
		}
	}
	s.hostUnchanged(before)
	closeErr := s.bench.Close()
	verdict, detail := evidence.Held, "no container, cgroup, mount or folder"
	if closeErr != nil {
		verdict, detail = evidence.Breached, closeErr.Error()
	}
	s.file(evidence.Case{ID: "host/nothing-left", Title: "nothing outlives its attempt", Requirements: []string{"SBX-12"}, Threats: []string{"BOX-D3"}, Tried: "all attempts of this suite",
		Oracle: "the engine's list, the cgroup trees, the slots' folder", Verdict: verdict, Detail: detail})
	return s.finish()
}

func (s *Suite) open(ctx context.Context) error {
	if os.Getuid() != 0 {
		return errors.New("the probes look at the sandbox from outside and run their controls with all rights: run them as root")
	}
	whole, err := catalogue.Load()
	if err != nil {
		return err
	}
	s.catalogue, s.jobs = whole.Select(s.opts.Case), whole.Select(strings.TrimPrefix(s.opts.Case, systemPrefix))
	if s.expected, err = posture.LoadExpected(s.opts.Expected); err != nil {
		return err
	}
	if s.program, err = bundle.Build(ctx, filepath.Join(s.opts.Root, "sandbox-probes/probes"), filepath.Join(s.opts.Root, "out/probes")); err != nil {
		return err
	}
	if s.bench, err = probe.Open(ctx); err != nil {
		return err
	}
	s.doc.ImageDigest, err = s.bench.ImageRef(s.program)
	return err
}

func (s *Suite) finish() (evidence.Document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.doc.SourceDigest, s.doc.Dirty, err = evidence.SourceDigest(s.opts.Root); err != nil {
		return s.doc, err
	}
	s.doc.Finished = time.Now().UTC()
	return s.doc, nil
}

// wants reports whether the case is to be run.
func (s *Suite) wants(id string) bool { return strings.Contains(id, s.opts.Case) }

// wantsStage reports whether any case whose id begins with prefix may be wanted.
func (s *Suite) wantsStage(prefix string) bool {
	return strings.Contains(prefix, s.opts.Case) || strings.HasPrefix(s.opts.Case, prefix)
}

// file adds a case and prints it.
func (s *Suite) file(c evidence.Case) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Verdict == evidence.Unavailable {
		c.Requirements = optional(c.Requirements)
	}
	s.doc.Cases = append(s.doc.Cases, c)
	fmt.Fprintf(s.opts.Out, "%-11s %-46s %s\n", c.Verdict, c.ID, c.Detail)
}

// optional keeps the ids that may be unavailable. What was not tried says nothing of
// the others, which further cases prove.
func optional(ids []string) []string {
	known, err := evidence.Requirements()
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !known[id].Optional })
}

// Count tells the number of cases by verdict.
func Count(d evidence.Document) map[evidence.Verdict]int {
	n := map[evidence.Verdict]int{}
	for _, c := range d.Cases {
		n[c.Verdict]++
	}
	return n
}

// parallel runs work for each of n items, two at a time, each in a slot of its
// own. The errors are joined.
func parallel(n int, work func(slot, i int) error) error {
	const workers = 2
	next := make(chan int)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for slot := range workers {
		wg.Go(func() {
			for i := range next {
				errs[i] = work(slot, i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	return errors.Join(errs...)
}

// limits are the small ones that every probe runs under.
func limits() probe.Limits {
	l := probe.Defaults()
	l.MemoryBytes, l.Pids = 64<<20, 16
	l.MaxInputBytes, l.MaxResultBytes = 1<<20, 1<<20
	l.Timeout = 15 * time.Second
	return l
}

// ids is a copy of requirements or threats, since cases are sorted and changed later.
func ids(of []string) []string { return slices.Clone(of) }
