package e2e_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"glovebox/ci/local"
)

// edgeWorld is the system that the tests of one edge after another share: starting
// one takes longer than most of them.
type edgeWorld struct {
	*local.System
	db     *pgx.Conn // the observer's; for one goroutine
	people []person
}

// TestEdges runs the unfriendly user, network, core, worker and operator against
// one system of two servers and two workers. Each part leaves it whole.
func TestEdges(t *testing.T) {
	t.Parallel()
	s := start(t, "edges", 22000, local.Options{
		Servers: 2, Workers: 2, Image: image(t, compile(t, "cores/acts.c")),
		Set: []string{
			"lease.duration=6s lease.heartbeat=2s worker.grace=1s sandbox.timeout=8s jobs.claim_poll=500ms sweeper.interval=1s sweeper.staged_age=20s http.stall_timeout=15s",
			fmt.Sprintf("jobs.max_attempts=%d limits.max_result_bytes=%d sandbox.memory_bytes=%d", edgeAttempts, edgeResultBytes, edgeMemoryBytes),
		},
	})
	w := &edgeWorld{System: s, db: observer(t, s), people: []person{login(t, s, 0), login(t, s, 1)}}
	held := takeKeyAndDie(t, w)
	parts := []struct {
		name string
		run  func(*testing.T, *edgeWorld)
	}{
		{"one key, two hundred requests", equalRequestsTest},
		{"a key with other bytes", otherBytesTest},
		{"bad cores", badCoresTest},
		{"a dead server's key frees itself", held.freesItselfTest},
		{"foreign and missing jobs", foreignJobsTest},
		{"a worker stopped beyond its lease", stoppedWorkerTest},
		{"a worker told to end in mid-run", handBackTest},
		{"a server told to end with requests in flight", serverEndsTest},
		{"servers away", serversAwayTest},
		{"a worker taken off the list", revokedWorkerTest},
		{"certificates renewed", renewalTest},
		{"the authority rotated", rotationTest},
		{"the two APIs do not open for each other", crossingTest},
		{"secrets in the open", secretsTest},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			for i := range w.people { // failures belong to the part
				w.people[i].t = t
			}
			part.run(t, w)
		})
	}
}
