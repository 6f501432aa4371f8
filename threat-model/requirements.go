// Package threatmodel embeds the list of what the product must do, so that every
// suite judges requirement ids by the same text.
package threatmodel

import _ "embed"

// RequirementsYAML is requirements.yaml: groups of id -> {by, text, optional}.
//
//go:embed requirements.yaml
var RequirementsYAML []byte
