package local

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// stopOrder is the order in which processes end: those that depend on others first.
var stopOrder = []string{"worker", "launcher", "sweeper", "server", "engine", "postgres"}

// processesFile lists what was started, beside endpoint.json.
const processesFile = "processes.json"

type record struct {
	State     string    `json:"state"`
	Processes []Process `json:"processes"`
}

// save writes endpoint.json and the list of processes.
func (s *System) save() error {
	dir := s.opts.runFolder()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(
		writeJSON(filepath.Join(dir, processesFile), record{s.state, s.Processes}),
		writeJSON(filepath.Join(dir, "endpoint.json"), s.Endpoint))
}

// load reads what save wrote.
func load(dir string) (*System, error) {
	content, err := os.ReadFile(filepath.Join(dir, processesFile))
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(content, &r); err != nil {
		return nil, fmt.Errorf("read %s: %w", processesFile, err)
	}
	s := &System{state: r.State, Processes: r.Processes}
	s.LogsDir = filepath.Join(dir, "logs")
	s.opts.Root, s.opts.Name = rootOf(dir)
	return s, nil
}

// rootOf is the reverse of Options.runFolder.
func rootOf(dir string) (root, name string) {
	outDir, base := filepath.Split(dir)
	name = strings.TrimPrefix(strings.TrimPrefix(base, filepath.Base(runDir)), "-")
	return filepath.Dir(filepath.Clean(outDir)), name
}

// DownAt stops the system recorded below root; that none is recorded is no error.
func DownAt(root, name string) error {
	o, err := Options{Root: root, Name: name}.withDefaults()
	if err != nil {
		return err
	}
	s, err := load(o.runFolder())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.Down()
}

// Down ends every process and removes the state folder. The logs stay. It may be
// called twice.
func (s *System) Down() error {
	var errs []error
	for _, kind := range stopOrder {
		for _, p := range slices.Backward(s.Processes) {
			if base, _, _ := strings.Cut(p.Name, "-"); base == kind {
				errs = append(errs, p.stop(35*time.Second))
			}
		}
	}
	errs = append(errs, s.keepLogs(), clearState(s.state))
	dir := s.opts.runFolder()
	for _, name := range []string{processesFile, "endpoint.json"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// keepLogs copies the logs that lie in the state folder beside the others.
func (s *System) keepLogs() error {
	for from, to := range map[string]string{"pg/log": "postgres.log", "eng/log": "engine.log"} {
		if err := copyLog(s.path(from), filepath.Join(s.LogsDir, to)); err != nil {
			return err
		}
	}
	return nil
}

// copyLog copies a log that may lie in a folder of another user: a link there is
// not followed, and nothing but a file is read.
func copyLog(from, to string) error {
	log, err := os.OpenFile(from, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil //nolint:nilerr // it never started, or is no log
	}
	defer log.Close()
	if info, err := log.Stat(); err != nil || !info.Mode().IsRegular() {
		return err
	}
	kept, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(kept, log)
	return errors.Join(err, kept.Close())
}

// clearState detaches the mounts below dir, deepest first, and removes it.
func clearState(dir string) error {
	if !strings.HasPrefix(dir, "/var/tmp/gb-") {
		return fmt.Errorf("%q is not a state folder", dir)
	}
	mounts, err := os.Open("/proc/self/mounts")
	if err != nil {
		return err
	}
	defer mounts.Close()
	var below []string
	for scanner := bufio.NewScanner(mounts); scanner.Scan(); {
		if fields := strings.Fields(scanner.Text()); len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			below = append(below, fields[1])
		}
	}
	for _, mount := range slices.Backward(below) {
		_ = syscall.Unmount(mount, syscall.MNT_DETACH)
	}
	return os.RemoveAll(dir)
}
