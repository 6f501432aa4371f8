// Package selftest tries the walls of the sandbox on this host, from inside, in
// the spec that the core will run in.
//
// Nothing else is evidence: an engine accepts limits that nobody enforces and
// reports them as set (Q21). A wall counts as standing when a probe ran into it;
// a probe that could not run counts against its walls. Where one wall hides the
// next, the one in front is lifted for that probe alone and the probe says so:
//
//	probe          lifted                           shows
//	walls          the filter's kill (EPERM)        identity, filter, sockets, mounts, file size
//	memory         address space                    the cgroup's memory limit
//	address_space  -                                the core's own address space
//	tasks          the filter's rule on clone       the task limit
//	cpu            quota set to a twentieth          the quota
//	forbidden      -                                the filter's kill
//	endless        deadline set to half a second    the deadline
package selftest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/image"
	"glovebox/system/worker/internal/container/slot"
	"glovebox/system/worker/internal/container/verdict"
)

// maxFindings bounds what is read of a probe's result.
const maxFindings = 32 << 10

// closeTimeout bounds the removal of one probe.
const closeTimeout = 30 * time.Second

// Wall is one line of the report.
type Wall struct {
	Name   string `json:"name"`
	Stands bool   `json:"stands"`
	Detail string `json:"detail"` // what was met, or what was wanted and not met
}

// Report is the outcome of a self-test.
type Report struct {
	At         time.Time `json:"at"`
	DurationMS int64     `json:"duration_ms"`
	Walls      []Wall    `json:"walls"`
}

// Missing names the walls that do not stand.
func (r Report) Missing() []string {
	var names []string
	for _, w := range r.Walls {
		if !w.Stands {
			names = append(names, w.Name)
		}
	}
	return names
}

// Passed reports whether there are walls and all of them stand.
func (r Report) Passed() bool { return len(r.Walls) > 0 && len(r.Missing()) == 0 }

// Profiles are host paths of the seccomp profiles the probes run under.
type Profiles struct {
	Core  string // the core's own
	Probe string // the same list, EPERM in place of the kill
	Tasks string // the probe's, with clone allowed
}

// Tester runs the probes.
type Tester struct {
	Maker    slot.Maker   // the core's: engine, limits, filesystem
	Probe    *image.Image // of probe.c
	Profiles Profiles
	Slot     int // index of a slot that nothing else uses

	testOnlyProbes []string // if set, the only probes that are run
}

// Run tries every wall. It does not end at the first that is missing.
func (t *Tester) Run(ctx context.Context) Report {
	started := time.Now()
	r := Report{At: started.UTC()}
	for _, p := range t.probes() {
		if len(t.testOnlyProbes) > 0 && !slices.Contains(t.testOnlyProbes, p.name) {
			continue
		}
		f, err := t.try(ctx, p)
		if err != nil {
			r.Walls = append(r.Walls, Wall{Name: "probe_" + p.name, Detail: err.Error()})
			continue
		}
		r.Walls = append(r.Walls, p.judge(f)...)
	}
	r.DurationMS = time.Since(started).Milliseconds()
	return r
}

// finding is what one probe brought back.
type finding struct {
	verdict   verdict.Verdict
	lines     string
	throttled int // how often the kernel held it back for the quota
}

// number returns the value the probe said of name.
func (f finding) number(name string) (int64, error) {
	for line := range strings.SplitSeq(f.lines, "\n") {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseInt(text, 10, 64)
		}
	}
	return 0, errors.New("the probe says nothing of it")
}

// status returns the words of a field of /proc/self/status.
func (f finding) status(field string) string {
	for line := range strings.SplitSeq(f.lines, "\n") {
		if rest, ok := strings.CutPrefix(line, "status: "+field+":"); ok {
			return strings.Join(strings.Fields(rest), " ")
		}
	}
	return "absent"
}

// try runs one probe as an attempt like any other. One that cannot be removed again
// proves nothing: the core could not be either.
func (t *Tester) try(ctx context.Context, p probe) (f finding, err error) {
	m := t.Maker
	m.Image, m.Profile, m.Alter = t.Probe, p.profile, p.alter
	m.FS.ImageBytes, m.FS.ImageFiles = t.Probe.Bytes, t.Probe.Files
	if p.limits != nil {
		p.limits(&m.Limits)
	}
	a, err := m.Acquire(ctx, t.Slot)
	if a != nil {
		defer func() {
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
			defer cancel()
			if closeErr := a.Close(closing); closeErr != nil { // what is left is found by the next clean-up
				err = errors.Join(err, fmt.Errorf("remove the probe: %w", closeErr))
			}
		}()
	}
	if err != nil {
		return finding{}, err
	}
	if _, err = io.WriteString(a.Input(), p.command); err != nil {
		return finding{}, fmt.Errorf("write the probe's command: %w", err)
	}
	v, err := a.Run(ctx)
	if err != nil {
		return finding{}, err
	}
	if v.Kind == verdict.SandboxFailure || v.Kind == verdict.Killed {
		return finding{}, fmt.Errorf("the probe did not run: %s %s", v.Kind, v.Detail)
	}
	lines, err := io.ReadAll(io.LimitReader(a.Result(), maxFindings))
	if err != nil {
		return finding{}, fmt.Errorf("read the probe's result: %w", err)
	}
	throttled, err := a.Throttled()
	if err != nil {
		return finding{}, err
	}
	// Behind the lines the file may be a hole up to its bound.
	text, _, _ := strings.Cut(string(lines), "\x00")
	return finding{verdict: v, lines: text, throttled: throttled}, nil
}

// setRlimit changes one limit of a spec.
func setRlimit(s *container.Spec, name string, value uint64) {
	for i := range s.Rlimits {
		if s.Rlimits[i].Name == name {
			s.Rlimits[i].Value = value
		}
	}
}
