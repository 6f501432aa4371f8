package probe_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"glovebox/system/worker/internal/container/enginetest"
	"glovebox/system/worker/probe"
	"glovebox/threat-model/evidence"
)

// What the benchmark stands on: a container that waits, the same one by the bare
// runtime, and podman on the same engine.
func TestWaitingContainerAndItsPeers(t *testing.T) {
	evidence.Proves(t, "SBX-12")
	program := enginetest.Compile(t, []byte(answers))
	b, err := probe.OpenPlain(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Errorf("something is left: %v", err)
		}
	}()
	limits := probe.Defaults()
	if _, err := b.Run(t.Context(), probe.Attempt{Program: program, Limits: limits, Without: []string{"network"}}); err == nil {
		t.Error("a wall was cut by a runtime that cuts nothing")
	}
	w, err := b.Warm(t.Context(), probe.Attempt{Program: program, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	waiting, monitor, err := w.Processes()
	if err != nil || waiting == 0 || monitor == 0 || waiting == monitor {
		t.Fatalf("processes %d and %d, %v", waiting, monitor, err)
	}
	bundle, err := b.Bundle(w)
	if err != nil {
		t.Fatal(err)
	}
	root, in, out := w.Place()
	if err := os.WriteFile(in, []byte("peer"), 0); err != nil {
		t.Fatal(err)
	}
	for name, cmd := range map[string]*exec.Cmd{
		"runc":   bundle.Command(t.Context()),
		"again":  bundle.Command(t.Context()),
		"podman": b.Podman(t.Context(), "run", "--rm", "--network", "none", "--volume", in+":/in/input:ro", "--volume", out+":/out/result", "--rootfs", root, "/core"),
	} {
		if err := os.Truncate(out, 0); err != nil {
			t.Fatal(err)
		}
		said, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 7 {
			t.Errorf("%s: %v: %s", name, err, said)
		}
		if text, err := os.ReadFile(out); err != nil || string(text) != "peer" {
			t.Errorf("%s: result %q, %v", name, text, err)
		}
	}
	if err := errors.Join(os.Truncate(out, 0), os.Truncate(in, 0)); err != nil {
		t.Fatal(err)
	}
	report, took, err := w.Run(t.Context(), []byte("ours"))
	if err != nil || !report.Ended("exit 7") || string(report.Result) != "ours" || took <= 0 || took > time.Minute {
		t.Errorf("%s, %q, %s, %v", report.Outcome(), report.Result, took, err)
	}
}
