// Command sandbox-probes tries to break out of the sandbox and says what held.
//
//	go run ./sandbox-probes             everything; out/evidence/probes.json, with the
//	                                    cases of make probes-v2 where they are of the same sources
//	go run ./sandbox-probes --short     the CI size; out/evidence/ci/probes.json
//	go run ./sandbox-probes --case X    only cases whose id contains X; no evidence
//
// It ends with 1 if anything was breached or could not be tried.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"glovebox/sandbox-probes/suite"
	"glovebox/threat-model/evidence"
)

//go:embed expected.yaml
var expected []byte

func main() {
	ok, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox-probes:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

func run() (ok bool, err error) {
	short := flag.Bool("short", false, "the CI size")
	word := flag.String("case", os.Getenv("CASE"), "run only cases whose id contains this")
	seed := flag.Uint64("seed", rand.Uint64()>>1, "of the bits that jobs try to pass")
	root := flag.String("root", ".", "the project's folder")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A reader that goes away must not end us before we have cleaned up.
	signal.Ignore(syscall.SIGPIPE)

	fmt.Printf("seed %d\n", *seed)
	doc, err := suite.Run(ctx, suite.Options{Root: *root, Short: *short, Case: *word, Seed: *seed, Expected: expected, Out: os.Stdout})
	if err != nil {
		return false, err
	}
	var takeErr error // makes the run fail, but not lose what it found
	if *word == "" && !*short {
		var said string
		if said, takeErr = suite.TakeEmulated(&doc, filepath.Join(*root, "out/vm/probes-v2.json")); takeErr == nil {
			fmt.Println("\n" + said)
		}
	}
	n := suite.Count(doc)
	fmt.Printf("\n%d cases: %d held, %d breached, %d error, %d unavailable\n", len(doc.Cases),
		n[evidence.Held], n[evidence.Breached], n[evidence.Errored], n[evidence.Unavailable])
	ok = n[evidence.Breached] == 0 && n[evidence.Errored] == 0
	if *word != "" {
		return ok, nil // a part of the suite is no evidence of the whole
	}
	path := filepath.Join(*root, "out/evidence/probes.json")
	if *short {
		path = filepath.Join(*root, "out/evidence/ci/probes.json")
	}
	return ok, errors.Join(takeErr, doc.Write(path))
}
