package evidence

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	threatmodel "glovebox/threat-model"
)

// Threat is one line of threat-model/threats.yaml.
type Threat struct {
	ID           string   `yaml:"-"`
	Boundary     string   `yaml:"-"`
	Stride       string   `yaml:"stride"` // one letter of STRIDE
	Loss         string   `yaml:"loss"`
	Requirements []string `yaml:"requirements"` // what stands against it, at least one
}

// Threats returns every threat by id. Like Requirements, a fault in the file is a
// fault of the build.
var Threats = sync.OnceValues(func() (map[string]Threat, error) { return readThreats(threatmodel.ThreatsYAML) })

func readThreats(text []byte) (map[string]Threat, error) {
	known, err := Requirements()
	if err != nil {
		return nil, err
	}
	var groups map[string]map[string]Threat
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&groups); err != nil {
		return nil, fmt.Errorf("read threats.yaml: %w", err)
	}
	all := make(map[string]Threat)
	for boundary, lines := range groups {
		for id, t := range lines {
			t.ID, t.Boundary = id, boundary
			switch _, twice := all[id]; {
			case twice:
				return nil, fmt.Errorf("read threats.yaml: %s stands there twice", id)
			case len(t.Stride) != 1 || !strings.Contains("STRIDE", t.Stride):
				return nil, fmt.Errorf("read threats.yaml: %s: stride %q is not one letter of STRIDE", id, t.Stride)
			case t.Loss == "":
				return nil, fmt.Errorf("read threats.yaml: %s names no loss", id)
			case len(t.Requirements) == 0:
				return nil, fmt.Errorf("read threats.yaml: %s names no requirement that stands against it", id)
			}
			for _, r := range t.Requirements {
				if _, ok := known[r]; !ok {
					return nil, fmt.Errorf("read threats.yaml: %s: requirement %q is not in requirements.yaml", id, r)
				}
			}
			all[id] = t
		}
	}
	return all, nil
}
