package evidence

import (
	"fmt"
	"sync"

	"gopkg.in/yaml.v3"

	threatmodel "glovebox/threat-model"
)

// Requirement is one line of threat-model/requirements.yaml.
type Requirement struct {
	ID       string
	Group    string
	By       string `yaml:"by"`
	Text     string `yaml:"text"`
	Optional bool   `yaml:"optional"`
}

// Requirements returns every requirement by id. The file is embedded, so a fault
// in it is a fault of the build and every caller sees it.
var Requirements = sync.OnceValues(func() (map[string]Requirement, error) {
	var groups map[string]map[string]Requirement
	if err := yaml.Unmarshal(threatmodel.RequirementsYAML, &groups); err != nil {
		return nil, fmt.Errorf("read requirements.yaml: %w", err)
	}
	all := make(map[string]Requirement)
	for group, lines := range groups {
		for id, r := range lines {
			if _, twice := all[id]; twice {
				return nil, fmt.Errorf("read requirements.yaml: %s stands there twice", id)
			}
			r.ID, r.Group = id, group
			all[id] = r
		}
	}
	return all, nil
})
