package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"glovebox/chaos/rig"
)

// roles are the processes of ours, one kind of fault for each.
var roles = []string{"worker", "launcher", "server", "sweeper"}

func processKinds() []Kind {
	var all []Kind
	for _, role := range roles {
		all = append(all,
			Kind{
				Name: "kill-" + role, Title: "SIGKILL of a " + role, Requirements: []string{"HAR-06", "JOB-06", "SBX-12", "UPL-08"},
				Make: func(random *rand.Rand, r *rig.Rig) Fault {
					return &kill{names: []string{pick(random, ofRole(r, role))}, aim: aim(random, role), hold: between(random, 0, 2*time.Second)}
				},
			},
			Kind{
				GoesOn: role != "server", Name: "stop-" + role, Title: "SIGSTOP of a " + role + " past the lease, then SIGCONT", Requirements: []string{"HAR-06", "JOB-08", "JOB-06"},
				Make: func(random *rand.Rand, r *rig.Rig) Fault {
					return &freeze{name: pick(random, ofRole(r, role)), aim: aim(random, role), hold: rig.Lease + between(random, time.Second, 3*time.Second)}
				},
			})
	}
	return append(all,
		Kind{
			Name: "kill-workers", Title: "SIGKILL of every worker and launcher at once", Requirements: []string{"HAR-06", "JOB-06", "SBX-12"},
			Make: func(random *rand.Rand, r *rig.Rig) Fault {
				return &kill{names: append(ofRole(r, "worker"), ofRole(r, "launcher")...), hold: between(random, 0, 2*time.Second)}
			},
		},
		Kind{
			Name: "kill-servers", Title: "SIGKILL of every server at once", Requirements: []string{"HAR-06", "JOB-05", "UPL-08"},
			Make: func(random *rand.Rand, r *rig.Rig) Fault {
				return &kill{names: ofRole(r, "server"), hold: between(random, 0, 2*time.Second)}
			},
		},
		Kind{
			Name: "kill-everything", Title: "SIGKILL of every process at once, PostgreSQL and engine too", Requirements: []string{"HAR-06", "JOB-05", "JOB-06", "SBX-12", "UPL-08", "STO-02"},
			Make: func(random *rand.Rand, r *rig.Rig) Fault {
				return &kill{names: append([]string{"postgres", "engine"}, r.Everyone()...), hold: between(random, 0, time.Second)}
			},
		},
		Kind{
			Name: "drain-worker", Title: "SIGTERM of a worker, which hands back or finishes", Requirements: []string{"REL-05"},
			Make: func(random *rand.Rand, r *rig.Rig) Fault {
				return &drain{name: pick(random, ofRole(r, "worker")), aim: aim(random, "worker"), hold: between(random, 0, time.Second)}
			},
		},
		Kind{
			Name: "drain-server", Title: "SIGTERM of a server with requests in flight", Requirements: []string{"REL-05"},
			Make: func(random *rand.Rand, r *rig.Rig) Fault {
				return &drain{name: pick(random, ofRole(r, "server")), hold: between(random, 0, time.Second)}
			},
		},
	)
}

// ofRole lists the processes of a role.
func ofRole(r *rig.Rig, role string) []string {
	var names []string
	for _, name := range r.Everyone() {
		if name == role || strings.HasPrefix(name, role+"-") {
			names = append(names, name)
		}
	}
	return names
}

// always is the part of a fault that any host can do.
type always struct{}

// Available implements Fault.
func (always) Available(*rig.Rig) error { return nil }

// again is the part of a fault whose repair starts processes.
type again struct{}

func (again) startsProcesses() {}

// kill ends processes without a word and starts them again.
type kill struct {
	always
	again
	names []string
	aim   string
	hold  time.Duration
}

func (k *kill) String() string      { return "kill " + strings.Join(k.names, " ") }
func (k *kill) Hold() time.Duration { return k.hold }

func (k *kill) Inject(ctx context.Context, s *Scene) error {
	if k.aim != "" {
		name, err := aimed(ctx, s, k.aim)
		if err != nil {
			return err
		}
		k.names = []string{name}
	}
	var errs []error
	for _, name := range k.names {
		errs = append(errs, s.Kill(name))
	}
	return errors.Join(errs...)
}

func (k *kill) Heal(ctx context.Context, s *Scene) error {
	// In the order in which they were named: what others need comes first.
	for _, name := range k.names {
		if _, alive := s.Process(name); alive {
			continue
		}
		if err := s.Restart(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// freeze stops a process for longer than a lease; it wakes up believing that no
// time has passed.
type freeze struct {
	always
	name string
	aim  string
	hold time.Duration
}

func (f *freeze) String() string {
	return fmt.Sprintf("stop %s for %s", f.name, f.hold.Round(100*time.Millisecond))
}
func (f *freeze) Hold() time.Duration { return f.hold }

func (f *freeze) Inject(ctx context.Context, s *Scene) (err error) {
	if f.aim != "" {
		if f.name, err = aimed(ctx, s, f.aim); err != nil {
			return err
		}
	}
	return s.SignalAll(f.name, syscall.SIGSTOP)
}
func (f *freeze) Heal(_ context.Context, s *Scene) error { return s.SignalAll(f.name, syscall.SIGCONT) }

// drain asks a process to end in good order.
type drain struct {
	always
	again
	name string
	aim  string
	hold time.Duration
}

func (d *drain) String() string      { return "ask " + d.name + " to end" }
func (d *drain) Hold() time.Duration { return d.hold }

// GraceTime is what a good end may take: what the worker's own stop may, grace and
// margin, and a little more. The others are done sooner.
const GraceTime = 65 * time.Second

func (d *drain) Inject(ctx context.Context, s *Scene) (err error) {
	if d.aim != "" {
		if d.name, err = aimed(ctx, s, d.aim); err != nil {
			return err
		}
	}
	if err := s.Stop(d.name, GraceTime); err != nil {
		s.Report("graceful-shutdown", "", err.Error())
	}
	return nil
}

func (d *drain) Heal(ctx context.Context, s *Scene) error { return s.Restart(ctx, d.name) }
