package selftest_test

import (
	"context"
	_ "embed"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"glovebox/ci/engine"
	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/enginetest"
	"glovebox/system/worker/internal/container/podman"
	"glovebox/system/worker/internal/container/seccomp"
	"glovebox/system/worker/internal/container/selftest"
	"glovebox/threat-model/evidence"
)

//go:embed program/probe.c
var probeSource []byte

// saboteur takes a wall away behind the launcher's back, as a host does that
// does not enforce what it was asked.
type saboteur struct {
	enginetest.Engine
	spec  func(*container.Spec)
	after func(t *testing.T, s container.Spec)
	t     *testing.T
}

func (s *saboteur) Prepare(ctx context.Context, spec container.Spec) (int, error) {
	if s.spec != nil {
		s.spec(&spec)
	}
	pid, err := s.Engine.Prepare(ctx, spec)
	if s.after != nil && err == nil {
		s.after(s.t, spec)
	}
	return pid, err
}

func tester(t *testing.T, engine enginetest.Engine) *selftest.Tester {
	t.Helper()
	img := enginetest.ImageOf(t, enginetest.Compile(t, probeSource))
	m := enginetest.Maker(t, engine, img, nil)
	policy, err := seccomp.Load()
	if err != nil {
		t.Fatal(err)
	}
	text, err := policy.With("clone").Render(seccomp.Probe)
	if err != nil {
		t.Fatal(err)
	}
	tasks := filepath.Join(t.TempDir(), "tasks.json")
	if err := os.WriteFile(tasks, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return &selftest.Tester{
		Maker: *m, Probe: img, Slot: 5,
		Profiles: selftest.Profiles{Core: m.Profile, Probe: enginetest.Profile(t, seccomp.Probe), Tasks: tasks},
	}
}

// setCgroup writes a control file of the attempt's parent group.
func setCgroup(controller, file, value string) func(*testing.T, container.Spec) {
	return func(t *testing.T, s container.Spec) {
		path := filepath.Join("/sys/fs/cgroup", controller, s.CgroupParent, file)
		if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
			t.Error(err)
		}
	}
}

func rlimit(name string, value uint64) func(*container.Spec) {
	return func(s *container.Spec) {
		for i := range s.Rlimits {
			if s.Rlimits[i].Name == name {
				s.Rlimits[i].Value = value
			}
		}
	}
}

// Each wall taken away is missed by its name, and nothing else is.
func TestEachMissingWallIsNamed(t *testing.T) {
	evidence.Proves(t, "SBX-10", "SBX-04", "SBX-06", "SBX-01", "SBX-05")
	real := enginetest.Podman(t)
	for name, c := range map[string]struct {
		spec   func(*container.Spec)
		after  func(*testing.T, container.Spec)
		probes []string
		want   []string
	}{
		"nothing": {nil, nil, nil, nil},
		"memory limit": {
			func(s *container.Spec) { s.MemoryBytes = 1 << 40 },
			func(t *testing.T, s container.Spec) {
				setCgroup("memory", "memory.memsw.limit_in_bytes", "-1")(t, s)
				setCgroup("memory", "memory.limit_in_bytes", "-1")(t, s)
			}, []string{"walls", "memory"}, []string{"memory"},
		},
		"address space": {rlimit("as", 1<<44), nil, []string{"address_space", "memory"}, []string{"address_space"}},
		"task limit":    {func(s *container.Spec) { s.Pids = 4096 }, setCgroup("pids", "pids.max", "max"), []string{"tasks", "walls"}, []string{"tasks"}},
		"cpu quota": { // before the container is made, which the kernel would hold back too
			func(s *container.Spec) { setCgroup("cpu", "cpu.cfs_quota_us", "-1")(t, *s) }, nil, []string{"cpu", "walls"}, []string{"cpu"},
		},
		"file size":         {rlimit("fsize", 1<<40), nil, []string{"walls"}, []string{"file_size"}},
		"no new privileges": {func(s *container.Spec) { s.NoNewPrivileges = false }, nil, []string{"walls", "memory"}, []string{"probe_walls", "probe_memory"}}, // the filter cannot be loaded without it: no start at all
		"capabilities":      {func(s *container.Spec) { s.DropCapabilities = nil }, nil, []string{"walls"}, []string{"capabilities_bounding"}},
		"user":              {func(s *container.Spec) { s.UID = 1000 }, nil, []string{"walls"}, []string{"user"}},
		"seccomp": {
			func(s *container.Spec) { s.SeccompProfile = "unconfined" }, nil, []string{"walls", "forbidden"},
			[]string{"seccomp_mode", "seccomp_kill", "socket_inet", "socket_unix", "unshare_user", "fork", "memfd", "write_exec", "preallocate", "clone_process"},
		},
		"proc": {
			func(s *container.Spec) { s.Mounts = s.Mounts[1:] }, nil, []string{"walls"}, []string{"proc_counters"},
		},
		"input mounted for writing":           {func(s *container.Spec) { s.Mounts[1].Options[1] = "rw" }, nil, []string{"walls"}, []string{"input_read_only"}},
		"root filesystem mounted for writing": {func(s *container.Spec) { s.ReadOnlyRootfs = false }, nil, []string{"walls"}, []string{"root_read_only"}},
	} {
		t.Run(name, func(t *testing.T) {
			tt := tester(t, &saboteur{real, c.spec, c.after, t})
			tt.TestOnlyProbes(c.probes...)
			report := tt.Run(t.Context())
			missing := report.Missing()
			if len(c.want) == 0 && !report.Passed() {
				t.Errorf("missing with all walls standing: %v\n%+v", missing, report)
			}
			if c.probes == nil && len(report.Walls) < 30 {
				t.Errorf("only %d walls were tried", len(report.Walls))
			}
			for _, want := range c.want {
				if !slices.Contains(missing, want) {
					t.Errorf("%s is not missed; missing are %v", want, missing)
				}
			}
			if len(c.want) == 1 && len(missing) != 1 {
				t.Errorf("missing are %v, wanted %v alone", missing, c.want)
			}
		})
	}
}

// An engine without an audit login id lets the core set one, and by that move a
// counter that other jobs can read. Where this machine's login gave it one already,
// it cannot be taken away, and the wall stands.
func TestEngineWithoutALoginIDIsNamed(t *testing.T) {
	evidence.Proves(t, "SBX-10", "SBX-15")
	own, err := os.ReadFile("/proc/self/loginuid")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	unset := string(own) == "4294967295"
	for _, c := range []struct {
		without bool
		missing bool
	}{{false, false}, {true, unset}} {
		e, err := podman.Open(t.Context(), enginetest.ServiceWith(t, engine.Options{NoLoginID: c.without}).Socket, "runc")
		if err != nil {
			t.Fatal(err)
		}
		tt := tester(t, e)
		tt.TestOnlyProbes("walls")
		report := tt.Run(t.Context())
		missing := report.Missing()
		if slices.Contains(missing, "login_id") != c.missing || len(missing) > 1 {
			t.Errorf("without a login id %v: missing are %v", c.without, missing)
		}
		for _, w := range report.Walls {
			if remedy := strings.Contains(w.Detail, "/proc/self/loginuid"); remedy != (w.Name == "login_id" && c.missing) {
				t.Errorf("without a login id %v: %s met %q", c.without, w.Name, w.Detail)
			}
		}
	}
}
