// Package migrations carries the schema inside the binary and applies it:
// bootstrap.sql as an administrator, then the numbered files as the owner role.
// README.md states the rules (DBS-04).
package migrations

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

//go:embed [0-9]*.sql
var files embed.FS

//go:embed bootstrap.sql
var bootstrapSQL string

// VersionTable is where the applied versions are kept.
const VersionTable = "app.schema_versions"

// Latest returns the highest version this binary carries.
func Latest() int64 {
	var latest int64
	for _, v := range versions() {
		latest = max(latest, v)
	}
	return latest
}

func versions() []int64 {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	found := make([]int64, 0, len(names))
	for _, name := range names {
		number, _, _ := strings.Cut(name, "_")
		v, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			panic("migration " + name + " does not begin with a number")
		}
		found = append(found, v)
	}
	return found
}

// Digest returns a hex digest of everything that is applied, for caches of a
// migrated database.
func Digest() string {
	h := sha256.New()
	h.Write([]byte(bootstrapSQL))
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, name := range names {
		content, err := files.ReadFile(name)
		if err != nil {
			panic(err) // it is embedded
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(content), content)
	}
	return hex.EncodeToString(h.Sum(nil))
}
