package suite

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/system/worker/probe"
	"glovebox/threat-model/evidence"
)

// account is one question put to the host's own books about an attempt.
type account struct {
	id, title, order string
	requirements     []string
	threats          []string
	oracle           string
	adjust           func(*probe.Limits)
	named            bool // the program takes a random name, by which lines are found; else by the slot's user
	lines            int  // how many lines in the kernel's log are allowed
	// ask looks when the core is dead and its group still there; it says what it
	// saw, and what is wrong with it.
	ask func(s *Suite, r probe.Running, l probe.Limits, took time.Duration) (saw, wrong string)
}

var accounts = []account{
	{
		id: "memory-peak", title: "memory never goes past the slot's limit", order: "memory-death anonymous most=134217728",
		requirements: []string{"SBX-04", "SBX-16"}, threats: []string{"BOX-D1", "NBR-D1"}, oracle: "the slot's memory cgroup: peak and limit",
		ask: func(_ *Suite, r probe.Running, l probe.Limits, _ time.Duration) (string, string) {
			peak, err := counter(r, "memory", "memory.max_usage_in_bytes", "memory.peak")
			return fmt.Sprintf("peak %d of %d", peak, l.MemoryBytes), wrongIf(err, peak > l.MemoryBytes || peak < l.MemoryBytes*9/10)
		},
	},
	{
		id: "processor-share", title: "processor time stays within the quota, the monitor's included", order: "cpu-share wall=1000 cpus=25",
		requirements: []string{"SBX-04", "SBX-16"}, threats: []string{"BOX-D1", "NBR-D1"}, oracle: "the slot's cpuacct cgroup", adjust: func(l *probe.Limits) { l.CPUs = 0.25 },
		ask: func(_ *Suite, r probe.Running, l probe.Limits, took time.Duration) (string, string) {
			used, err := counter(r, "cpuacct", "cpuacct.usage", "")
			// a period may be used up before and after the time that we saw
			most := time.Duration(l.CPUs*float64(took)) + 150*time.Millisecond
			return fmt.Sprintf("used %s of %s", time.Duration(used).Round(time.Millisecond), most.Round(time.Millisecond)),
				wrongIf(err, time.Duration(used) > most || used == 0)
		},
	},
	{
		id: "output-flood", title: "64 MiB of output reach no disk and are paid for by the slot", order: "stdout-flood bytes=33554432",
		requirements: []string{"SBX-16"}, threats: []string{"BOX-D2"}, oracle: "the engine's folder on disk; the slot's cpuacct cgroup",
		ask: func(s *Suite, r probe.Running, _ probe.Limits, _ time.Duration) (string, string) {
			stored, err := sizeBelow(filepath.Join(s.bench.Dir(), "e"))
			if err != nil {
				return "", err.Error()
			}
			used, err := counter(r, "cpuacct", "cpuacct.usage", "")
			return fmt.Sprintf("%d bytes in the engine's folder, %s of processor time charged", stored, time.Duration(used).Round(time.Millisecond)),
				wrongIf(err, stored > 4<<20 || used == 0)
		},
	},
	{
		id: "blocks", title: "the result takes no more of the disk than its bound", order: "result-forged full limit=1048576",
		requirements: []string{"SBX-04"}, threats: []string{"BOX-D1"}, oracle: "the result's inode on the host",
		ask: func(_ *Suite, r probe.Running, l probe.Limits, _ time.Duration) (string, string) {
			var st unix.Stat_t
			err := unix.Stat(filepath.Join(r.SlotDir, "result"), &st)
			return fmt.Sprintf("%d bytes in %d blocks", st.Size, st.Blocks),
				wrongIf(err, st.Size != l.MaxResultBytes || st.Blocks*512 > l.MaxResultBytes+64<<10)
		},
	},
	{id: "log-of-a-kill", title: "a forbidden call leaves at most one line in the kernel's log", order: "architecture int80-getpid", lines: maxKillLines, requirements: []string{"SBX-16"}, threats: []string{"BOX-D2"}, oracle: "/dev/kmsg, lines that name the slot's user"},
	{id: "log-of-threads", title: "a forbidden call of a thread leaves at most one line in the kernel's log", order: "architecture int80-thread", lines: maxKillLines, requirements: []string{"SBX-16"}, threats: []string{"BOX-D2"}, oracle: "/dev/kmsg, lines that name the slot's user"},
	{id: "log-of-a-crash", title: "a crash leaves at most two lines in the kernel's log", order: "crash segv", named: true, lines: maxCrashLines, requirements: []string{"SBX-16"}, threats: []string{"BOX-D2"}, oracle: "/dev/kmsg, lines that name the program"},
	{id: "log-of-caught-faults", title: "5000 faults that the core catches leave no line in the kernel's log", order: "crash caught", named: true, requirements: []string{"SBX-16"}, threats: []string{"BOX-D2"}, oracle: "/dev/kmsg, lines that name the program"},
	{id: "log-of-a-flood", title: "output leaves no line in the kernel's log", order: "stdout-flood bytes=1048576", requirements: []string{"SBX-16"}, threats: []string{"BOX-D2"}, oracle: "/dev/kmsg, lines that name the slot's user"},
}

// What one attempt may cause in the kernel's log: the audit line of a forbidden
// call, or the lines of the one crash that ends it (the fault, and the refusal to
// dump).
const (
	maxKillLines  = 1
	maxCrashLines = 2
)

// accounting asks the host's own books: cgroup counters, the disk, the kernel's log.
func (s *Suite) accounting(ctx context.Context) error {
	const slot = 2 // whose user id no other stage uses at the same time
	for _, a := range accounts {
		id := "accounting/" + a.id
		if !s.wants(id) {
			continue
		}
		started := time.Now()
		log, err := openKernelLog()
		if err != nil {
			return err
		}
		l := limits()
		if a.adjust != nil {
			a.adjust(&l)
		}
		var saw, wrong string
		var ran time.Duration
		order, word := a.order, strconv.Itoa(probe.UIDBase+slot*probe.IDRange+probe.CoreUID)
		if a.named {
			number := 1_000_000 + s.random.IntN(9_000_000)
			order, word = fmt.Sprintf("%s name=%d", order, number), fmt.Sprintf("gbcrash%d", number)
		}
		attempt := probe.Attempt{Program: s.program, Input: []byte(order + "\n"), Slot: slot, Limits: l}
		attempt.After = func(r probe.Running) error {
			ran = time.Since(started)
			if a.ask != nil {
				saw, wrong = a.ask(s, r, l, ran)
			}
			return nil
		}
		if _, err := s.bench.Run(ctx, attempt); err != nil {
			return err
		}
		lines, err := log.naming(word)
		if err != nil {
			return err
		}
		if a.ask == nil {
			saw = fmt.Sprintf("%d lines", len(lines))
			if len(lines) > a.lines {
				wrong = fmt.Sprintf("%d lines, at most %d: %s", len(lines), a.lines, lines[0])
			}
		}
		c := evidence.Case{ID: id, Title: a.title, Requirements: ids(a.requirements), Threats: ids(a.threats), Tried: a.order, Oracle: a.oracle, Verdict: evidence.Held, Detail: saw,
			DurationMS: time.Since(started).Milliseconds()}
		if wrong != "" {
			c.Verdict, c.Detail = evidence.Breached, wrong+" ("+saw+")"
		}
		s.file(c)
	}
	return nil
}

func wrongIf(err error, wrong bool) string {
	switch {
	case err != nil:
		return err.Error()
	case wrong:
		return "not within bounds"
	}
	return ""
}

// counter reads a number of the attempt's group, by its version 1 or 2 name.
func counter(r probe.Running, controller, v1, v2 string) (int64, error) {
	paths := []string{filepath.Join("/sys/fs/cgroup", controller, r.Cgroup, v1)}
	if v2 != "" {
		paths = append(paths, filepath.Join("/sys/fs/cgroup", r.Cgroup, v2))
	}
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil {
			return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		}
	}
	return 0, fmt.Errorf("read %s of the slot's group: no such file", v1)
}

func sizeBelow(dir string) (int64, error) {
	var total int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // what goes away while we look takes no room
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total, err
}
