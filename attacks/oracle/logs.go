package oracle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Logs is a place in the logs of a system: what is written after it can be read
// apart from what was there.
type Logs struct {
	dir  string
	from map[string]int64
}

// MarkLogs remembers the present end of every *.log below dir.
func MarkLogs(dir string) (Logs, error) {
	l := Logs{dir: dir, from: map[string]int64{}}
	files, err := l.files()
	if err != nil {
		return l, err
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return l, fmt.Errorf("look at a log: %w", err)
		}
		l.from[file] = info.Size()
	}
	return l, nil
}

// AllLogs is the beginning of every log.
func AllLogs(dir string) Logs { return Logs{dir: dir, from: map[string]int64{}} }

func (l Logs) files() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(l.dir, "*.log"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no log lies in %s", filepath.Base(l.dir))
	}
	return files, err
}

// Line is one line of a log.
type Line struct {
	File   string
	Raw    []byte
	Fields map[string]any // nil where the line is no JSON object
}

// Since returns the lines written since the mark, of the files whose base name
// matches pattern.
func (l Logs) Since(pattern string) ([]Line, error) {
	files, err := l.files()
	if err != nil {
		return nil, err
	}
	var lines []Line
	for _, file := range files {
		if ok, err := filepath.Match(pattern, filepath.Base(file)); err != nil || !ok {
			continue
		}
		content, err := tailOf(file, l.from[file])
		if err != nil {
			return nil, err
		}
		for raw := range bytes.SplitSeq(bytes.TrimSuffix(content, []byte("\n")), []byte("\n")) {
			if len(raw) == 0 {
				continue
			}
			line := Line{File: filepath.Base(file), Raw: raw}
			if json.Unmarshal(raw, &line.Fields) != nil {
				line.Fields = nil
			}
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// Bytes returns how much was written since the mark to files that match pattern.
func (l Logs) Bytes(pattern string) (sum int64, err error) {
	files, err := l.files()
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		if ok, _ := filepath.Match(pattern, filepath.Base(file)); ok {
			info, err := os.Stat(file)
			if err != nil {
				return 0, err
			}
			sum += info.Size() - l.from[file]
		}
	}
	return sum, nil
}

func tailOf(file string, from int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read a log: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

// searchOverlap is longer than any needle that Search takes.
const searchOverlap = 4096

// Search reads a file in pieces and returns the names of the needles that stand
// in it. A file that has gone holds none; one of /proc that may not be read is an
// error.
func Search(file string, needles map[string][]byte) ([]string, error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	defer f.Close()
	buffer := searchBuffers.Get().(*[]byte) //nolint:forcetypeassert // holds nothing else
	defer searchBuffers.Put(buffer)
	return searchIn(f, needles, (*buffer)[:0])
}

// searchBuffers are used again: a folder may have thousands of small files.
var searchBuffers = sync.Pool{New: func() any { b := make([]byte, 0, searchSize); return &b }}

const searchSize = 1 << 20

// SearchReader is Search in what r gives.
func SearchReader(r io.Reader, needles map[string][]byte) (hits []string, err error) {
	return searchIn(r, needles, make([]byte, 0, searchSize))
}

func searchIn(r io.Reader, needles map[string][]byte, buffer []byte) (hits []string, err error) {
	for name, needle := range needles {
		if len(needle) < 6 || len(needle) > searchOverlap {
			return nil, fmt.Errorf("search: %s has %d bytes, which cannot be searched for", name, len(needle))
		}
	}
	for {
		n, err := r.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		if len(buffer) == cap(buffer) || err != nil {
			for name, needle := range needles {
				if !slices.Contains(hits, name) && bytes.Contains(buffer, needle) {
					hits = append(hits, name)
				}
			}
			keep := min(len(buffer), searchOverlap)
			buffer = buffer[:copy(buffer, buffer[len(buffer)-keep:])]
		}
		if errors.Is(err, io.EOF) {
			slices.Sort(hits)
			return hits, nil
		}
		if err != nil {
			return nil, fmt.Errorf("search: %w", err)
		}
	}
}
