package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"glovebox/threat-model/evidence"
)

// readParts reads the JSON lines of every test process. A test that ran more than
// once (go test -count, or twice under two configurations) holds only if every
// run held.
func readParts(dir string) ([]evidence.Case, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	byID := make(map[string]evidence.Case)
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read a part: %w", err)
		}
		scanner := bufio.NewScanner(bytes.NewReader(content))
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			var c evidence.Case
			if err := json.Unmarshal(scanner.Bytes(), &c); err != nil {
				return nil, fmt.Errorf("read a part %s: %w", name, err)
			}
			if earlier, ok := byID[c.ID]; ok && earlier.Verdict != evidence.Held {
				continue
			}
			byID[c.ID] = c
		}
	}
	cases := make([]evidence.Case, 0, len(byID))
	for _, c := range byID {
		cases = append(cases, c)
	}
	sort.Slice(cases, func(i, j int) bool { return cases[i].ID < cases[j].ID })
	return cases, nil
}

var (
	libtestLine = regexp.MustCompile(`^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)`)
	plainLine   = regexp.MustCompile(`^(ok|FAIL) ([^:]+?)(?::.*)?$`)
)

// joinRunner joins a runner's output with its mapping.
func joinRunner(prefix, output, mapping string) ([]evidence.Case, error) {
	results, err := readResults(output)
	if err != nil {
		return nil, err
	}
	requirements, err := readMapping(mapping)
	if err != nil {
		return nil, err
	}
	var cases []evidence.Case
	for name, ids := range requirements {
		verdict, ran := results[name]
		if !ran {
			return nil, fmt.Errorf("%s names test %q, which did not run", mapping, name)
		}
		cases = append(cases, evidence.Case{
			ID: prefix + "." + name, Title: strings.ReplaceAll(name, "_", " "), Requirements: ids, Verdict: verdict,
		})
	}
	for name, verdict := range results {
		if _, mapped := requirements[name]; !mapped && verdict != evidence.Held {
			cases = append(cases, evidence.Case{ID: prefix + "." + name, Title: name, Verdict: verdict})
		}
	}
	sort.Slice(cases, func(i, j int) bool { return cases[i].ID < cases[j].ID })
	return cases, nil
}

func readResults(path string) (map[string]evidence.Verdict, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read a runner's output: %w", err)
	}
	defer f.Close()
	results := make(map[string]evidence.Verdict)
	record := func(name string, ok bool) {
		verdict := evidence.Held
		if !ok || results[name] == evidence.Breached {
			verdict = evidence.Breached
		}
		results[name] = verdict
	}
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := scanner.Text()
		if m := libtestLine.FindStringSubmatch(line); m != nil {
			record(m[1], m[2] == "ok")
		} else if m := plainLine.FindStringSubmatch(line); m != nil {
			record(m[2], m[1] == "ok")
		}
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("%s holds no result of a test", path)
	}
	return results, scanner.Err()
}

func readMapping(path string) (map[string][]string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a mapping: %w", err)
	}
	mapping := make(map[string][]string)
	for i, line := range strings.Split(string(content), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, ids, ok := strings.Cut(line, "\t")
		if !ok || mapping[name] != nil {
			return nil, fmt.Errorf("%s line %d: wanted NAME<TAB>ID,ID, each name once", path, i+1)
		}
		for id := range strings.SplitSeq(ids, ",") {
			mapping[name] = append(mapping[name], strings.TrimSpace(id))
		}
	}
	return mapping, nil
}
