package slotfs

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// nameForm is the form of an attempt's name: 128 random bits. Nothing else below
// the slots' root is ever removed.
var nameForm = regexp.MustCompile(`^a-[0-9a-f]{32}$`)

// NewName returns a name for an attempt that tells nothing.
func NewName() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return "a-" + hex.EncodeToString(b[:])
}

// IsName reports whether name has the form that NewName gives.
func IsName(name string) bool { return nameForm.MatchString(name) }

// Leftovers lists the attempts of which a folder, disk or mount is still below
// root. Only a launcher that knows itself alone on root may remove them.
func Leftovers(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("list slots: %w", err)
	}
	seen := map[string]bool{}
	var names []string
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".disk")
		if IsName(name) && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names, nil
}

// RemoveLeftover takes away what an attempt of a dead launcher left.
func RemoveLeftover(root, name string) error {
	if !IsName(name) {
		return errors.New("remove leftover: " + name + " is not an attempt's name")
	}
	return remove(root, name)
}
