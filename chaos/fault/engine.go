package fault

import (
	"math/rand/v2"
	"time"

	"glovebox/chaos/rig"
)

func engineKinds() []Kind {
	return []Kind{
		{
			Name: "kill-engine", Title: "SIGKILL of the engine's service", Requirements: []string{"SBX-12", "HAR-06"},
			Make: func(random *rand.Rand, _ *rig.Rig) Fault {
				return &kill{names: []string{"engine"}, hold: between(random, 0, 3*time.Second)}
			},
		},
		{
			Name: "stop-engine", Title: "the engine's service stopped for longer than a lease", Requirements: []string{"SBX-12", "JOB-06"},
			Make: func(random *rand.Rand, _ *rig.Rig) Fault {
				return &freeze{name: "engine", hold: rig.Lease + between(random, 0, 2*time.Second)}
			},
		},
	}
}
