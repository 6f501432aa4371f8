package suite

import (
	"fmt"
	"os"
	"strings"

	"glovebox/sandbox-probes/host"
	"glovebox/system/worker/probe"
	"glovebox/threat-model/evidence"
)

// inventory looks at the host, and at what of it is of this suite.
func (s *Suite) inventory() (host.Inventory, error) {
	return host.Take(host.Scope{
		Dir: s.bench.Dir(), Label: s.bench.Label(), FirstUID: probe.UIDBase, UIDs: probe.Slots * probe.IDRange,
		Holders: []int{os.Getpid(), s.bench.EnginePID()}, Places: host.Places(),
	})
}

// hostUnchanged compares the host with what it was before all attempts.
func (s *Suite) hostUnchanged(before host.Inventory) {
	c := evidence.Case{
		ID: "host/unchanged", Title: "the host is as it was before all attempts", Requirements: []string{"SBX-03", "SBX-04", "SBX-12"}, Threats: []string{"BOX-T1", "BOX-D3", "BOX-E3"}, Tried: "the whole suite",
		Oracle:  "every kernel setting; files, processes, descriptors, mounts, control groups, sockets and System V objects of slots, their users and the probes; the tops of / and /dev and /etc",
		Verdict: evidence.Held, Detail: fmt.Sprintf("%d things looked at", len(before)),
	}
	after, err := s.inventory()
	if err != nil {
		c.Verdict, c.Detail = evidence.Errored, err.Error()
	} else if changed := host.Changes(before, after); len(changed) > 0 {
		c.Verdict, c.Detail = evidence.Breached, strings.Join(changed, "; ")
	}
	s.file(c)
}
