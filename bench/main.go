// Command bench measures the product beside its peers, a case at a time:
//
//	go run ./bench sandbox     out/bench/sandbox.json
//
// Each pair of figures is taken in turn in one run, so that whatever else the
// machine does falls on both. It ends with 1 if a target is missed.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"glovebox/bench/measure"
	"glovebox/bench/sandbox"
	"glovebox/threat-model/evidence"
)

// bench is one case: its figures, and what they must reach.
type bench struct {
	run     func(ctx context.Context, root string) ([]measure.Figure, error)
	targets map[string]float64 // figure -> the ratio that must not be worse
}

var cases = map[string]bench{
	"sandbox": {sandbox.Run, sandbox.Targets},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	root := flag.String("root", ".", "the project's folder")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	known := strings.Join(slices.Sorted(maps.Keys(cases)), ", ")
	if flag.NArg() == 0 {
		return fmt.Errorf("name a case: %s", known)
	}
	for _, name := range flag.Args() {
		c, ok := cases[name]
		if !ok {
			return fmt.Errorf("no case is called %q; there are: %s", name, known)
		}
		figures, err := c.run(ctx, *root)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		path := filepath.Join(*root, "out/bench", name+".json")
		if err := (measure.Document{Case: name, Machine: evidence.Machine(), Figures: figures}).Write(path); err != nil {
			return err
		}
		fmt.Print(measure.Table(figures, c.targets))
		if missed := measure.Missed(figures, c.targets); len(missed) > 0 {
			return fmt.Errorf("%s: missed the target: %s", name, strings.Join(missed, ", "))
		}
	}
	return nil
}
