// Package threatmodel embeds the list of what the product must do and the list of
// what may go wrong, so that every suite judges ids by the same text.
package threatmodel

import _ "embed"

// RequirementsYAML is requirements.yaml: groups of id -> {by, text, optional}.
//
//go:embed requirements.yaml
var RequirementsYAML []byte

// ThreatsYAML is threats.yaml: groups of id -> {stride, loss, requirements}.
//
//go:embed threats.yaml
var ThreatsYAML []byte
