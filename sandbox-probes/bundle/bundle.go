// Package bundle compiles the probes. Each is a program of its own; for the image
// all of them are linked into one /core, which runs the one that the input's
// first word names, so that a single running system serves every probe.
package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// flags hold for every probe. _GNU_SOURCE gives the names of system calls and
// errors; -O1 keeps the small tricks of the sources as they are written.
var flags = []string{"-std=gnu11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable", "-Wno-unused-function", "-pthread", "-static"}

// dispatcher chooses a program; parts are sources that belong to another one.
const dispatcher = "bundle"

var parts = []string{"pair-kernel"}

// Programs lists the probes' names in order.
func Programs(sources string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(sources, "*.c"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".c")
		if name != dispatcher && !slices.Contains(parts, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("find probes: %s holds no C file", sources)
	}
	return names, nil
}

// Build compiles the sources into one static program below cache and returns its
// absolute path. What was built of the same bytes is used again.
func Build(ctx context.Context, sources, cache string) (string, error) {
	programs, err := Programs(sources)
	if err != nil {
		return "", err
	}
	sum, err := digest(sources)
	if err != nil {
		return "", err
	}
	if cache, err = filepath.Abs(cache); err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("make the probes' folder: %w", err)
	}
	binary := filepath.Join(cache, "core-"+sum)
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	work, err := os.MkdirTemp(cache, "build-")
	if err != nil {
		return "", fmt.Errorf("make the probes' folder: %w", err)
	}
	defer os.RemoveAll(work)
	if err := table(programs, filepath.Join(work, "programs.inc")); err != nil {
		return "", err
	}
	objects, err := compile(ctx, programs, sources, work)
	if err != nil {
		return "", err
	}
	linked := filepath.Join(work, "core")
	if err := gcc(ctx, append([]string{"-o", linked}, objects...)...); err != nil {
		return "", err
	}
	if err := os.Rename(linked, binary); err != nil {
		return "", fmt.Errorf("keep the probes: %w", err)
	}
	return binary, nil
}

func table(programs []string, path string) error {
	var text strings.Builder
	for _, name := range programs {
		fmt.Fprintf(&text, "PROGRAM(%q, %s)\n", name, entry(name))
	}
	return os.WriteFile(path, []byte(text.String()), 0o600)
}

// entry is what a program's main is called in the bundle.
func entry(name string) string { return "main_" + strings.ReplaceAll(name, "-", "_") }

func compile(ctx context.Context, programs []string, sources, work string) ([]string, error) {
	all := append(slices.Clone(programs), append(slices.Clone(parts), dispatcher)...)
	objects := make([]string, len(all))
	errs := make([]error, len(all))
	slots := make(chan struct{}, 2)
	done := make(chan struct{})
	for i, name := range all {
		objects[i] = filepath.Join(work, name+".o")
		args := []string{"-c", "-I", work, "-o", objects[i], filepath.Join(sources, name+".c")}
		if slices.Contains(programs, name) {
			args = append(args, "-Dmain="+entry(name))
		}
		go func() {
			slots <- struct{}{}
			errs[i] = gcc(ctx, args...)
			<-slots
			done <- struct{}{}
		}()
	}
	for range all {
		<-done
	}
	return objects, errors.Join(errs...)
}

func gcc(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "gcc", append(slices.Clone(flags), args...)...)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile probes: %w; install gcc and libc6-dev\n%s", err, said)
	}
	return nil
}

// digest names the sources and the flags.
func digest(sources string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, flags)
	for _, pattern := range []string{"*.c", "*.h"} {
		files, err := filepath.Glob(filepath.Join(sources, pattern))
		if err != nil {
			return "", err
		}
		for _, name := range files {
			f, err := os.Open(name)
			if err != nil {
				return "", fmt.Errorf("read probes: %w", err)
			}
			fmt.Fprintln(h, filepath.Base(name))
			_, err = io.Copy(h, f)
			if err := errors.Join(err, f.Close()); err != nil {
				return "", fmt.Errorf("read probes: %w", err)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}
