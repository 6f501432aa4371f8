// Package catalogue says, as data, what each probe tries, what must stop it, and
// how the same attempt fares outside the sandbox. catalogue.yaml is its text.
package catalogue

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

//go:embed catalogue.yaml
var text []byte

// Filter is what By says of a check that the system-call filter stops.
const Filter = "filter"

// Gone is what Control says of a control that becomes another program.
const Gone = "gone"

// Check is one attempt of a program.
type Check struct {
	Name    string `yaml:"name"`
	By      string `yaml:"by"`      // what stops it: Filter, or an outcome
	Behind  string `yaml:"behind"`  // what stops it without the filter
	Open    string `yaml:"open"`    // why it may work, in place of By
	Control string `yaml:"control"` // empty: it comes further than in the sandbox
	Needs   string `yaml:"needs"`   // a capability of the control
}

// Program is a probe with its checks.
type Program struct {
	Name         string   `yaml:"program"`
	Loss         string   `yaml:"loss"`
	Requirements []string `yaml:"requirements"`
	Threats      []string `yaml:"threats"`
	Order        string   `yaml:"order"` // what follows the checks' names in the input
	Each         bool     `yaml:"each"`  // one attempt for each check
	Checks       []Check  `yaml:"checks"`
}

// Way is one manner of ending.
type Way struct {
	Name    string `yaml:"name"`
	Order   string `yaml:"order"`
	Ends    string `yaml:"ends"`
	Code    string `yaml:"code"` // the job's error code, or "none"
	Control string `yaml:"control"`
}

// Ending is a probe of which only the end counts.
type Ending struct {
	Name         string   `yaml:"program"`
	Loss         string   `yaml:"loss"`
	Requirements []string `yaml:"requirements"`
	Threats      []string `yaml:"threats"`
	Lifted       bool     `yaml:"lifted"` // tried without the filter, under which it cannot be
	Ways         []Way    `yaml:"ways"`
}

// Catalogue is all of it.
type Catalogue struct {
	Programs []Program `yaml:"checks"`
	Endings  []Ending  `yaml:"endings"`
}

// Load reads the built-in catalogue and refuses one that contradicts itself.
func Load() (Catalogue, error) { return parse(text) }

func parse(text []byte) (Catalogue, error) {
	var c Catalogue
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil {
		return c, fmt.Errorf("read catalogue.yaml: %w", err)
	}
	if err := c.validate(); err != nil {
		return c, fmt.Errorf("read catalogue.yaml: %w", err)
	}
	return c, nil
}

func (c Catalogue) validate() error {
	var errs []error
	seen := map[string]bool{}
	once := func(id string) {
		if seen[id] {
			errs = append(errs, fmt.Errorf("%s stands twice", id))
		}
		seen[id] = true
	}
	for _, p := range c.Programs {
		once(p.Name)
		for _, check := range p.Checks {
			id := p.Name + "/" + check.Name
			once(id)
			if (check.By == "") == (check.Open == "") {
				errs = append(errs, fmt.Errorf("%s: exactly one of by and open must be given", id))
			}
			if check.Behind != "" && check.By != Filter {
				errs = append(errs, fmt.Errorf("%s: behind is for what the filter stops", id))
			}
			if check.By == "open" || check.Behind == "open" {
				errs = append(errs, fmt.Errorf("%s: what works is not stopped; say open: REASON", id))
			}
		}
	}
	for _, e := range c.Endings {
		once(e.Name)
		for _, w := range e.Ways {
			once(e.Name + "/" + w.Name)
			if w.Ends == "" || w.Code == "" || w.Control == "" {
				errs = append(errs, fmt.Errorf("%s/%s: ends, code and control must be given", e.Name, w.Name))
			}
		}
	}
	return errors.Join(errs...)
}

// Count returns how many programs and distinct checks there are.
func (c Catalogue) Count() (programs, checks int) {
	for _, p := range c.Programs {
		checks += len(p.Checks)
	}
	for _, e := range c.Endings {
		checks += len(e.Ways)
	}
	return len(c.Programs) + len(c.Endings), checks
}

// Stopped reports whether outcome o, seen under the probes' profile, is what the
// check calls for.
func (c Check) Stopped(o Outcome) bool {
	switch {
	case c.Open != "":
		return true
	case c.By == Filter:
		return o.Number == "EPERM" || o.Number == "ENOSYS"
	}
	return o.String() == c.By
}

// Came reports whether the control came further than the sandbox allows.
func (c Check) Came(control Outcome, answered bool, inside Outcome) bool {
	switch {
	case c.Control == Gone:
		return !answered
	case !answered:
		return false
	case c.Control != "":
		return control.String() == c.Control
	}
	return control.String() == "open" || control.String() != inside.String()
}

// Select keeps what contains word in "program/check"; an empty word keeps all.
func (c Catalogue) Select(word string) Catalogue {
	if word == "" {
		return c
	}
	var out Catalogue
	for _, p := range c.Programs {
		p.Checks = slices.DeleteFunc(slices.Clone(p.Checks), func(k Check) bool { return !strings.Contains(p.Name+"/"+k.Name, word) })
		if len(p.Checks) > 0 {
			out.Programs = append(out.Programs, p)
		}
	}
	for _, e := range c.Endings {
		e.Ways = slices.DeleteFunc(slices.Clone(e.Ways), func(w Way) bool { return !strings.Contains(e.Name+"/"+w.Name, word) })
		if len(e.Ways) > 0 {
			out.Endings = append(out.Endings, e)
		}
	}
	return out
}
