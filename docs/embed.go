// Package docs carries the documents that the product itself serves.
package docs

import _ "embed"

// OpenAPI is the contract of both APIs; the public one serves it, and a test holds
// every handler to it.
//
//go:embed openapi.yaml
var OpenAPI []byte
