//go:build crashpoints

package crashpoint

import (
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
)

// The environment that this build reads: the point, how often it is passed
// before it acts (0 when unset), and kill (when unset) or stop.
const (
	AtEnv   = "GLOVEBOX_CRASH_AT"
	SkipEnv = "GLOVEBOX_CRASH_SKIP"
	HowEnv  = "GLOVEBOX_CRASH_HOW"
)

var passed atomic.Int64

// Reached ends or stops the process here when the environment says so. SIGKILL
// runs no deferred call and flushes nothing, like a power cut of one process.
func Reached(p Point) {
	if os.Getenv(AtEnv) != string(p) {
		return
	}
	skip, _ := strconv.ParseInt(os.Getenv(SkipEnv), 10, 64)
	if passed.Add(1) != skip+1 {
		return
	}
	signal := syscall.SIGKILL
	if os.Getenv(HowEnv) == "stop" {
		signal = syscall.SIGSTOP
	}
	_ = syscall.Kill(os.Getpid(), signal)
}
