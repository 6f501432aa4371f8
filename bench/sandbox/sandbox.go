// Package sandbox measures one attempt: the warm pool beside the bare runtime, and
// the launcher beside `podman run --rm`, with the same program, root filesystem,
// input and result.
package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"glovebox/bench/measure"
	"glovebox/system/worker/probe"
)

// Targets are the ratios that must be reached.
var Targets = map[string]float64{"pool_latency": 1.0, "attempts_per_s": 1.5}

// How much is done in one run of a figure. Cycles follow each other without a pause,
// so that the pool has to be refilled under way.
const (
	latencyRuns = 15
	runs        = measure.MinRuns
	cycles      = 4
	attempts    = 12
	peers       = 3
	slots       = 2
)

var input = []byte(strings.Repeat("what the copying core copies\n", 100))

// rig is all that the measurements stand on.
type rig struct {
	bench    *probe.Bench
	program  string
	place    *probe.Warm // whose files the peers use
	bundle   *probe.Bundle
	launcher *probe.Launcher
	results  chan string // files that podman's containers write, one a caller
}

// Run takes all figures.
func Run(ctx context.Context, root string) (figures []measure.Figure, err error) {
	r := &rig{}
	if r.program, err = filepath.Abs(filepath.Join(root, "out/core/copy")); err != nil {
		return nil, err
	}
	if r.bench, err = probe.OpenPlain(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.bench.Close()) }()
	if r.place, err = r.warm(ctx, 1); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.place.Close(ctx)) }()
	if r.bundle, err = r.bench.Bundle(r.place); err != nil {
		return nil, err
	}
	_, in, _ := r.place.Place()
	if err := os.WriteFile(in, input, 0); err != nil { // in place: the mount holds the inode
		return nil, fmt.Errorf("write the peers' input: %w", err)
	}
	r.results = make(chan string, slots)
	for i := range slots {
		path := filepath.Join(r.bench.Dir(), fmt.Sprintf("peer-result-%d", i))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return nil, fmt.Errorf("make the peers' results: %w", err)
		}
		r.results <- path
	}
	memory, err := r.memory(ctx)
	if err != nil {
		return nil, err
	}
	latency, err := measure.Pair{
		Name: "pool_latency", Unit: "ms", Better: measure.Lower, Runs: latencyRuns, PeerName: "runc run",
		Ours: r.pooled, Peer: measure.Mean(1, r.runtime),
	}.Run(ctx)
	if err != nil {
		return nil, err
	}
	binary, err := filepath.Abs(filepath.Join(root, "out/bin/glovebox-launcher"))
	if err != nil {
		return nil, err
	}
	if r.launcher, err = r.bench.Launch(ctx, binary, r.program, filepath.Join(root, "out/images/probe.json"), slots); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.launcher.Stop()) }()
	figures = append(figures, latency)
	for _, p := range []measure.Pair{
		{Name: "cycle_latency", Unit: "ms", Better: measure.Lower, Runs: runs, PeerName: "podman run --rm",
			Ours: measure.Mean(cycles, r.attempt), Peer: measure.Mean(peers, r.podman)},
		{Name: "attempts_per_s", Unit: "1/s", Better: measure.Higher, Runs: runs, PeerName: "podman run --rm",
			Ours: measure.Rate(slots, attempts, r.attempt), Peer: measure.Rate(1, peers, r.podman)},
		{Name: "attempts_per_s_two_loops", Unit: "1/s", Better: measure.Higher, Runs: runs, PeerName: "two loops of podman run --rm",
			Ours: measure.Rate(slots, attempts, r.attempt), Peer: measure.Rate(2, 2*peers, r.podman)},
	} {
		f, err := p.Run(ctx)
		if err != nil {
			return nil, err
		}
		figures = append(figures, f)
	}
	return append(figures, memory), nil
}

func (r *rig) warm(ctx context.Context, slot int) (*probe.Warm, error) {
	return r.bench.Warm(ctx, probe.Attempt{Program: r.program, Slot: slot, Limits: probe.Defaults()})
}

// pooled is the time from the filled input to the death seen, of a container that
// waits. What is made ahead and taken away afterwards does not count.
func (r *rig) pooled(ctx context.Context) (ms float64, err error) {
	w, err := r.warm(ctx, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	report, took, err := w.Run(ctx, input)
	if err != nil {
		return 0, err
	}
	return measure.Milliseconds(took), right(report)
}

func right(report probe.Report) error {
	if !report.Ended("exit 0") || !report.Verdict.Succeeded() || !bytes.Equal(report.Result, input) {
		return fmt.Errorf("the attempt ended with %s and %d bytes", report.Outcome(), len(report.Result))
	}
	return nil
}

// attempt is a whole one through the launcher's socket.
func (r *rig) attempt(ctx context.Context) error {
	report, err := r.launcher.Attempt(ctx, input)
	if err != nil {
		return err
	}
	return right(report)
}

// runtime is `runc run` of the configuration that the engine made for a slot.
func (r *rig) runtime(ctx context.Context) error {
	_, _, out := r.place.Place()
	return peer(r.bundle.Command(ctx), out)
}

// podman is `podman run --rm` without the walls, which would make it no faster: no
// network and no log, since these cost most.
func (r *rig) podman(ctx context.Context) error {
	root, in, _ := r.place.Place()
	out := <-r.results
	defer func() { r.results <- out }()
	return peer(r.bench.Podman(ctx, "run", "--rm", "--network", "none", "--log-driver", "none",
		"--volume", in+":/in/input:ro", "--volume", out+":/out/result", "--rootfs", root, "/core"), out)
}

// peer runs the command, which must succeed and leave the right result in out.
func peer(cmd *exec.Cmd, out string) error {
	if err := os.Truncate(out, 0); err != nil {
		return fmt.Errorf("empty the peer's result: %w", err)
	}
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %.300s", cmd.Args[0], err, said)
	}
	result, err := os.ReadFile(out)
	if err != nil {
		return fmt.Errorf("read the peer's result: %w", err)
	}
	if !bytes.Equal(result, input) {
		return fmt.Errorf("the peer's result has %d bytes and not the input's", len(result))
	}
	return nil
}
