package jobs_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"glovebox/system/protocol"
	"glovebox/system/protocol/failure"
	"glovebox/system/worker/internal/jobs"
	"glovebox/threat-model/evidence"
)

// What is known of a run goes with the report of its end, in the header's form
// whatever it was made of, and as the same when the report is sent again.
func TestWhatRanIsToldWithItsEnd(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "ARC-08", "COR-05")
	failed := func(said string) func(context.Context, protocol.Assignment, jobs.Exchange) jobs.Outcome {
		return func(context.Context, protocol.Assignment, jobs.Exchange) jobs.Outcome {
			outcome := jobs.Failed(failure.InvalidInput, "line 1", nil)
			outcome.Provenance = said
			return outcome
		}
	}
	rows := map[string]struct {
		work func(context.Context, protocol.Assignment, jobs.Exchange) jobs.Outcome
		verb string
		want []string
	}{
		"a result":                {upper, "result", []string{ran}},
		"a failure":               {failed(ran), "fail", []string{ran}},
		"nothing ran":             {failed(""), "fail", nil},
		"nothing but spaces":      {failed("  "), "fail", nil},
		"longer than a header":    {failed(strings.Repeat("x", 5000)), "fail", []string{strings.Repeat("x", protocol.MaxProvenanceBytes)}},
		"what would end a line":   {failed("a\r\nGlovebox-Fencing-Token: 2\x1bé"), "fail", []string{"a??Glovebox-Fencing-Token: 2??"}},
		"spaces at the ends":      {failed(" a b "), "fail", []string{"a b"}},
		"a space where it is cut": {failed(strings.Repeat("x", protocol.MaxProvenanceBytes-1) + " x"), "fail", []string{strings.Repeat("x", protocol.MaxProvenanceBytes-1)}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.setHook(func(verb string, n int, w http.ResponseWriter, _ *http.Request) bool {
				return verb == row.verb && n == 1 && cut(w) // the first one does not arrive
			})
			j := s.add("x", nil)
			start(t, s, runner{work: row.work}, 1, 0)
			s.until("the end reported", func() bool { return j.completed+j.reports == 1 })
			s.mu.Lock()
			defer s.mu.Unlock()
			if !slices.Equal(j.said, row.want) {
				t.Errorf("the server is told %.40q, want %.40q", j.said, row.want)
			}
		})
	}
}

// A run that is ended because the worker stops did run.
func TestAHandBackTellsWhatRan(t *testing.T) {
	t.Parallel()
	evidence.Proves(t, "ARC-08", "REL-05")
	s := newServer(t)
	j := s.add("x", nil)
	started := make(chan struct{})
	w := start(t, s, runner{work: func(ctx context.Context, _ protocol.Assignment, _ jobs.Exchange) jobs.Outcome {
		close(started)
		<-ctx.Done()
		outcome := jobs.Failed(failure.SandboxFailure, "ended", nil)
		outcome.Provenance = ran
		return outcome
	}}, 1, 0)
	receive(t, started)
	w.stop()
	w.wait()
	if j.report.Code != failure.WorkerShutdown || !slices.Equal(j.said, []string{ran}) {
		t.Errorf("handed back with %+v, saying %q", j.report, j.said)
	}
}
