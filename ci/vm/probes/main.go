// Command probes runs the sandbox in its preferred mode in the virtual machine and
// writes what came of it as out/vm/probes-v2.json, in the form of the probes' suite.
//
//	go run ./ci/vm/probes [--case WORD]
//
// It ends with 1 if anything was breached or could not be tried.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"glovebox/ci/image/recipe"
	"glovebox/ci/vm"
	"glovebox/sandbox-probes/bundle"
	"glovebox/threat-model/evidence"
)

// timeout ends a machine that hangs. Emulated, all of it takes a quarter of an hour,
// and a multiple of that beside other work.
const timeout = time.Hour

// plain is what may be written into the machine's start script.
var plain = regexp.MustCompile(`^[a-zA-Z0-9/_-]*$`)

func main() {
	word := flag.String("case", os.Getenv("CASE"), "try only checks whose id contains this; no evidence")
	flag.Parse()
	if !plain.MatchString(*word) {
		fmt.Fprintln(os.Stderr, "probes-v2: --case takes letters, digits and any of / - _")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := run(ctx, *word)
	if err != nil {
		fmt.Fprintln(os.Stderr, "probes-v2:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

func run(ctx context.Context, word string) (ok bool, err error) {
	doc := evidence.Document{Suite: "probes", Started: time.Now().UTC(), Machine: evidence.Machine()}
	img, err := vm.Cached(ctx, ".cache/vm")
	if err != nil {
		return false, err
	}
	input, err := os.MkdirTemp("", "gbvm-input")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(input)
	// What the machine is given is what its evidence speaks for, whatever becomes of
	// the sources while it runs.
	if doc.SourceDigest, doc.Dirty, err = evidence.SourceDigest("."); err != nil {
		return false, err
	}
	if doc.ImageDigest, err = fill(ctx, input, word); err != nil {
		return false, err
	}
	filled, _, err := evidence.SourceDigest(".")
	if err != nil {
		return false, err
	}
	if filled != doc.SourceDigest && word == "" {
		return false, fmt.Errorf("the sources changed from %.12s to %.12s while the machine's input was made of them: run it again", doc.SourceDigest, filled)
	}
	output := "out/vm"
	if err := os.RemoveAll(output); err != nil {
		return false, err
	}
	booted := time.Now()
	bootErr := vm.Boot(ctx, img, vm.Options{Input: input, Output: output, MemoryMiB: 3072, Processors: 2, Timeout: timeout})
	log, logErr := os.ReadFile(filepath.Join(output, "log"))
	os.Stdout.Write(log)
	fmt.Printf("the machine ran for %.0f s\n", time.Since(booted).Seconds())
	if err := errors.Join(bootErr, logErr); err != nil {
		return false, err
	}
	text, err := os.ReadFile(filepath.Join(output, "cases.json"))
	if err != nil {
		return false, fmt.Errorf("the machine did not come to its end: %w", err)
	}
	if err := json.Unmarshal(text, &doc.Cases); err != nil {
		return false, fmt.Errorf("read the machine's cases: %w", err)
	}
	n := map[evidence.Verdict]int{}
	for _, c := range doc.Cases {
		n[c.Verdict]++
	}
	fmt.Printf("\n%d cases: %d held, %d breached, %d error, %d unavailable\n", len(doc.Cases),
		n[evidence.Held], n[evidence.Breached], n[evidence.Errored], n[evidence.Unavailable])
	ok = len(doc.Cases) > 0 && n[evidence.Breached] == 0 && n[evidence.Errored] == 0
	if word != "" {
		return ok, nil // a part is no evidence of the whole
	}
	doc.Machine["virtual_machine"] = "Debian 12, emulated; rootless podman, cgroup version 2, crun"
	doc.Finished = time.Now().UTC()
	return ok, doc.Write(filepath.Join(output, "probes-v2.json"))
}

const config = `[listen]
socket = "/run/glovebox/s"
peer_uid = 1001
[engine]
socket = "/run/user/1000/glovebox-engine.sock"
[slots]
root = "/var/lib/glovebox/slots"
[sandbox]
image = "oci:/opt/glovebox/images/core@%s"
runtime = "crun"
memory_bytes = "96MiB"
[selftest]
image = "oci:/opt/glovebox/images/probe@%s"
[limits]
max_result_bytes = 1048576
[metrics]
listen = ""
`

// fill makes the machine's input: the programs as they are built here, their images,
// and what the installation of this mode consists of.
func fill(ctx context.Context, dir, word string) (digest string, err error) {
	for name, pkg := range map[string]string{"glovebox-launcher": "./system/worker/cmd/launcher", "guest": "./ci/vm/guest"} {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, name), pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", name, err, said)
		}
	}
	probes, err := bundle.Build(ctx, "sandbox-probes/probes", "out/probes")
	if err != nil {
		return "", err
	}
	core, err := recipe.Build("out/core/core", filepath.Join(dir, "images/core"))
	if err != nil {
		return "", fmt.Errorf("%w; run make image first", err)
	}
	selfTest, err := recipe.Build("out/probe/probe", filepath.Join(dir, "images/probe"))
	if err != nil {
		return "", fmt.Errorf("%w; run make image first", err)
	}
	// The console shows how far it is; the log comes back at the end alone.
	script := "#!/bin/sh\nchmod -R a+rX .\nCASE='" + word + "' ./guest host 2>&1 | tee /dev/ttyS0\n"
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "launcher.toml"), fmt.Appendf(nil, config, core.Digest, selfTest.Digest), 0o644),
		os.WriteFile(filepath.Join(dir, "run"), []byte(script), 0o755),
		os.CopyFS(filepath.Join(dir, "install"), os.DirFS("ci/vm/install")),
		copyFile(probes, filepath.Join(dir, "probes"), 0o755),
		copyFile("sandbox-probes/expected.yaml", filepath.Join(dir, "expected.yaml"), 0o644),
		copyFile("ci/vm/expected-v2.yaml", filepath.Join(dir, "expected-v2.yaml"), 0o644),
	); err != nil {
		return "", fmt.Errorf("fill the machine's input: %w", err)
	}
	return core.Digest, nil
}

func copyFile(from, to string, mode os.FileMode) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, mode)
}
