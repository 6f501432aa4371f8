package e2e_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"glovebox/threat-model/evidence"
)

// crashPoints are the instants of a submission and of a result at which a server
// may die (system/server/internal/jobs/crashpoint, which this package cannot see).
// The sweeper's own two are tried in
// system/server/internal/jobs/adapters/postgres/sweep_test.go.
var crashPoints = []string{
	"submit/begun", "submit/staged", "submit/stored", "submit/before-commit", "submit/committed",
	"finish/checked", "finish/staged", "finish/verified", "finish/stored", "finish/before-commit", "finish/committed",
	"store/synced", "store/renamed",
}

// throughCrash is a submission whose server died at a point.
type throughCrash struct {
	point string
	body  []byte
	id    string
	err   error
	done  chan struct{}
}

// crashPointsTest kills the one server at each point once. Clients and worker come
// back by themselves, and each job is done once. A submission whose server died
// holds its key for half a minute, so those are awaited together at the end.
func crashPointsTest(t *testing.T, w *edgeWorld) {
	evidence.Record(t, evidence.Claim{
		Requirements: []string{"STO-02", "STO-03", "JOB-04", "JOB-05", "UPL-08", "API-04"},
		Tried:        "SIGKILL of the server by itself at each named point of a submission and of a result",
		Oracle:       "end of the process, observer's rows and events, stored files against rows, the client's result",
	})
	// One server and one worker, so that everything passes the point.
	for _, name := range []string{"worker-1", "server-1"} {
		if err := w.Stop(name, 40*time.Second); err != nil {
			t.Error(err)
		}
	}
	jobs := jobCount(t, w)
	p := w.people[0]
	p.url = w.Servers[0].PublicURL
	dir := t.TempDir()
	if err := w.Stop("server-0", 40*time.Second); err != nil {
		t.Error(err)
	}
	var all []*throughCrash
	for n, point := range crashPoints {
		if err := w.Restart(context.Background(), "server-0", "GLOVEBOX_CRASH_AT="+point); err != nil {
			// One of the earlier submissions may have passed the point already.
			if _, alive := w.Process("server-0"); alive || !strings.Contains(err.Error(), "ended before it was ready") {
				t.Fatal(err)
			}
		}
		c := &throughCrash{point: point, body: []byte(fmt.Sprintf("through the crash at %s", point)), done: make(chan struct{})}
		path := filepath.Join(dir, fmt.Sprint(n))
		if err := os.WriteFile(path, c.body, 0o600); err != nil {
			t.Fatal(err)
		}
		go func() {
			defer close(c.done)
			c.id, c.err = p.trySubmit(path)
		}()
		died, cancel := context.WithTimeout(context.Background(), 40*time.Second)
		err := w.Await(died, "server-0")
		cancel()
		if err != nil {
			t.Fatalf("%s was not passed: %v", point, err)
		}
		all = append(all, c)
	}
	if err := w.Restart(context.Background(), "server-0"); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		<-c.done
		if c.err != nil {
			t.Errorf("%s: the client did not come through: %v", c.point, c.err)
			continue
		}
		sum, _, err := p.caller(0).await(c.id)
		events := history(t, w.db, c.id)
		if err != nil || sum != sha256.Sum256(c.body) || count(events, ">completed") != 1 {
			t.Errorf("%s: %v: %+v %v", c.point, err, look(t, w.db, c.id), events)
		}
		t.Logf("%-20s %v", c.point, events)
	}
	if made := jobCount(t, w) - jobs; made != len(crashPoints) {
		t.Errorf("%d jobs were made of %d submissions", made, len(crashPoints))
	}
	w.settled(t)
	w.nothingBeside(t)
	clean(t, w.System)
	for _, name := range []string{"server-1", "worker-1"} {
		if err := w.Restart(context.Background(), name); err != nil {
			t.Error(err)
		}
	}
}
