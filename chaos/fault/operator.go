package fault

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"glovebox/chaos/rig"
)

// What an operator does to a running system. None of it is a fault; all of it must
// pass like one.
func operatorKinds() []Kind {
	return []Kind{
		{
			Name: "rolling-restart", Title: "a rolling restart of every server under traffic", Requirements: []string{"REL-05", "JOB-05"},
			Make: func(*rand.Rand, *rig.Rig) Fault { return &rolling{role: "server"} },
		},
		{
			Name: "rolling-workers", Title: "a rolling restart of every worker and launcher under traffic", Requirements: []string{"REL-05", "JOB-06", "SBX-12"},
			Make: func(*rand.Rand, *rig.Rig) Fault { return &rolling{role: "worker"} },
		},
		{
			GoesOn: true, Name: "renew-certificates", Title: "every certificate renewed during running jobs", Requirements: []string{"JOB-08", "JOB-05"},
			Make: func(*rand.Rand, *rig.Rig) Fault { return &renewal{} },
		},
	}
}

// rolling ends and starts the processes of a role one after another.
type rolling struct {
	always
	again
	role string
}

func (r *rolling) String() string {
	return "restart every " + r.role + " in good order, one after another"
}
func (*rolling) Hold() time.Duration { return 0 }

func (r *rolling) Inject(ctx context.Context, s *Scene) error {
	for _, name := range ofRole(s.Rig, r.role) {
		names := []string{name}
		if r.role == "worker" { // with its launcher, which must end after it and start before
			names = []string{name, strings.Replace(name, "worker", "launcher", 1)}
		}
		for _, name := range names {
			if err := s.Stop(name, GraceTime); err != nil {
				s.Report("graceful-shutdown", "", err.Error())
			}
		}
		for i := len(names) - 1; i >= 0; i-- {
			if err := s.Restart(ctx, names[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *rolling) Heal(ctx context.Context, s *Scene) error { return s.Revive(ctx) }

// renewal replaces every certificate and key, which the processes must take up by
// themselves, with the attempts that are under way.
type renewal struct{ always }

func (*renewal) String() string      { return "renew every certificate" }
func (*renewal) Hold() time.Duration { return 3 * time.Second }

func (*renewal) Inject(ctx context.Context, s *Scene) error {
	before, err := serials(s)
	if err != nil {
		return err
	}
	if err := s.RenewCertificates(ctx); err != nil {
		return err
	}
	// Renewed is not taken up: the listener itself must show the new one.
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		after, err := serials(s)
		if err == nil && fresh(before, after) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the servers do not show their new certificates: %w (%v)", ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (*renewal) Heal(context.Context, *Scene) error { return nil }

// serials are the serial numbers that the public listeners show.
func serials(s *Scene) ([]string, error) {
	var all []string
	for i, base := range s.Public {
		// Only the serial is looked at, and nothing is sent.
		conn, err := tls.Dial("tcp", strings.TrimPrefix(base, "https://"), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // see above
		if err != nil {
			return nil, fmt.Errorf("look at the certificate of server %d: %w", i, err)
		}
		peers := conn.ConnectionState().PeerCertificates
		if err := conn.Close(); err != nil && len(peers) == 0 {
			return nil, err
		}
		if len(peers) == 0 {
			return nil, errors.New("a server shows no certificate")
		}
		all = append(all, peers[0].SerialNumber.String())
	}
	return all, nil
}

func fresh(before, after []string) bool {
	for i := range before {
		if before[i] == after[i] {
			return false
		}
	}
	return len(before) > 0
}
