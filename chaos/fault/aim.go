package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"glovebox/chaos/history"
	"glovebox/chaos/rig"
	"glovebox/chaos/traffic"
)

// aimShare is how many of a hundred faults of a worker or launcher hit the one that
// has a job in mid-run, rather than any.
const aimShare = 75

// aim draws whether a fault of the role is aimed; "" is not.
func aim(random *rand.Rand, role string) string {
	if (role == "worker" || role == "launcher") && random.IntN(100) < aimShare {
		return role
	}
	return ""
}

// aimed has a job run for longer than a lease, and returns the process of the role
// that has it in its hands.
func aimed(ctx context.Context, s *Scene, role string) (name string, err error) {
	ctx, cancel := context.WithTimeout(ctx, ownJobTime)
	defer cancel()
	pause := rig.Lease + 2*time.Second
	sent, ok := s.Bystander.Deliver(ctx, s.Random, traffic.SlowFile(s.Random, "aim", int(pause.Milliseconds())))
	if !ok {
		return "", errors.New("the job at whose worker the fault is aimed was not taken")
	}
	for {
		status, worker, err := s.Holder(ctx, sent.Job)
		if err == nil && status == history.Processing {
			// Worker w1 is the process worker-0.
			n, err := strconv.Atoi(strings.TrimPrefix(worker, "w"))
			if err != nil {
				return "", fmt.Errorf("worker %q is none of this system: %w", worker, err)
			}
			return fmt.Sprintf("%s-%d", role, n-1), nil
		}
		if history.Terminal(status) {
			return "", errors.New("the job at whose worker the fault is aimed ended too soon")
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("the job at whose worker the fault is aimed is %s: %w", status, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
