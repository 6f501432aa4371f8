package posture

import (
	"bytes"
	"errors"
	"fmt"

	"gopkg.in/yaml.v3"
)

// Line is one expected line. A line that is looser than a sealed box would be
// says why.
type Line struct {
	Is        string
	Loosening string
	MayLack   bool // an older kernel does not show it
}

// UnmarshalYAML takes a plain value, or a mapping with a reason.
func (l *Line) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		l.Is = node.Value
		return nil
	}
	var long struct {
		Is        string `yaml:"is"`
		Loosening string `yaml:"loosening"`
		MayLack   bool   `yaml:"may_lack"`
	}
	if err := node.Decode(&long); err != nil {
		return err
	}
	for i := 0; i < len(node.Content); i += 2 {
		switch key := node.Content[i].Value; key {
		case "is", "loosening", "may_lack":
		default:
			return fmt.Errorf("line %d: key %q is unknown", node.Line, key)
		}
	}
	*l = Line{Is: long.Is, Loosening: long.Loosening, MayLack: long.MayLack}
	return nil
}

// Expected is expected.yaml: both views.
type Expected struct {
	Inside  map[string]Line `yaml:"inside"`
	Outside map[string]Line `yaml:"outside"`
}

// LoadExpected reads the expected posture.
func LoadExpected(text []byte) (Expected, error) {
	var e Expected
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&e); err != nil {
		return e, fmt.Errorf("read expected.yaml: %w", err)
	}
	if len(e.Inside) == 0 || len(e.Outside) == 0 {
		return e, errors.New("read expected.yaml: both views must be given, inside and outside")
	}
	return e, nil
}

// Loosenings returns how many lines are looser than sealed, each with its reason.
func (e Expected) Loosenings() map[string]string {
	out := map[string]string{}
	for view, lines := range map[string]map[string]Line{"inside": e.Inside, "outside": e.Outside} {
		for key, line := range lines {
			if line.Loosening != "" {
				out[view+" "+key] = line.Loosening
			}
		}
	}
	return out
}
