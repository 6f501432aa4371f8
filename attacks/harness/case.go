// Package harness is the frame in which attacks run: what a case is, what it may
// touch, how its outcome is judged and told.
//
// A case is a hostile client. It speaks to a running system over real sockets and
// then looks, with an oracle that is not the component under attack, whether the
// loss its title names has come about. The frame fails closed: a case that made no
// control or no check has proved nothing and is an error, and so is one whose
// control failed, since its instrument is blind.
package harness

import (
	"fmt"
	"regexp"
	"strings"

	"glovebox/threat-model/evidence"
)

// Case is one attack.
type Case struct {
	// ID is family/name, in small letters, digits and dashes.
	ID string
	// Title names the loss, as what happens if the attack works: "a foreign user
	// reads a result".
	Title        string
	Requirements []string // ids of threat-model/requirements.yaml
	Threats      []string // ids of threat-model/threats.yaml
	// Attack says what is done, Control what shows that the instrument works, and
	// Oracle where it is looked.
	Attack, Control, Oracle string
	// Safe cases may run against a deployed system: they touch only what they made
	// and need nothing but the public API and two users.
	Safe bool
	// World names the system the case runs in; empty is Main.
	World string
	// Serial cases saturate the machine or measure it: each runs alone.
	Serial bool
	// Lock keeps cases of the same word from running at once, since they would
	// disturb each other.
	Lock string
	// Slow cases are left out of the CI form.
	Slow bool
	Run  func(e *Env)
}

// Family is the cases against one kind of threat; they lie in one file, or in
// several that begin with its name.
type Family struct {
	Name  string
	About string // one line
	Cases []Case
}

var caseID = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*/[a-z0-9]+(-[a-z0-9]+)*$`)

// Validate returns the first fault in the families: an id that stands twice, a
// case that does not say what it proves.
func Validate(families []Family) error {
	known, err := evidence.Requirements()
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, f := range families {
		if len(f.Cases) == 0 {
			return fmt.Errorf("family %s has no case", f.Name)
		}
		for _, c := range f.Cases {
			switch {
			case !caseID.MatchString(c.ID) || !strings.HasPrefix(c.ID, f.Name+"/"):
				return fmt.Errorf("case %q: its id is not of the form %s/name", c.ID, f.Name)
			case seen[c.ID]:
				return fmt.Errorf("case %s stands there twice", c.ID)
			case c.Title == "" || c.Attack == "" || c.Control == "" || c.Oracle == "":
				return fmt.Errorf("case %s: title, attack, control and oracle are all needed", c.ID)
			case len(c.Requirements) == 0:
				return fmt.Errorf("case %s speaks for no requirement", c.ID)
			case c.Run == nil:
				return fmt.Errorf("case %s does nothing", c.ID)
			case c.Safe && c.World != "" && c.World != Main:
				return fmt.Errorf("case %s cannot be safe: a deployed system is no %s", c.ID, c.World)
			case !knownWorld(c.World):
				return fmt.Errorf("case %s: there is no world %q", c.ID, c.World)
			}
			for _, id := range c.Requirements {
				if _, ok := known[id]; !ok {
					return fmt.Errorf("case %s: requirement %q is not in requirements.yaml", c.ID, id)
				}
			}
			seen[c.ID] = true
		}
	}
	return nil
}
