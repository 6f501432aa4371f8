package oracle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Process is one process by the kernel's word.
type Process struct {
	PID, Parent int
	Name        string
	UIDs, GIDs  [4]int // real, effective, saved, file system
	Groups      []int
	Argv        []string
	Environ     []string
	CapEff      uint64
	Seccomp     int
	NoNewPrivs  bool
	Threads     int
	RSS, Peak   int64 // bytes; what is resident, and the most that ever was
	State       string
}

// ReadProcess reads /proc/PID.
func ReadProcess(pid int) (Process, error) {
	p := Process{PID: pid}
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return p, fmt.Errorf("read the process table: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		p.set(key, strings.TrimSpace(value))
	}
	p.Argv, err = words(filepath.Join(dir, "cmdline"))
	if err != nil {
		return p, err
	}
	p.Environ, err = words(filepath.Join(dir, "environ"))
	return p, err
}

func (p *Process) set(key, value string) {
	number := func(base int) uint64 { n, _ := strconv.ParseUint(value, base, 64); return n }
	four := func() (ids [4]int) {
		for i, field := range strings.Fields(value) {
			if i < len(ids) {
				ids[i], _ = strconv.Atoi(field)
			}
		}
		return ids
	}
	switch key {
	case "Name":
		p.Name = value
	case "State":
		p.State = value
	case "PPid":
		p.Parent = int(number(10))
	case "Uid":
		p.UIDs = four()
	case "Gid":
		p.GIDs = four()
	case "Groups":
		for _, field := range strings.Fields(value) {
			if n, err := strconv.Atoi(field); err == nil {
				p.Groups = append(p.Groups, n)
			}
		}
	case "CapEff":
		p.CapEff = number(16)
	case "Seccomp":
		p.Seccomp = int(number(10))
	case "NoNewPrivs":
		p.NoNewPrivs = value == "1"
	case "Threads":
		p.Threads = int(number(10))
	case "VmRSS":
		p.RSS = kilobytes(value)
	case "VmHWM":
		p.Peak = kilobytes(value)
	}
}

func kilobytes(value string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(value, " kB"), 10, 64)
	return n << 10
}

// words reads strings that NUL bytes end.
func words(path string) ([]string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	if len(content) == 0 {
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(string(content), "\x00"), "\x00"), nil
}

// Processes returns all of them; one that ends while it is looked at is left out.
func Processes() ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	var all []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, err := ReadProcess(pid); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

// Descendants returns the processes below pid.
func Descendants(pid int) ([]Process, error) {
	all, err := Processes()
	if err != nil {
		return nil, err
	}
	below := map[int]bool{pid: true}
	var found []Process
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			if below[p.Parent] && !below[p.PID] {
				below[p.PID], grew = true, true
				found = append(found, p)
			}
		}
	}
	return found, nil
}

// Descriptor is an open file of a process.
type Descriptor struct {
	Number int
	Target string // what /proc/PID/fd shows: a path, socket:[inode], anon_inode:…
}

// Descriptors returns what a process has open.
func Descriptors(pid int) ([]Descriptor, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list open files: %w", err)
	}
	var all []Descriptor
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look at an open file: %w", err)
		}
		all = append(all, Descriptor{n, target})
	}
	slices.SortFunc(all, func(a, b Descriptor) int { return a.Number - b.Number })
	return all, nil
}

// PSS returns the proportional share of memory of a process in bytes.
func PSS(pid int) (int64, error) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return 0, fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, "Pss:"); ok {
			return kilobytes(strings.TrimSpace(value)), nil
		}
	}
	return 0, errors.New("the kernel tells no proportional share of memory")
}
