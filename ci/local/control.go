package local

import (
	"context"
	"fmt"
	"strings"
	"syscall"
)

// Kill sends SIGKILL to the named process ("worker-0") and forgets it.
func (s *System) Kill(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range s.Processes {
		if p.Name == name {
			s.Processes = append(s.Processes[:i], s.Processes[i+1:]...)
			return p.Signal(syscall.SIGKILL)
		}
	}
	return fmt.Errorf("no process %s was started", name)
}

// Restart starts a killed process again: server-N, worker-N, launcher-N or sweeper.
func (s *System) Restart(ctx context.Context, name string) error {
	kind, number, _ := strings.Cut(name, "-")
	var i int
	if kind != "sweeper" {
		if _, err := fmt.Sscanf(number, "%d", &i); err != nil {
			return fmt.Errorf("%s names no process", name)
		}
	}
	var p program
	switch kind {
	case "server":
		p = s.serverProgram(i)
	case "sweeper":
		p = s.sweeperProgram()
	case "launcher":
		p = s.launcherProgram(i)
	case "worker":
		p = s.workerProgram(i)
	default:
		return fmt.Errorf("%s cannot be restarted alone", name)
	}
	started, err := s.start(p)
	if err != nil {
		return err
	}
	switch kind {
	case "server":
		s.PIDs.Server[i] = started.PID
		err = s.awaitReady(ctx, i)
	case "sweeper":
		s.PIDs.Sweeper = started.PID
	case "launcher":
		s.PIDs.Launcher[i] = started.PID
	case "worker":
		s.PIDs.Worker[i] = started.PID
	}
	if err != nil {
		return err
	}
	return s.save()
}

// Process returns the running process of that name.
func (s *System) Process(name string) (Process, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.Processes {
		if p.Name == name {
			return p, p.Alive()
		}
	}
	return Process{}, false
}
