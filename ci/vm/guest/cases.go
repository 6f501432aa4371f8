package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"glovebox/threat-model/evidence"
)

// home is where the machine's input lies, out where its output is taken from.
const (
	home = "/opt/glovebox"
	out  = home + "/out"
)

// prefix marks the cases of this mode among the probes' own.
const prefix = "v2/"

// cases collects what came of it. Its zero value is empty.
type cases struct {
	mu   sync.Mutex
	list []evidence.Case
}

func (c *cases) file(k evidence.Case) {
	k.ID = prefix + k.ID
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, k)
	fmt.Printf("%-11s %-46s %s\n", k.Verdict, k.ID, k.Detail)
}

// held files a case by whether it holds.
func (c *cases) held(k evidence.Case, holds bool) {
	k.Verdict = evidence.Held
	if !holds {
		k.Verdict = evidence.Breached
	}
	c.file(k)
}

// write leaves the cases as one JSON array.
func (c *cases) write(path string) error {
	text, err := json.MarshalIndent(c.list, "", " ")
	if err != nil {
		return fmt.Errorf("write the cases: %w", err)
	}
	return os.WriteFile(path, text, 0o644)
}

// add takes over the cases that another mode wrote.
func (c *cases) add(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the cases: %w", err)
	}
	var more []evidence.Case
	if err := json.Unmarshal(text, &more); err != nil {
		return fmt.Errorf("read the cases of %s: %w", path, err)
	}
	c.list = append(c.list, more...)
	return nil
}
