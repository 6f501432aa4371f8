package verdict_test

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/system/worker/internal/container/verdict"
	"glovebox/threat-model/evidence"
)

const (
	exit0   = unix.WaitStatus(0)
	exit137 = unix.WaitStatus(137 << 8)
	exit3   = unix.WaitStatus(3 << 8)
	sigKill = unix.WaitStatus(9)
	sigSegv = unix.WaitStatus(11)
	sigSys  = unix.WaitStatus(31)
	stopped = unix.WaitStatus(0x137f)
)

func TestJudge(t *testing.T) {
	evidence.Proves(t, "JOB-11", "SBX-04")
	for name, c := range map[string]struct {
		facts  verdict.Facts
		kind   verdict.Kind
		exit   int
		signal int
	}{
		"success":                               {verdict.Facts{Status: exit0}, verdict.Exited, 0, 0},
		"exit 3":                                {verdict.Facts{Status: exit3}, verdict.Exited, 3, 0},
		"exit 137 is an exit":                   {verdict.Facts{Status: exit137}, verdict.Exited, 137, 0},
		"a kill from the host is no crash":      {verdict.Facts{Status: sigKill}, verdict.SandboxFailure, 0, 0},
		"crash":                                 {verdict.Facts{Status: sigSegv}, verdict.Signaled, 0, 11},
		"forbidden call":                        {verdict.Facts{Status: sigSys}, verdict.Signaled, 0, 31},
		"memory":                                {verdict.Facts{Status: sigKill, MemoryKilled: true}, verdict.OutOfMemory, 0, 0},
		"memory of a child, parent exits 0":     {verdict.Facts{Status: exit0, MemoryKilled: true}, verdict.OutOfMemory, 0, 0},
		"deadline":                              {verdict.Facts{Status: sigKill, DeadlineOver: true}, verdict.Timeout, 0, 0},
		"deadline is never memory":              {verdict.Facts{Status: sigKill, DeadlineOver: true, MemoryKilled: true}, verdict.Timeout, 0, 0},
		"the client's kill":                     {verdict.Facts{Status: sigKill, KilledByUs: true}, verdict.Killed, 0, 0},
		"the client's kill is never a deadline": {verdict.Facts{Status: sigKill, KilledByUs: true, DeadlineOver: true}, verdict.Killed, 0, 0},
		"a status that is no end":               {verdict.Facts{Status: stopped}, verdict.SandboxFailure, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.facts.Duration = 1500 * time.Millisecond
			v := verdict.Judge(c.facts)
			if v.Kind != c.kind || v.ExitCode != c.exit || v.Signal != c.signal {
				t.Errorf("verdict is %+v", v)
			}
			if v.Kind != verdict.SandboxFailure && v.DurationMS != 1500 {
				t.Errorf("duration is %d", v.DurationMS)
			}
			if v.Forbidden() != (name == "forbidden call") {
				t.Errorf("forbidden is %v", v.Forbidden())
			}
		})
	}
}

func TestEngineCodesAreNeverKinderThanTheyMayBe(t *testing.T) {
	for code, want := range map[int]unix.WaitStatus{
		0: exit0, 3: exit3, 137: sigKill, 139: sigSegv, 159: sigSys, 128: unix.WaitStatus(128 << 8), 255: unix.WaitStatus(255 << 8),
	} {
		if got := verdict.FromEngineCode(code); got != want {
			t.Errorf("engine code %d became %#x, wanted %#x", code, uint32(got), uint32(want))
		}
	}
}

func TestFailureIsBounded(t *testing.T) {
	if v := verdict.Failure(strings.Repeat("x", 10_000)); len(v.Detail) != verdict.MaxDetail {
		t.Errorf("detail has %d bytes", len(v.Detail))
	}
}

func TestJudgeResult(t *testing.T) {
	evidence.Proves(t, "JOB-12", "SBX-03")
	const bound = 1 << 20
	before := unix.Stat_t{Dev: 1, Ino: 2, Mode: unix.S_IFREG | 0o660, Nlink: 1, Uid: 0, Gid: 365532}
	good := before
	good.Size, good.Blocks = bound, bound/512
	for problem, change := range map[verdict.Problem]func(*unix.Stat_t){
		"":                  func(*unix.Stat_t) {},
		verdict.OtherFile:   func(s *unix.Stat_t) { s.Ino++ },
		verdict.NotRegular:  func(s *unix.Stat_t) { s.Mode = unix.S_IFLNK | 0o777 },
		verdict.Links:       func(s *unix.Stat_t) { s.Nlink = 2 },
		verdict.TooLarge:    func(s *unix.Stat_t) { s.Size++ },
		verdict.TooManyBlk:  func(s *unix.Stat_t) { s.Blocks = (bound+64<<10)/512 + 1 },
		verdict.ModeChanged: func(s *unix.Stat_t) { s.Mode |= unix.S_ISUID },
		verdict.OwnerChange: func(s *unix.Stat_t) { s.Gid = 0 },
	} {
		t.Run("problem "+string(problem), func(t *testing.T) {
			after := good
			change(&after)
			r := verdict.JudgeResult(before, after, bound)
			if r.Problem != problem || r.OK != (problem == "") {
				t.Errorf("result is %+v", r)
			}
		})
	}
}

// An engine that cannot tell the status of a decided attempt is not asked twice: its
// word would change nothing.
func TestDecidedIsWhatTheStatusDoesNotChange(t *testing.T) {
	evidence.Proves(t, "JOB-11")
	statuses := []unix.WaitStatus{exit0, exit3, exit137, sigKill, sigSegv, sigSys, stopped}
	for bits := range 8 {
		f := verdict.Facts{KilledByUs: bits&1 != 0, DeadlineOver: bits&2 != 0, MemoryKilled: bits&4 != 0}
		kinds := map[verdict.Kind]bool{}
		for _, f.Status = range statuses {
			kinds[verdict.Judge(f).Kind] = true
		}
		if f.Decided() != (len(kinds) == 1) {
			t.Errorf("%+v: decided is %v, verdicts are %v", f, f.Decided(), kinds)
		}
	}
}
