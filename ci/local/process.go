package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is one started program. StartTicks tells it from a later process that
// was given the same pid, so that nothing foreign is ever signalled.
type Process struct {
	Name       string `json:"name"`
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"start_ticks"`
	UID        int    `json:"uid"`
	Log        string `json:"log"`
}

// program is what to start.
type program struct {
	name string
	path string
	args []string
	env  []string
	uid  int
	gid  int
	also []uint32 // supplementary groups
}

// start runs p in its own session with its output appended to a log file. The
// environment is exactly p.env and a PATH: nothing of the caller's reaches it.
func (s *System) start(p program) (Process, error) {
	logPath := filepath.Join(s.LogsDir, p.name+".log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return Process{}, fmt.Errorf("open the log of %s: %w", p.name, err)
	}
	defer log.Close()
	cmd := exec.Command(p.path, p.args...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Getuid() == 0 && p.uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.gid), Groups: p.also}
	}
	if err := cmd.Start(); err != nil {
		return Process{}, fmt.Errorf("start %s: %w", p.name, err)
	}
	started := Process{Name: p.name, PID: cmd.Process.Pid, UID: p.uid, Log: logPath}
	started.StartTicks, err = startTicks(started.PID)
	if err != nil {
		return Process{}, fmt.Errorf("%s ended at once; its log is %s", p.name, logPath)
	}
	go func() { _ = cmd.Wait() }() // no zombie while the caller lives
	s.mu.Lock()
	s.Processes = append(s.Processes, started)
	s.mu.Unlock()
	return started, nil
}

// startTicks reads when a process started, in clock ticks since boot. A zombie
// counts as gone.
func startTicks(pid int) (uint64, error) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// The second field is the name in parentheses and may hold anything.
	_, rest, ok := strings.Cut(string(content[strings.LastIndexByte(string(content), ')'):]), " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return 0, errors.New("unreadable process status")
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, os.ErrProcessDone
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// Alive reports whether the process is the one that was started and still runs.
func (p Process) Alive() bool {
	ticks, err := startTicks(p.PID)
	return err == nil && ticks == p.StartTicks
}

// Signal sends sig if the process is still the one that was started.
func (p Process) Signal(sig syscall.Signal) error {
	if !p.Alive() {
		return os.ErrProcessDone
	}
	return syscall.Kill(p.PID, sig)
}

// stop asks the process to end and insists after grace.
func (p Process) stop(grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return nil // gone already
	}
	deadline := time.Now().Add(grace)
	for p.Alive() && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if !p.Alive() {
		return nil
	}
	_ = p.Signal(syscall.SIGKILL)
	for range 500 {
		if !p.Alive() {
			return fmt.Errorf("%s (pid %d) had to be killed: it did not stop within %s", p.Name, p.PID, grace)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("%s (pid %d) cannot be killed", p.Name, p.PID)
}

// tail returns the last lines of a log for an error text.
func tail(path string, lines int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
