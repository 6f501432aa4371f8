// Package campaign runs chaos: it starts the system, lets users work on it, breaks
// things one after another, waits after each for recovery, lets everything come to
// rest, and keeps what happened. Exploratory runs by seed and named cases are the
// same runner with another plan.
package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"glovebox/chaos/fault"
	"glovebox/chaos/history"
	"glovebox/chaos/model"
	"glovebox/chaos/rig"
	"glovebox/chaos/traffic"
)

// Options of a campaign.
type Options struct {
	Root     string
	Name     string
	PortBase int
	Seed     uint64
	Plan     Plan
	Out      io.Writer
	Desks    int           // users at work at once
	Think    time.Duration // at most so long a desk rests between bursts
	Retain   time.Duration // retention.duration
}

// The bench. Two servers and three workers at once are the default of every run.
const (
	servers, workers = 2, 3
	storageBytes     = 512 << 20
)

// Bounds of the waits.
const (
	recoverTime = 90 * time.Second  // after a fault
	drainTime   = 120 * time.Second // for the users, at the end
	restTime    = 60 * time.Second  // for orphans to be swept and slots to be given back
	healTime    = 60 * time.Second
	injectTime  = 3 * fault.GraceTime
)

// campaign is a run under way.
type campaign struct {
	Options
	rig      *rig.Rig
	recorder *traffic.Recorder
	scene    *fault.Scene
	run      model.Run
	mu       sync.Mutex // guards run.Findings
}

// Run does the whole of it and returns what is to be judged.
func Run(ctx context.Context, o Options) (run model.Run, record history.Record, err error) {
	c, err := begin(ctx, o)
	if err != nil {
		return run, record, err
	}
	defer func() { err = errors.Join(err, closeRig(c.rig)) }()
	if err := c.work(ctx); err != nil {
		return c.run, record, err
	}
	record, err = c.lastLook(ctx)
	c.run.Ended = time.Now()
	return c.run, record, err
}

// begin starts the system.
func begin(ctx context.Context, o Options) (*campaign, error) {
	r, err := rig.Start(ctx, rig.Options{
		Root: o.Root, Name: o.Name, PortBase: o.PortBase, Servers: servers, Workers: workers, Storage: storageBytes, Retention: o.Retain,
		Progress: func(step string) { fmt.Fprintln(o.Out, "  "+step) },
	})
	if err != nil {
		return nil, err
	}
	c := &campaign{Options: o, rig: r, recorder: traffic.NewRecorder()}
	c.run = model.Run{
		Seed: o.Seed, Case: o.Plan.Name, Began: c.recorder.Began(), Servers: servers, Workers: workers, Desks: o.Desks, Lease: rig.Lease, Retained: o.Retain,
	}
	return c, nil
}

func closeRig(r *rig.Rig) error {
	if err := r.Close(); err != nil {
		return fmt.Errorf("stop the system: %w", err)
	}
	return nil
}

// users logs everybody in.
func (c *campaign) users(ctx context.Context) (people []*traffic.Client, err error) {
	trust, err := traffic.Trust(c.rig.CAFile)
	if err != nil {
		return nil, err
	}
	for i, user := range c.rig.Users {
		person := traffic.NewClient(user.Login, user.Login, c.rig.Public, trust, c.recorder)
		password, err := c.rig.Password(i)
		if err != nil {
			return nil, err
		}
		if err := person.Authenticate(ctx, password); err != nil {
			return nil, err
		}
		people = append(people, person)
	}
	return people, nil
}

// desks seats them.
func (c *campaign) desks(people []*traffic.Client) (desks []*traffic.Desk) {
	for i := range c.Desks {
		person := people[i%len(people)]
		desks = append(desks, traffic.NewDesk(person.Colleague(fmt.Sprintf("%s-%d", person.Login, i)), c.Seed, i, c.Think))
	}
	return desks
}

// work lets the desks work while the plan's faults happen.
func (c *campaign) work(ctx context.Context) error {
	people, err := c.users(ctx)
	if err != nil {
		return err
	}
	c.scene = c.newScene(people)
	begin, stop := context.WithCancel(ctx)
	defer stop()
	finish, giveUp := context.WithCancel(ctx)
	defer giveUp()
	var busy sync.WaitGroup
	var done int
	for _, desk := range c.desks(people) {
		busy.Go(func() {
			n, open := desk.Work(begin, finish)
			c.mu.Lock()
			defer c.mu.Unlock()
			done += n
			c.run.Open = append(c.run.Open, open...)
		})
	}
	planErr := c.rounds(ctx)
	stop()
	patience := time.AfterFunc(drainTime, giveUp)
	defer patience.Stop()
	busy.Wait()
	fmt.Fprintf(c.Out, "%d files came to their end\n", done)
	return planErr
}

// newScene gives the faults, and the looks at health, a desk of their own.
func (c *campaign) newScene(people []*traffic.Client) *fault.Scene {
	return &fault.Scene{Rig: c.rig, Bystander: people[len(people)-1].Colleague("bystander"), Random: rand.New(rand.NewPCG(c.Seed, 1<<32)), Report: c.finding}
}

// finding keeps a violation that a fault or a look saw.
func (c *campaign) finding(rule, job, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run.Findings = append(c.run.Findings, history.Violation{Rule: rule, Job: job, Text: text})
	fmt.Fprintf(c.Out, "   VIOLATION %s %s: %s\n", rule, job, text)
}

// rounds goes through the plan. A system that does not come back ends it.
func (c *campaign) rounds(ctx context.Context) error {
	if why := c.health(ctx); why != "" {
		return fmt.Errorf("the system is not healthy before the first fault: %s", why)
	}
	fmt.Fprintln(c.Out, "healthy; the faults begin")
	random := rand.New(rand.NewPCG(c.Seed, 2<<32))
	plan := c.Plan.start(random, c.rig)
	for n := 1; ctx.Err() == nil; n++ {
		kinds, ok := plan.next()
		if !ok {
			return nil
		}
		round := c.round(ctx, random, kinds)
		c.run.Rounds = append(c.run.Rounds, round)
		c.tell(n, round)
		if round.Done() && round.Recovered == 0 {
			return nil // judged by the rule recovered
		}
	}
	return ctx.Err()
}

func (c *campaign) tell(n int, r model.Round) {
	at := time.Duration(c.recorder.Now()).Round(time.Second)
	what := strings.Join(r.Faults, " and ")
	switch {
	case r.Unavailable != "":
		fmt.Fprintf(c.Out, "%4d %6s %s: UNAVAILABLE: %s\n", n, at, what, r.Unavailable)
	case r.NotDone != "":
		fmt.Fprintf(c.Out, "%4d %6s %s: not done: %s\n", n, at, what, r.NotDone)
	case r.Recovered == 0:
		fmt.Fprintf(c.Out, "%4d %6s %s: DID NOT RECOVER\n", n, at, what)
	default:
		fmt.Fprintf(c.Out, "%4d %6s %s: recovered in %s\n", n, at, what, r.Recovery().Round(10*time.Millisecond))
	}
}

// round breaks, waits, mends, and waits for health.
func (c *campaign) round(ctx context.Context, random *rand.Rand, kinds []fault.Kind) model.Round {
	var round model.Round
	var faults []fault.Fault
	for _, k := range kinds {
		f := k.Make(random, c.rig)
		faults = append(faults, f)
		round.Kinds, round.Titles, round.Faults = append(round.Kinds, k.Name), append(round.Titles, k.Title), append(round.Faults, f.String())
		if err := f.Available(c.rig); err != nil {
			round.Unavailable = err.Error()
		}
	}
	round.Inject = c.recorder.Now()
	if round.Unavailable != "" {
		return round
	}
	var hold time.Duration
	for i, f := range faults {
		injecting, cancel := context.WithTimeout(ctx, injectTime)
		err := f.Inject(injecting, c.scene)
		cancel()
		round.Faults[i] = f.String() // one that is aimed knows its victim now
		if err != nil {
			round.NotDone = err.Error()
			break
		}
		hold = max(hold, f.Hold())
	}
	if round.NotDone == "" {
		round.Broken = c.recorder.Now()
		lasts := time.NewTimer(hold) // the fault's own: how long it lasts
		if !slices.ContainsFunc(kinds, func(k fault.Kind) bool { return !k.GoesOn }) {
			c.goesOn(ctx, round.Faults)
		}
		select {
		case <-ctx.Done():
		case <-lasts.C:
		}
	}
	round.Heal = c.recorder.Now()
	// Links and disks first: what starts again needs them.
	slices.SortStableFunc(faults, func(a, b fault.Fault) int { return cmp.Compare(restarts(a), restarts(b)) })
	for _, f := range faults {
		healing, cancel := context.WithTimeout(ctx, healTime)
		err := f.Heal(healing, c.scene)
		cancel()
		if err != nil && round.NotDone == "" {
			c.finding("recovered", "", fmt.Sprintf("mend %s: %v", f, err))
		}
	}
	if why := c.health(ctx); why != "" {
		c.finding("recovered", "", fmt.Sprintf("after %s: %s", strings.Join(round.Faults, " and "), why))
		return round
	}
	round.Recovered = c.recorder.Now()
	return round
}

// restarts is 1 for a fault whose repair starts processes.
func restarts(f fault.Fault) int {
	if _, ok := f.(fault.Restarter); ok {
		return 1
	}
	return 0
}
