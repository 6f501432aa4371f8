package jobs

import (
	"testing"

	"glovebox/system/server/internal/jobs/domain"
	"glovebox/threat-model/evidence"
)

func TestOneAttemptHasFewResultsOnTheirWay(t *testing.T) {
	evidence.Proves(t, "UPL-04")
	t.Parallel()
	r := newReceiving()
	one := domain.Fence{JobID: "a", WorkerID: "w", FencingToken: 1}
	leave := make([]func(), resultsAtOnce)
	for i := range leave {
		var err error
		if leave[i], err = r.enter(one); err != nil {
			t.Fatalf("result %d: %v", i, err)
		}
	}
	if _, err := r.enter(one); domain.CodeOf(err) != domain.CodeUnavailable {
		t.Errorf("one more: %v", err)
	}
	next := one
	next.FencingToken++
	done, err := r.enter(next)
	if err != nil {
		t.Errorf("of the next attempt: %v", err)
	}
	leave[0]()
	again, err := r.enter(one)
	if err != nil {
		t.Errorf("after one has ended: %v", err)
	}
	again()
	leave[1]()
	done()
	if len(r.held) != 0 {
		t.Errorf("%d attempts are remembered", len(r.held))
	}
}
