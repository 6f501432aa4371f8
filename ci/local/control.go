package local

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"glovebox/system/platform/secret"
)

// Kill sends SIGKILL to the named process ("worker-0") and forgets it.
func (s *System) Kill(name string) error {
	p, err := s.forget(name)
	if err != nil {
		return err
	}
	return p.Signal(syscall.SIGKILL)
}

// Stop asks the named process to end, waits for it, insists after grace, and
// forgets it. That it had to insist is an error.
func (s *System) Stop(name string, grace time.Duration) error {
	p, err := s.forget(name)
	if err != nil {
		return err
	}
	return p.stop(grace)
}

// Await waits until the named process has ended by itself, and forgets it.
func (s *System) Await(ctx context.Context, name string) error {
	p, ok := s.Process(name)
	for ok && p.Alive() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s has not ended: %w", name, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	_, err := s.forget(name)
	return err
}

func (s *System) forget(name string) (Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range s.Processes {
		if p.Name == name {
			s.Processes = append(s.Processes[:i], s.Processes[i+1:]...)
			return p, nil
		}
	}
	return Process{}, fmt.Errorf("no process %s was started", name)
}

// Restart starts a process again that was killed or stopped: server-N, worker-N,
// launcher-N, sweeper, postgres or engine. env is added to the environment of a
// program of ours.
func (s *System) Restart(ctx context.Context, name string, env ...string) error {
	switch name {
	case "postgres":
		return s.restartDatabase(ctx)
	case "engine":
		return s.restartEngine(ctx)
	}
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
	p.env = append(p.env, env...)
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

// restartDatabase starts the cluster again. After a kill of the postmaster its
// children take a moment to notice, and until then a new one refuses to start.
func (s *System) restartDatabase(ctx context.Context) error {
	if s.cluster == nil {
		return errors.New("the database was not started by this process")
	}
	for {
		err := s.cluster.Start(ctx)
		if err == nil {
			return errors.Join(s.noteDatabase(), s.save())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("start the database again: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// noteDatabase records the running postmaster.
func (s *System) noteDatabase() error {
	pid, err := s.cluster.PID()
	if err != nil {
		return err
	}
	ticks, err := startTicks(pid)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Processes = append(s.Processes, Process{Name: "postgres", PID: pid, StartTicks: ticks, Log: filepath.Join(s.path("pg"), "log")})
	s.PIDs.Postgres = pid
	return nil
}

// restartEngine starts the engine's service again over what the last one left.
func (s *System) restartEngine(ctx context.Context) error {
	if s.engine == nil {
		return errors.New("the engine was not started by this process")
	}
	return errors.Join(s.startEngine(ctx), s.save())
}

// Database gives the administrator's login to the database, for a harness that
// has to do what no role of ours may.
func (s *System) Database() secret.Text { return s.cluster.AdminURL("glovebox") }
