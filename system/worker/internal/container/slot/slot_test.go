package slot_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/system/worker/internal/container"
	"glovebox/system/worker/internal/container/enginetest"
	"glovebox/system/worker/internal/container/slot"
	"glovebox/system/worker/internal/container/verdict"
	"glovebox/threat-model/evidence"
)

// attempt acquires slot index and writes script as its input.
func attempt(t *testing.T, m *slot.Maker, index int, script string) *slot.Attempt {
	t.Helper()
	a, err := m.Acquire(t.Context(), index)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAttempt(t, a) })
	if _, err := a.Input().WriteString(script); err != nil {
		t.Fatal(err)
	}
	return a
}

func closeAttempt(t *testing.T, a *slot.Attempt) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := a.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

func run(t *testing.T, a *slot.Attempt) verdict.Verdict {
	t.Helper()
	v, err := a.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A core that fills its file to the kernel's limit has gone beyond the bound,
// whatever it says of it: the byte above tells a cut result from a whole one.
func TestResultBeyondItsBoundIsRefused(t *testing.T) {
	evidence.Proves(t, "JOB-12", "SBX-04")
	m := enginetest.Maker(t, enginetest.Podman(t), enginetest.Scripted(t), nil)
	v := run(t, attempt(t, m, 0, "fill"))
	if v.Kind != verdict.Exited || v.ExitCode != 5 || v.Result.OK || v.Result.Problem != verdict.TooLarge || v.Result.Size != m.Limits.MaxResultBytes+1 {
		t.Errorf("verdict is %+v", v)
	}
}

func TestVerdicts(t *testing.T) {
	evidence.Proves(t, "JOB-11", "SBX-04", "SBX-06", "COR-02")
	m := enginetest.Maker(t, enginetest.Podman(t), enginetest.Scripted(t), func(l *container.Limits) { l.Timeout = 10 * time.Second })
	short := *m
	short.Limits.Timeout = 300 * time.Millisecond
	for name, c := range map[string]struct {
		script string
		want   verdict.Verdict
		result string
	}{
		"success":                       {"copy\nhello", verdict.Verdict{Kind: verdict.Exited}, "hello"},
		"refused input":                 {"exit 3", verdict.Verdict{Kind: verdict.Exited, ExitCode: 3}, "half"},
		"nothing written":               {"nothing", verdict.Verdict{Kind: verdict.Exited}, ""},
		"forged kill":                   {"exit 137", verdict.Verdict{Kind: verdict.Exited, ExitCode: 137}, "half"},
		"forged crash":                  {"exit 139", verdict.Verdict{Kind: verdict.Exited, ExitCode: 139}, "half"},
		"forged forbidden call":         {"exit 159", verdict.Verdict{Kind: verdict.Exited, ExitCode: 159}, "half"},
		"forged engine code":            {"exit 125", verdict.Verdict{Kind: verdict.Exited, ExitCode: 125}, "half"},
		"forged minus one":              {"exit 255", verdict.Verdict{Kind: verdict.Exited, ExitCode: 255}, "half"},
		"crash":                         {"segv", verdict.Verdict{Kind: verdict.Signaled, Signal: int(unix.SIGSEGV)}, ""},
		"socket":                        {"socket", verdict.Verdict{Kind: verdict.Signaled, Signal: int(unix.SIGSYS)}, ""},
		"fork":                          {"fork", verdict.Verdict{Kind: verdict.Signaled, Signal: int(unix.SIGSYS)}, ""},
		"writable and executable":       {"wx", verdict.Verdict{Kind: verdict.Signaled, Signal: int(unix.SIGSYS)}, ""},
		"chmod of the result":           {"chmod", verdict.Verdict{Kind: verdict.Signaled, Signal: int(unix.SIGSYS)}, ""},
		"memory":                        {"memory", verdict.Verdict{Kind: verdict.OutOfMemory}, ""},
		"flood on the standard output":  {"flood 64", verdict.Verdict{Kind: verdict.Exited}, "done"},
		"end with a thread running":     {"threads", verdict.Verdict{Kind: verdict.Exited}, "done"},
		"loop":                          {"loop", verdict.Verdict{Kind: verdict.Timeout}, ""},
		"sleep":                         {"sleep", verdict.Verdict{Kind: verdict.Timeout}, ""},
		"main thread gone, another not": {"late", verdict.Verdict{Kind: verdict.Timeout}, "half"},
	} {
		t.Run(name, func(t *testing.T) {
			maker := m
			if c.want.Kind == verdict.Timeout {
				maker = &short
			}
			a := attempt(t, maker, 0, c.script)
			v := run(t, a)
			if v.Kind != c.want.Kind || v.ExitCode != c.want.ExitCode || v.Signal != c.want.Signal {
				t.Errorf("verdict is %+v", v)
			}
			if !v.Result.OK || v.Result.Size != int64(len(c.result)) {
				t.Errorf("result is %+v, wanted %d bytes in order", v.Result, len(c.result))
			}
			content, err := io.ReadAll(a.Result())
			if err != nil || string(content) != c.result {
				t.Errorf("result holds %d bytes, %v", len(content), err)
			}
			if v.ImageDigest != string(m.Image.Ref.Digest) || v.ImageID != string(m.Image.ID) {
				t.Errorf("verdict names image %s, %s", v.ImageDigest, v.ImageID)
			}
			if v.Succeeded() != (v.Kind == verdict.Exited && v.ExitCode == 0) {
				t.Errorf("succeeded is %v", v.Succeeded())
			}
		})
	}
}

// A child killed for memory under a parent that ends well. The core can make no
// child, so the test puts one into the slot's cgroup: the spec less one wall.
func TestMemoryOfAChildIsNotSuccess(t *testing.T) {
	evidence.Proves(t, "SBX-04", "JOB-11")
	bare := enginetest.NewBare(t)
	m := enginetest.Maker(t, bare, enginetest.Scripted(t), nil)
	a := attempt(t, m, 0, "copy\nhello")
	dirs, err := m.Tree.Enter("/" + enginetest.Label + "/" + a.Name + "/child")
	if err != nil {
		t.Fatal(err)
	}
	enginetest.RunIn(t, dirs, "exec tail /dev/zero")
	if v := run(t, a); v.Kind != verdict.OutOfMemory {
		t.Errorf("verdict is %+v", v)
	}
}

func TestKillByTheCaller(t *testing.T) {
	evidence.Proves(t, "JOB-08", "SBX-12")
	m := enginetest.Maker(t, enginetest.Podman(t), enginetest.Scripted(t), nil)
	a := attempt(t, m, 0, "loop")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan verdict.Verdict, 1)
	go func() {
		v, _ := a.Run(ctx)
		done <- v
	}()
	enginetest.AwaitCore(t, m.Tree, a.Name)
	cancel()
	if v := <-done; v.Kind != verdict.Killed {
		t.Errorf("verdict is %+v", v)
	}
}

func TestRefusalsBeforeTheStart(t *testing.T) {
	m := enginetest.Maker(t, enginetest.NewBare(t), enginetest.Scripted(t), nil)
	a := attempt(t, m, 0, "copy\n"+strings.Repeat("x", 1<<20))
	if _, err := a.Run(t.Context()); !errors.Is(err, slot.ErrInputTooLarge) {
		t.Errorf("an input beyond the limit: %v", err)
	}
	if err := a.Input().Truncate(5); err != nil {
		t.Fatal(err)
	}
	if v := run(t, a); !v.Succeeded() {
		t.Errorf("verdict is %+v", v)
	}
	if _, err := a.Run(t.Context()); !errors.Is(err, slot.ErrUsed) {
		t.Errorf("a second run: %v", err)
	}
}

func TestEngineFaultsAreSandboxFailures(t *testing.T) {
	bare := enginetest.NewBare(t)
	m := enginetest.Maker(t, bare, enginetest.Scripted(t), nil)
	a := attempt(t, m, 0, "copy\n")
	bare.SetFailures(errors.New("engine is ill"), nil)
	v := run(t, a)
	if v.Kind != verdict.SandboxFailure || !strings.Contains(v.Detail, "engine is ill") || v.Result.OK {
		t.Errorf("verdict is %+v", v)
	}
}

// Close does what it can, says what it could not, and ends the job when called
// again: nothing but the engine's own record waits for the engine.
func TestCloseIsRepeatable(t *testing.T) {
	evidence.Proves(t, "SBX-12")
	bare := enginetest.NewBare(t)
	m := enginetest.Maker(t, bare, enginetest.Scripted(t), nil)
	a := attempt(t, m, 0, "loop")
	done := make(chan verdict.Verdict, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		v, _ := a.Run(ctx)
		done <- v
	}()
	enginetest.AwaitCore(t, m.Tree, a.Name)
	cancel()
	<-done
	bare.SetFailures(nil, errors.New("engine is gone"))
	if err := a.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "engine is gone") {
		t.Errorf("close: %v", err)
	}
	if names, err := m.Tree.Leftovers(enginetest.Label); err != nil || len(names) > 0 {
		t.Errorf("cgroups wait for the engine: %v, %v", names, err)
	}
	bare.SetFailures(nil, nil)
	closeAttempt(t, a)
	closeAttempt(t, a)
}

func TestTwoSlotsAtOnce(t *testing.T) {
	evidence.Proves(t, "SBX-15", "JOB-10")
	m := enginetest.Maker(t, enginetest.Podman(t), enginetest.Scripted(t), nil)
	var wg sync.WaitGroup
	for index := range 2 {
		wg.Go(func() {
			for range 5 {
				a, err := m.Acquire(t.Context(), index)
				if err != nil {
					t.Error(err)
					return
				}
				text := strings.Repeat(string(rune('a'+index)), 1000)
				if _, err := a.Input().WriteString("copy\n" + text); err != nil {
					t.Error(err)
				}
				v, err := a.Run(t.Context())
				if err != nil || !v.Succeeded() {
					t.Errorf("verdict is %+v, %v", v, err)
				}
				if content, err := io.ReadAll(a.Result()); err != nil || string(content) != text {
					t.Errorf("slot %d read %d bytes, %v", index, len(content), err)
				}
				closeAttempt(t, a)
			}
		})
	}
	wg.Wait()
}

// elsewhere is an engine that puts the container where it likes.
type elsewhere struct {
	*enginetest.Bare
	parent string
}

func (e elsewhere) Prepare(ctx context.Context, spec container.Spec) (int, error) {
	spec.CgroupParent = e.parent
	return e.Bare.Prepare(ctx, spec)
}

// A process outside the slot's cgroup is under no limit of the slot's: it is not
// started.
func TestEngineThatIgnoresTheCgroup(t *testing.T) {
	evidence.Proves(t, "SBX-04", "SBX-16")
	bare := enginetest.NewBare(t)
	m := enginetest.Maker(t, bare, enginetest.Scripted(t), nil)
	other := m.Tree.Group(enginetest.Label, "other")
	m.Engine = elsewhere{bare, other.Path()}
	a := attempt(t, m, 0, "exit 0")
	v := run(t, a)
	if v.Kind != verdict.SandboxFailure || !strings.Contains(v.Detail, "not in the slot's cgroup") || v.Result.Size != 0 {
		t.Errorf("verdict is %+v", v)
	}
	closeAttempt(t, a)
	if err := other.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

// A process that outlives the core in its cgroup could still write the result.
// It is dead before the result is judged.
func TestLeftoverProcessDiesBeforeTheJudgement(t *testing.T) {
	evidence.Proves(t, "SBX-12", "JOB-12")
	m := enginetest.Maker(t, enginetest.NewBare(t), enginetest.Scripted(t), nil)
	a := attempt(t, m, 0, "copy\nhello")
	dirs, err := m.Tree.Enter("/" + enginetest.Label + "/" + a.Name + "/leftover")
	if err != nil {
		t.Fatal(err)
	}
	leftover := enginetest.StartIn(t, dirs, "sleep 300")
	if v := run(t, a); !v.Succeeded() {
		t.Errorf("verdict is %+v", v)
	}
	if err := syscall.Kill(leftover, 0); err == nil && !zombie(t, leftover) {
		t.Errorf("process %d lives on after the verdict", leftover)
	}
}

func zombie(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true // gone and reaped
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z")
}
