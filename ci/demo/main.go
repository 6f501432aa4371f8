// Command demo runs the whole system on real Lua files before the reader's eyes:
// it starts everything, lets two users send files from Debian packages and the
// project's own samples at the same time, and compares every result with its
// original, by Lua's own bytecode and, for the samples, by running both.
//
// It exits 0 only if every result is the same program.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"glovebox/ci/local"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo: error: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	begin := time.Now()
	work, err := filepath.Abs("out/demo")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	files, err := gather("out/corpus", "samples", work)
	if err != nil {
		return err
	}

	fmt.Println("\nGlovebox runs an untrusted program on a file, in a sealed sandbox, and gives the result back.")
	fmt.Println("Here the program is a Lua 5.4 obfuscator; the files are real ones.")
	fmt.Println()
	system, err := local.Up(ctx, local.Options{Root: ".", Name: "demo", Progress: func(step string) { fmt.Println("  starting: " + step) }})
	if err != nil {
		return err
	}
	defer func() {
		fmt.Println("  stopping")
		err = errors.Join(err, system.Down())
	}()
	fmt.Printf("  running after %.1f s: one server, one sweeper, two workers with a launcher each, PostgreSQL, podman\n\n", time.Since(begin).Seconds())

	sent := time.Now()
	if err := processAll(ctx, system, files, work); err != nil {
		return err
	}
	took := time.Since(sent)

	results, failed := compareAll(ctx, files)
	printTable(results)
	if err := showOne(results); err != nil {
		return err
	}
	if err := showRefusal(ctx, system, work); err != nil {
		return err
	}
	var in, out int64
	for _, r := range results {
		in, out = in+r.size, out+r.resultSize
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d results are not the same program as their original; they are in out/demo", failed, len(results))
	}
	fmt.Printf("\nAll %d results are the same program as their original: %d users, %.1f MB in, %.1f MB out, %.1f s from the first upload to the last download.\n",
		len(results), len(system.Users), float64(in)/1e6, float64(out)/1e6, took.Seconds())
	return nil
}
