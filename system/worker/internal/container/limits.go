package container

import (
	"fmt"
	"time"
)

// Limits bound one attempt. They are the launcher's configuration; no request
// carries any of them.
type Limits struct {
	MemoryBytes       int64         // RAM of the attempt, its engine monitor included; no swap
	AddressSpaceBytes int64         // RLIMIT_AS of the core
	Pids              int64         // threads of the core
	CPUs              float64       // processors' worth of time, 1.0 = one processor
	OpenFiles         uint64        // RLIMIT_NOFILE of the core
	MaxInputBytes     int64         // size of the input
	MaxResultBytes    int64         // size of a result that is taken; see FileSizeLimit
	Timeout           time.Duration // from the core's start to its death
}

// Defaults of the sandbox (DESIGN §5).
func Defaults() Limits {
	return Limits{
		MemoryBytes:       768 << 20,
		AddressSpaceBytes: 1536 << 20,
		Pids:              16,
		CPUs:              1,
		OpenFiles:         64,
		MaxInputBytes:     10 << 20,
		MaxResultBytes:    64 << 20,
		Timeout:           30 * time.Second,
	}
}

// FileSizeLimit is the core's RLIMIT_FSIZE: one byte more than may be taken. A core
// that looks away when a write fails fills its file to the limit and says success;
// that byte gives it away, where a result cut at MaxResultBytes would pass for whole
// (JOB-12).
func (l Limits) FileSizeLimit() int64 { return l.MaxResultBytes + 1 }

// Bounds of what may be configured. The floors are what a trivial core and the
// engine's own start-up were seen to need, with a margin.
const (
	MinMemoryBytes       = 32 << 20
	MinAddressSpaceBytes = 128 << 20
	MaxFileBytes         = 64 << 30
)

// Validate names the first limit that no sandbox can be made with.
func (l Limits) Validate() error {
	switch {
	case l.MemoryBytes < MinMemoryBytes:
		return fmt.Errorf("memory limit %d is below %d bytes", l.MemoryBytes, int64(MinMemoryBytes))
	case l.AddressSpaceBytes < MinAddressSpaceBytes:
		return fmt.Errorf("address space limit %d is below %d bytes", l.AddressSpaceBytes, int64(MinAddressSpaceBytes))
	case l.Pids < 1 || l.Pids > 4096:
		return fmt.Errorf("thread limit %d is not in 1 to 4096", l.Pids)
	case l.CPUs < 0.05 || l.CPUs > 256:
		return fmt.Errorf("cpu limit %g is not in 0.05 to 256", l.CPUs)
	case l.OpenFiles < 16 || l.OpenFiles > 1024:
		return fmt.Errorf("open file limit %d is not in 16 to 1024", l.OpenFiles)
	case l.MaxInputBytes < 1 || l.MaxInputBytes > MaxFileBytes:
		return fmt.Errorf("input limit %d is not in 1 to %d bytes", l.MaxInputBytes, int64(MaxFileBytes))
	case l.MaxResultBytes < 1 || l.MaxResultBytes > MaxFileBytes:
		return fmt.Errorf("result limit %d is not in 1 to %d bytes", l.MaxResultBytes, int64(MaxFileBytes))
	case l.Timeout < 10*time.Millisecond || l.Timeout > 24*time.Hour:
		return fmt.Errorf("timeout %s is not in 10ms to 24h", l.Timeout)
	}
	return nil
}
