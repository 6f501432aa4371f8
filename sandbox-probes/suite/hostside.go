package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"glovebox/system/worker/probe"
	"glovebox/threat-model/evidence"
)

// secret is what a swapped name leads to; nothing of it may come out as a result.
const secret = "a secret of the host\n"

// trick changes a name of the slot behind the launcher's back, as a core could that
// had got past every wall but the slot's filesystem. The core itself cannot: the
// probes result-names and result-meta are refused.
type trick struct {
	name string
	// taken: the result that the core wrote is still the file that was opened before
	// the start, and may be taken. Else it must be refused.
	taken bool
	act   func(slot, secretPath string) error
}

var tricks = []trick{
	{"nothing", true, func(_, _ string) error { return nil }}, // the control
	{"result-becomes-symlink", false, func(slot, secretPath string) error {
		return swap(slot, "result", func(path string) error { return os.Symlink(secretPath, path) })
	}},
	{"result-becomes-other-file", false, func(slot, _ string) error {
		return swap(slot, "result", func(path string) error { return os.WriteFile(path, []byte(secret), 0o600) })
	}},
	{"result-becomes-fifo", false, func(slot, _ string) error {
		return swap(slot, "result", func(path string) error { return syscall.Mkfifo(path, 0o600) })
	}},
	{"result-is-removed", false, func(slot, _ string) error { return os.Remove(filepath.Join(slot, "result")) }},
	{"result-has-a-second-name", false, func(slot, _ string) error {
		return os.Link(filepath.Join(slot, "result"), filepath.Join(slot, "second"))
	}},
	{"result-has-another-mode", false, func(slot, _ string) error { return os.Chmod(filepath.Join(slot, "result"), 0o604) }},
	{"result-has-another-owner", false, func(slot, _ string) error { return os.Chown(filepath.Join(slot, "result"), 0, 0) }},
	{"result-is-too-large", false, func(slot, _ string) error {
		return os.Truncate(filepath.Join(slot, "result"), limits().MaxResultBytes+1)
	}},
	{"result-moves-and-a-link-leads-on", true, func(slot, _ string) error {
		if err := os.Rename(filepath.Join(slot, "result"), filepath.Join(slot, "moved")); err != nil {
			return err
		}
		return os.Symlink("moved", filepath.Join(slot, "result"))
	}},
	{"input-becomes-symlink", true, func(slot, secretPath string) error {
		return swap(slot, "input", func(path string) error { return os.Symlink(secretPath, path) })
	}},
	{"root-moves-away", true, func(slot, secretPath string) error {
		return swap(slot, "rootfs", func(path string) error { return os.Symlink(filepath.Dir(secretPath), path) })
	}},
	{"links-lie-about", true, func(slot, secretPath string) error { // for what removes the slot
		for _, name := range []string{"a", "b"} {
			if err := os.Symlink(filepath.Dir(secretPath), filepath.Join(slot, name)); err != nil {
				return err
			}
		}
		return nil
	}},
}

// swap renames what make makes over the name.
func swap(slot, name string, make func(path string) error) error {
	old, fresh := filepath.Join(slot, name), filepath.Join(slot, "fresh")
	if err := make(fresh); err != nil {
		return err
	}
	if info, err := os.Lstat(old); err == nil && info.IsDir() {
		if err := os.Rename(old, old+"-moved"); err != nil {
			return err
		}
	}
	return os.Rename(fresh, old)
}

// hostSide plays each trick while the core runs and when it is judged, and looks
// what the launcher's own steps make of it: reading the result, judging, removing.
func (s *Suite) hostSide(ctx context.Context) error {
	for _, t := range tricks {
		for _, step := range []string{"running", "judged"} {
			if s.opts.Short && step == "judged" {
				continue
			}
			id := "host-side/" + t.name + "-while-" + step
			if !s.wants(id) {
				continue
			}
			if err := s.playTrick(ctx, id, t, step); err != nil {
				return fmt.Errorf("%s: %w", id, err)
			}
		}
	}
	return nil
}

func (s *Suite) playTrick(ctx context.Context, id string, t trick, step string) error {
	started := time.Now()
	dir, err := os.MkdirTemp("", "gbtrick")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	secretPath := filepath.Join(dir, "secret")
	if err := os.WriteFile(secretPath, []byte(secret), 0o600); err != nil {
		return err
	}
	played := false
	play := func(r probe.Running) error {
		played = true
		return t.act(r.SlotDir, secretPath)
	}
	a := probe.Attempt{Program: s.program, Input: []byte("posture stay=1\n"), Slot: 2, Limits: limits()}
	a.Watch = func(ctx context.Context, r probe.Running) error {
		defer func() { _, _ = r.Input.WriteString("go\n") }() // else it waits for its deadline
		if err := awaitText(ctx, r, "END\n"); err != nil || step != "running" {
			return err
		}
		return play(r)
	}
	if step == "judged" {
		a.After = play
	}
	report, err := s.bench.Run(ctx, a)
	if err != nil {
		return err
	}
	if !played {
		return errors.New("the core ended before the trick was played")
	}
	c := evidence.Case{
		ID: id, Title: "a name of the slot is changed behind the launcher: " + t.name, Requirements: []string{"JOB-11", "JOB-12", "SBX-03", "SBX-12"}, Threats: []string{"BOX-T2", "LCH-T2", "BOX-T1"},
		Tried: "the trick, while the core is " + step, Oracle: "the verdict and the bytes that are taken; a file of the host that the name leads to; what is left", Verdict: evidence.Held,
		DurationMS: time.Since(started).Milliseconds(),
	}
	// What is changed after the judgement is of no consequence: bytes come by the
	// descriptor that was judged.
	taken := t.taken || step == "judged"
	accepted := report.Verdict.Succeeded()
	c.Detail = fmt.Sprintf("%s, result taken: %v %s", report.Outcome(), accepted, report.Verdict.Result.Problem)
	kept, err := os.ReadFile(secretPath)
	switch {
	case err != nil || string(kept) != secret:
		c.Verdict, c.Detail = evidence.Breached, fmt.Sprintf("the host's file was changed or removed (%v); %s", err, c.Detail)
	case bytes.Contains(report.Result, []byte(secret)):
		c.Verdict, c.Detail = evidence.Breached, "the host's file came out as the result; "+c.Detail
	case accepted != taken:
		c.Verdict, c.Detail = evidence.Breached, fmt.Sprintf("wanted taken: %v; %s", taken, c.Detail)
	case accepted && !bytes.Contains(report.Result, []byte("END\n")):
		c.Verdict, c.Detail = evidence.Breached, "other bytes are taken than the core wrote; "+c.Detail
	}
	s.file(c)
	return nil
}
