package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"gopkg.in/yaml.v3"

	"glovebox/sandbox-probes/posture"
)

// gone in expected-v2.yaml takes a line away that the other mode has.
const gone = "(no such line)"

// differences is expected-v2.yaml: what comes out otherwise than in the other mode.
type differences struct {
	posture.Expected `yaml:",inline"`
	// Checks of the probes' catalogue, by program/check: the outcome, and why it is
	// accepted.
	Checks map[string]posture.Line `yaml:"checks"`
	// Missing says by program/check what this machine does not have. As long as core
	// and control find the same there, the check proves nothing and is not counted.
	Missing map[string]string `yaml:"missing"`
}

func parseDifferences(text []byte) (differences, error) {
	var d differences
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&d); err != nil {
		return d, fmt.Errorf("read expected-v2.yaml: %w", err)
	}
	for id, line := range d.Checks {
		if line.Is == "" || line.Loosening == "" {
			return d, fmt.Errorf("read expected-v2.yaml: check %s needs what it is and the reason, loosening", id)
		}
	}
	return d, nil
}

// expected is the posture of the other mode with the differences of this one.
func expected() (posture.Expected, differences, error) {
	text, err := os.ReadFile(filepath.Join(home, "expected.yaml"))
	if err != nil {
		return posture.Expected{}, differences{}, err
	}
	e, err := posture.LoadExpected(text)
	if err != nil {
		return e, differences{}, err
	}
	if text, err = os.ReadFile(filepath.Join(home, "expected-v2.yaml")); err != nil {
		return e, differences{}, err
	}
	own, err := parseDifferences(text)
	if err != nil {
		return e, own, err
	}
	for _, pair := range [][2]map[string]posture.Line{{e.Inside, own.Inside}, {e.Outside, own.Outside}} {
		for key, line := range pair[1] {
			if line.Is == gone {
				delete(pair[0], key)
			} else {
				pair[0][key] = line
			}
		}
	}
	return e, own, nil
}
