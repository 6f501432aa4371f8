// Command chaos breaks the running system in every way it knows, under load, and
// says whether anything was lost, doubled, wrong, stuck or left behind.
//
//	go run ./chaos                          every fault at random for half an hour; out/evidence/chaos.json
//	go run ./chaos --short                  the CI size; out/evidence/ci/chaos.json
//	go run ./chaos --case kill-worker       a named case, or the faults whose name holds the word
//	go run ./chaos --list                   what there is
//	go run ./chaos validate out/chaos/SEED  judge a saved run again, without the system
//
// It ends with 1 if a rule was violated.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"glovebox/chaos/campaign"
	"glovebox/chaos/fault"
	"glovebox/chaos/history"
	"glovebox/chaos/model"
	"glovebox/chaos/report"
	"glovebox/chaos/validate"
)

func main() {
	ok, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos: error:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

// settings are the flags; the environment gives their defaults, as make passes it.
type settings struct {
	root, name, word string
	short, list      bool
	rounds, portBase int
	duration         time.Duration
	seed             uint64
}

// soak is how long a run of everything takes when nothing is said.
const soak = 30 * time.Minute

func parse(args []string) (settings, error) {
	s := settings{seed: rand.Uint64() >> 1}
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.StringVar(&s.root, "root", ".", "the project's `folder`")
	flags.StringVar(&s.name, "name", "chaos", "tells systems of one project apart")
	flags.IntVar(&s.portBase, "port-base", 24000, "first of the ports")
	flags.StringVar(&s.word, "case", os.Getenv("CASE"), "a named case, or a part of faults' names")
	flags.BoolVar(&s.short, "short", false, "the CI size")
	flags.BoolVar(&s.list, "list", false, "list cases and faults")
	flags.IntVar(&s.rounds, "rounds", 0, "how many rounds (ROUNDS)")
	flags.DurationVar(&s.duration, "duration", 0, "for how long (DURATION)")
	flags.Uint64Var(&s.seed, "seed", s.seed, "of everything drawn (SEED)")
	var errs []error
	for name, env := range map[string]string{"rounds": "ROUNDS", "duration": "DURATION", "seed": "SEED"} {
		if text := os.Getenv(env); text != "" {
			if err := flags.Set(name, text); err != nil {
				errs = append(errs, fmt.Errorf("%s=%s: %w", env, text, err))
			}
		}
	}
	errs = append(errs, flags.Parse(args))
	return s, errors.Join(errs...)
}

func run(args []string) (ok bool, err error) {
	if len(args) == 2 && args[0] == "validate" {
		return judgeAgain(args[1])
	}
	s, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if s.list {
		list()
		return true, nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // a reader that goes away must not end us before we have cleaned up
	plan, err := s.plan()
	if err != nil {
		return false, err
	}
	fmt.Printf("seed %d: SEED=%d repeats the draws of this run\n", s.seed, s.seed)
	options := campaign.Options{
		Root: s.root, Name: s.name, PortBase: s.portBase, Seed: s.seed, Plan: plan, Out: os.Stdout,
		Desks: 6, Think: 2500 * time.Millisecond, Retain: 3 * time.Minute,
	}
	if s.short {
		options.Think = time.Second
	}
	run := campaign.Run
	if s.word == campaign.FailoverCase {
		run = campaign.Failover
	}
	all, ok, err := s.play(ctx, run, options, "")
	if err != nil || s.word != "" {
		return ok, err // a part of the suite is no evidence of the whole
	}
	path := filepath.Join(s.root, "out/evidence/chaos.json")
	if s.short {
		path = filepath.Join(s.root, "out/evidence/ci/chaos.json")
		return ok, report.Evidence(s.root, path, all.run, all.record, all.violations)
	}
	// The full form ends with the one case that begins with a loss of everything.
	// What half an hour has shown is kept whatever becomes of that.
	last, recovered, failed := s.play(ctx, campaign.Failover, options, "-"+campaign.FailoverCase)
	err = report.Evidence(s.root, path, all.run, all.record, all.violations, report.FailoverEvidence(last.run, last.violations, failed))
	return ok && recovered, errors.Join(failed, err)
}

// played is a run that was judged.
type played struct {
	run        model.Run
	record     history.Record
	violations []history.Violation
}

// play runs, saves, and judges what was saved.
func (s settings) play(ctx context.Context, run func(context.Context, campaign.Options) (model.Run, history.Record, error), o campaign.Options, suffix string) (p played, ok bool, err error) {
	if p.run, p.record, err = run(ctx, o); err != nil {
		return p, false, err
	}
	dir := filepath.Join(s.root, "out/chaos", strconv.FormatUint(s.seed, 10)+suffix)
	if err := model.Save(dir, p.run, p.record); err != nil {
		return p, false, err
	}
	if p.run, p.record, err = model.Load(dir); err != nil {
		return p, false, err
	}
	p.violations = validate.All(p.run, p.record)
	report.Table(os.Stdout, p.run, p.record, p.violations)
	page := filepath.Join(dir, "report.html")
	if err := report.Write(page, p.run, p.record, p.violations); err != nil {
		return p, false, err
	}
	fmt.Printf("report   %s\nagain    go run ./chaos validate %s\n", page, dir)
	return p, len(p.violations) == 0, nil
}

func (s settings) plan() (campaign.Plan, error) {
	switch {
	case s.short:
		return campaign.Short(s.seed), nil
	case s.word == campaign.FailoverCase:
		return campaign.Plan{Name: s.word}, nil
	case s.word != "":
		return campaign.Named(s.word, s.rounds, s.duration)
	case s.rounds == 0 && s.duration == 0:
		return campaign.AtRandom(0, soak), nil
	}
	return campaign.AtRandom(s.rounds, s.duration), nil
}

func judgeAgain(path string) (bool, error) {
	r, record, err := model.Load(path)
	if err != nil {
		return false, err
	}
	violations := validate.All(r, record)
	report.Table(os.Stdout, r, record, violations)
	return len(violations) == 0, nil
}

func list() {
	fmt.Println("cases:")
	for _, c := range campaign.Cases() {
		fmt.Printf("  %-26s %s\n", c.Name, c.Title)
	}
	fmt.Printf("  %-26s %s\n", campaign.FailoverCase, "everything is lost; fail-over to a restored backup")
	fmt.Println("faults:")
	for _, k := range fault.Kinds() {
		fmt.Printf("  %-26s %s\n", k.Name, k.Title)
	}
}
