// Command prove shows that the core's first layer does not change programs, over
// every real Lua file of the corpus, and that this proof is able to fail.
//
//	go run ./ci/prove --core out/core/core-dev --corpus out/corpus
//
// For each file Lua's own compiler accepts: the stripped bytecode of the core's
// output must equal that of the file, once as shipped (the lines on which
// functions begin and end are blanked, since the output is one line) and once
// with --keep-lines, byte for byte. Files the compiler refuses must be refused.
// Then small mutants of correct outputs are compared in the same way, and every
// single one must be noticed. Exit 0 only if all of that holds.
//
// Prints `ok NAME` or `FAIL NAME: why` for each claim, which the evidence merger
// reads (core/test/requirements.tsv).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"
)

// leastFiles guards against a corpus that lost its files: a proof over nothing passes.
const leastFiles = 1300

func main() {
	core := flag.String("core", "out/core/core-dev", "the developer binary of the core")
	corpus := flag.String("corpus", "out/corpus", "folder made by ci/corpus")
	mutants := flag.Int("mutants", 900, "how many mutants to try, at least 300")
	seed := flag.Uint64("seed", 20240229, "chooses the mutants; printed, so that a run can be repeated")
	flag.Parse()
	if flag.NArg() > 0 || *mutants < 300 {
		fmt.Fprintln(os.Stderr, "prove: takes no arguments, and --mutants of at least 300")
		os.Exit(2)
	}
	if err := run(context.Background(), *core, *corpus, *mutants, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "prove: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, core, corpus string, mutants int, seed uint64) error {
	files, err := corpusFiles(corpus)
	if err != nil {
		return err
	}
	workers := runtime.NumCPU()
	started := time.Now()
	proof, err := proveFiles(ctx, core, files, workers)
	if err != nil {
		return err
	}
	proof.print(time.Since(started))

	started = time.Now()
	trial, err := tryMutants(ctx, proof.accepted(), mutants, seed, workers)
	if err != nil {
		return err
	}
	trial.print(seed, time.Since(started))

	claims := append(proof.claims(), trial.claims(mutants)...)
	failed := 0
	for _, c := range claims {
		if c.why == "" {
			fmt.Printf("ok %s\n", c.name)
			continue
		}
		failed++
		fmt.Printf("FAIL %s: %s\n", c.name, c.why)
	}
	fmt.Printf("%d passed, %d failed\n", len(claims)-failed, failed)
	if failed > 0 {
		return fmt.Errorf("%d claims do not hold", failed)
	}
	return nil
}

// A claim holds if why is empty.
type claim struct{ name, why string }
