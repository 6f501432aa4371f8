// Command core-conformance checks an image against core/CONTRACT.md:
//
//	core-conformance [--sample FILE] [--engine SOCKET] IMAGE
//
// IMAGE is the value of sandbox.image, oci:/layout@sha256:DIGEST, or the JSON file
// that ci/image printed. Without --engine it starts a private engine for the
// time of the check. It needs root, as the launcher does.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"glovebox/ci/engine"
	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/cgroup"
	"glovebox/system/worker/internal/container/conformance"
	"glovebox/system/worker/internal/container/image"
	"glovebox/system/worker/internal/container/podman"
	"glovebox/system/worker/internal/container/seccomp"
	"glovebox/system/worker/internal/container/slot"
	"glovebox/system/worker/internal/container/slotfs"
)

// defaultSample is Lua, which the project's own core takes.
const defaultSample = `local greeting = "hello"
local function greet(name)
  print(greeting .. ", " .. name)
end
greet("world")
`

// uidBase is a range of host ids apart from the launcher's default.
const uidBase = 1_800_000_000

// errBroken says that the image does not keep the contract.
var errBroken = errors.New("the image does not keep the contract")

func main() {
	sample := flag.String("sample", "", "`file` that the core accepts (default: a small Lua program)")
	socket := flag.String("engine", "", "`socket` of a podman service (default: a private one)")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "core-conformance: give one IMAGE, oci:/layout@sha256:DIGEST or the JSON file of ci/image")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := check(ctx, flag.Arg(0), *sample, *socket, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "core-conformance: "+err.Error())
		os.Exit(1)
	}
}

func check(ctx context.Context, name, sampleFile, socket string, out io.Writer) (err error) {
	img, err := open(name)
	if err != nil {
		return err
	}
	sample := []byte(defaultSample)
	if sampleFile != "" {
		if sample, err = os.ReadFile(sampleFile); err != nil {
			return fmt.Errorf("read sample: %w", err)
		}
	}
	dir, err := os.MkdirTemp("", "gbc")
	if err != nil {
		return fmt.Errorf("make work folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil { // the sandbox's user passes through
		return fmt.Errorf("make work folder: %w", err)
	}
	if socket == "" {
		service, err := engine.Start(ctx, engine.Options{Dir: filepath.Join(dir, "e")})
		if err != nil {
			return err
		}
		defer func() { _ = service.Stop() }()
		socket = service.Socket
	}
	maker, err := makerOf(ctx, img, dir, socket)
	if err != nil {
		return err
	}
	started := time.Now()
	suite := conformance.Suite{Maker: *maker, Sample: sample}
	checks, err := suite.Run(ctx)
	if err = errors.Join(err, maker.Tree.RemoveBase(maker.Label)); err != nil {
		return err
	}
	return report(out, img, checks, time.Since(started))
}

// open reads the image that name says, as a reference or by ci/image's JSON.
func open(name string) (*image.Image, error) {
	if strings.HasSuffix(name, ".json") {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read image: %w", err)
		}
		var built struct {
			Ref string `json:"ref"`
		}
		if err := json.Unmarshal(text, &built); err != nil || built.Ref == "" {
			return nil, fmt.Errorf("%s is not what ci/image prints", name)
		}
		name = built.Ref
	}
	ref, err := image.ParseRef(name)
	if err != nil {
		return nil, err
	}
	return image.Open(ref)
}

func makerOf(ctx context.Context, img *image.Image, dir, socket string) (*slot.Maker, error) {
	tree, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	e, err := podman.Open(ctx, socket, "runc")
	if err != nil {
		return nil, err
	}
	policy, err := seccomp.Load()
	if err != nil {
		return nil, err
	}
	text, err := policy.Render(seccomp.Core)
	if err != nil {
		return nil, err
	}
	profile, slots := filepath.Join(dir, "profile.json"), filepath.Join(dir, "slots")
	if err := errors.Join(os.WriteFile(profile, text, 0o600), os.Mkdir(slots, 0o711), os.Chmod(slots, 0o711)); err != nil {
		return nil, fmt.Errorf("make work folder: %w", err)
	}
	limits := container.Defaults()
	return &slot.Maker{
		Engine: e, Tree: tree, Image: img, Label: filepath.Base(dir), UIDBase: uidBase, Limits: limits, Profile: profile,
		FS: slotfs.Config{
			Root: slots, Backing: slotfs.Auto, MaxInputBytes: limits.MaxInputBytes, MaxResultBytes: limits.MaxResultBytes,
			ImageBytes: img.Bytes, ImageFiles: img.Files,
		},
	}, nil
}

func report(out io.Writer, img *image.Image, checks []conformance.Check, took time.Duration) error {
	failed := 0
	for _, c := range checks {
		word := "ok  "
		if !c.Passed {
			word = "FAIL"
			failed++
		}
		if _, err := fmt.Fprintf(out, "%s  %s (%s)\n", word, c.Name, c.Detail); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(out, "%d checks, %d failed, %.1f s, image %s\n", len(checks), failed, took.Seconds(), img.Ref.Digest); err != nil {
		return err
	}
	if failed > 0 || len(checks) == 0 {
		return errBroken
	}
	return nil
}
