package suite

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"glovebox/threat-model/evidence"
)

// EmulatedPrefix begins the id of each case that was tried in the emulated machine.
const EmulatedPrefix = "v2/"

// TakeEmulated adds the cases of the emulated machine (make probes-v2), which left them
// at path, to the document and says in words what it did. It takes them only if they
// were made from the very sources that the document speaks for; older ones, or none,
// are named and left out, since the machine is not part of every run. The error is for
// a file that cannot be what the machine writes.
func TakeEmulated(d *evidence.Document, path string) (said string, err error) {
	const remedy = "run make probes-v2, then make probes"
	v2, err := evidence.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("the preferred mode is not part of this evidence: %s is not there; %s", path, remedy), nil
	case err != nil:
		return "", fmt.Errorf("take the emulated machine's cases: %w; %s", err, remedy)
	case v2.Suite != d.Suite:
		return "", fmt.Errorf("take the emulated machine's cases: %s is evidence of suite %s; %s", path, v2.Suite, remedy)
	case v2.SourceDigest != d.SourceDigest:
		return fmt.Sprintf("the preferred mode is not part of this evidence: %s was made from sources %.12s, this from %.12s; %s",
			path, v2.SourceDigest, d.SourceDigest, remedy), nil
	}
	for _, c := range v2.Cases {
		if !strings.HasPrefix(c.ID, EmulatedPrefix) {
			return "", fmt.Errorf("take the emulated machine's cases: %s has case %q, which is none of its own; %s", path, c.ID, remedy)
		}
	}
	d.Cases = append(d.Cases, v2.Cases...)
	if v2.Started.Before(d.Started) {
		d.Started = v2.Started
	}
	if v2.Finished.After(d.Finished) {
		d.Finished = v2.Finished
	}
	d.Machine["virtual_machine"] = v2.Machine["virtual_machine"]
	d.Machine["virtual_machine_core"] = v2.ImageDigest
	return fmt.Sprintf("%d cases of the preferred mode taken from %s", len(v2.Cases), path), nil
}
