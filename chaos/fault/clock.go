package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"glovebox/chaos/rig"
)

func clockKinds() []Kind {
	var all []Kind
	for _, role := range []string{"server", "worker", "sweeper"} {
		all = append(all, Kind{
			GoesOn: true, Name: "clock-" + role, Title: "the clock of a " + role + " off by hours", Requirements: []string{"JOB-06", "JOB-08", "STO-03"},
			Make: func(random *rand.Rand, r *rig.Rig) Fault {
				skew := between(random, time.Hour, 6*time.Hour).Round(time.Minute)
				if random.IntN(2) == 0 {
					skew = -skew
				}
				return &wrongClock{name: pick(random, ofRole(r, role)), skew: skew, hold: between(random, 3*time.Second, 8*time.Second)}
			},
		})
	}
	return all
}

// WrongClock is the fault of a process that lives at another time, for named cases.
func WrongClock(name string, skew, hold time.Duration) Fault {
	return &wrongClock{name: name, skew: skew, hold: hold}
}

// wrongClock gives a process another idea of the time, by starting it anew: its
// program was built with a clock that can be wrong.
type wrongClock struct {
	always
	again
	name       string
	skew, hold time.Duration
}

func (w *wrongClock) String() string      { return fmt.Sprintf("the clock of %s is %s off", w.name, w.skew) }
func (w *wrongClock) Hold() time.Duration { return w.hold }

func (w *wrongClock) Inject(ctx context.Context, s *Scene) error {
	return w.anew(ctx, s, rig.SkewEnv+"="+w.skew.String())
}

func (w *wrongClock) Heal(ctx context.Context, s *Scene) error { return w.anew(ctx, s) }

func (w *wrongClock) anew(ctx context.Context, s *Scene, env ...string) error {
	if _, alive := s.Process(w.name); alive {
		if err := s.Kill(w.name); err != nil {
			return err
		}
	}
	return s.Restart(ctx, w.name, env...)
}
