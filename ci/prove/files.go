package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// compiler is the oracle: Lua's own, never the core under test.
const compiler = "luac5.4"

// A verdict is what the proof found out about one file.
type verdict struct {
	path   string
	size   int
	output []byte // the core's, as shipped; nil if refused
	code   []byte // its normalised bytecode
	fault  string // empty if everything holds
	claim  string // the claim the fault is against
}

type proof struct {
	verdicts []verdict
	refused  int
}

// corpusFiles lists the Lua files of the packages, in order.
func corpusFiles(root string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(entry.Name(), ".") && path != root
		if entry.IsDir() && (hidden || entry.Name() == "apt") {
			return filepath.SkipDir
		}
		if entry.Type().IsRegular() && !hidden && entry.Name() != "VERSIONS" {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the corpus (run ci/corpus first): %w", err)
	}
	return files, nil
}

// proveFiles compares each file with what the core makes of it.
func proveFiles(ctx context.Context, core string, files []string, workers int) (*proof, error) {
	verdicts := make([]verdict, len(files))
	err := inParallel(len(files), workers, func(i int) error {
		v, err := proveFile(ctx, core, files[i])
		verdicts[i] = v
		return err
	})
	if err != nil {
		return nil, err
	}
	p := &proof{verdicts: verdicts}
	for _, v := range verdicts {
		if v.output == nil && v.fault == "" {
			p.refused++
		}
	}
	return p, nil
}

func proveFile(ctx context.Context, core, path string) (verdict, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return verdict{}, err
	}
	v := verdict{path: path, size: len(source)}
	original, compiles, err := filter(ctx, source, compiler, "-s", "-o", "-", "-")
	if err != nil {
		return v, err
	}
	output, accepted, err := filter(ctx, source, core)
	if err != nil {
		return v, err
	}
	switch {
	case compiles != accepted:
		v.fault, v.claim = fmt.Sprintf("the compiler accepts: %t, the core: %t", compiles, accepted), claimRefusals
		return v, nil
	case !compiles:
		return v, nil
	}
	v.output = output
	if len(output) > len(source)+1 {
		v.fault, v.claim = fmt.Sprintf("%d bytes became %d", len(source), len(output)), claimSize
		return v, nil
	}
	result, compiles, err := filter(ctx, output, compiler, "-s", "-o", "-", "-")
	if err != nil {
		return v, err
	}
	same, err := sameCode(original, result)
	if err != nil {
		return v, err
	}
	if !compiles || !same {
		v.fault, v.claim = "the bytecode differs", claimShipped
		return v, nil
	}
	if v.code, err = withoutLines(result); err != nil {
		return v, err
	}
	kept, accepted, err := filter(ctx, source, core, "--keep-lines")
	if err != nil {
		return v, err
	}
	result, compiles, err = filter(ctx, kept, compiler, "-s", "-o", "-", "-")
	if err != nil {
		return v, err
	}
	if !accepted || !compiles || !bytes.Equal(original, result) {
		v.fault, v.claim = "the bytecode differs", claimKeptLines
	}
	return v, nil
}

func sameCode(a, b []byte) (bool, error) {
	if len(b) == 0 {
		return false, nil
	}
	na, err := withoutLines(a)
	if err != nil {
		return false, err
	}
	nb, err := withoutLines(b)
	if err != nil {
		return false, err
	}
	return bytes.Equal(na, nb), nil
}

// filter runs a program over input. A program that ends with an error code has
// refused; one that cannot be run, or dies of a signal, is an error.
func filter(ctx context.Context, input []byte, name string, args ...string) (output []byte, accepted bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = bytes.NewReader(input)
	output, err = cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		if code := exit.ExitCode(); code != 1 && code != 3 && code != 4 {
			return nil, false, fmt.Errorf("%s ended with %d", filepath.Base(name), code)
		}
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("run %s: %w", filepath.Base(name), err)
	}
	return output, true, nil
}

// inParallel calls do for 0..count-1 and returns the first error.
func inParallel(count, workers int, do func(int) error) error {
	next := make(chan int)
	failures := make(chan error, workers)
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	go func() {
		defer close(next)
		for i := range count {
			select {
			case next <- i:
			case <-stop:
				return
			}
		}
	}()
	var first error
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case first = <-failures:
		close(stop)
		<-done
	case <-done:
		select {
		case first = <-failures:
		default:
		}
	}
	return first
}
