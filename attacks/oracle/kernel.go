package oracle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// CgroupOf returns the path of a process's cgroup in each hierarchy, by
// controllers ("memory", "cpu,cpuacct"; "" is the unified one).
func CgroupOf(pid int) (map[string]string, error) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return nil, fmt.Errorf("read the cgroup of process %d: %w", pid, err)
	}
	paths := map[string]string{}
	for line := range strings.Lines(strings.TrimSpace(string(content))) {
		if parts := strings.SplitN(strings.TrimSpace(line), ":", 3); len(parts) == 3 {
			paths[parts[1]] = parts[2]
		}
	}
	return paths, nil
}

// Vmstat returns a counter of /proc/vmstat, such as oom_kill.
func Vmstat(name string) (int64, error) {
	content, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return 0, fmt.Errorf("read the kernel's counters: %w", err)
	}
	for line := range strings.Lines(string(content)) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == name {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, fmt.Errorf("the kernel has no counter %s", name)
}

// CPUTime returns the processor time a process has used.
func CPUTime(pid int) (time.Duration, error) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, fmt.Errorf("read the clock of process %d: %w", pid, err)
	}
	text := string(content)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("read the clock of process %d: unknown form", pid)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	const ticksPerSecond = 100 // USER_HZ of every Linux port that Go runs on
	return time.Duration(user+system) * time.Second / ticksPerSecond, err
}

// MemoryWatch follows how much memory processes have resident.
type MemoryWatch struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu   sync.Mutex
	base map[int]int64
	most map[int]int64
}

// WatchMemory looks at the processes every interval until Growth is called.
func WatchMemory(interval time.Duration, pids ...int) (*MemoryWatch, error) {
	ctx, stop := context.WithCancel(context.Background())
	w := &MemoryWatch{stop: stop, base: map[int]int64{}, most: map[int]int64{}}
	for _, pid := range pids {
		p, err := ReadProcess(pid)
		if err != nil {
			stop()
			return nil, err
		}
		w.base[pid], w.most[pid] = p.RSS, p.RSS
	}
	w.done.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				w.look(pids)
			}
		}
	})
	return w, nil
}

func (w *MemoryWatch) look(pids []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, pid := range pids {
		if p, err := ReadProcess(pid); err == nil {
			w.most[pid] = max(w.most[pid], p.RSS)
		}
	}
}

// Growth ends the watch and returns the largest growth of one process, in bytes.
func (w *MemoryWatch) Growth() (most int64) {
	w.stop()
	w.done.Wait()
	for pid, base := range w.base {
		most = max(most, w.most[pid]-base)
	}
	return most
}
