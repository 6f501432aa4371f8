package probe_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"glovebox/system/worker/internal/container/enginetest"
	"glovebox/system/worker/probe"
	"glovebox/threat-model/evidence"
)

const answers = `#include <fcntl.h>
#include <string.h>
#include <unistd.h>
int main(void)
{
	char text[64] = "";
	int in = open("/in/input", O_RDONLY), out = open("/out/result", O_WRONLY);
	if (in < 0 || out < 0 || read(in, text, sizeof text - 1) < 0)
		return 2;
	if (!strncmp(text, "wait", 4))
		while (pread(in, text, 5, 0) == 5 && text[4] != '!')
			;
	return write(out, text, strlen(text)) < 0 ? 70 : 7;
}
`

func TestBenchRunsAttempts(t *testing.T) {
	evidence.Proves(t, "SBX-12")
	program := enginetest.Compile(t, []byte(answers))
	b, err := probe.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Errorf("something is left: %v", err)
		}
		if _, err := os.Stat(b.Dir()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the bench's folder is left: %v", err)
		}
	}()
	limits := probe.Defaults()
	limits.MaxInputBytes, limits.MaxResultBytes = 1<<20, 1<<20
	attempt := func(change func(*probe.Attempt)) probe.Report {
		t.Helper()
		a := probe.Attempt{Program: program, Input: []byte("hello"), Limits: limits}
		if change != nil {
			change(&a)
		}
		report, err := b.Run(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	if r := attempt(nil); !r.Ended("exit 7") || string(r.Result) != "hello" {
		t.Errorf("a plain attempt: %s, %q", r.Outcome(), r.Result)
	}
	if r := attempt(func(a *probe.Attempt) { a.Filter.Remove = []string{"write"} }); r.Ended("exit 7") {
		t.Error("a name taken from the list is still allowed")
	}
	seen := 0
	r := attempt(func(a *probe.Attempt) {
		a.Input = []byte("wait?")
		a.Watch = func(_ context.Context, r probe.Running) error {
			seen = r.PID
			return os.WriteFile(r.SlotDir+"/input", []byte("wait!"), 0o600)
		}
	})
	if seen == 0 || !r.Ended("exit 7") {
		t.Errorf("a watched attempt: pid %d, %s", seen, r.Outcome())
	}
	if r := attempt(func(a *probe.Attempt) { a.Without = []string{"cgroup-parent"} }); r.Ended("exit 7") {
		t.Error("a core ran outside of its group")
	}
	for _, id := range []string{"network", "hostname"} { // one cut from the runtime, one from the spec
		if r := attempt(func(a *probe.Attempt) { a.Without = []string{id} }); !r.Ended("exit 7") {
			t.Errorf("without %s: %s", id, r.Outcome())
		}
	}
	if _, err := b.Run(t.Context(), probe.Attempt{Program: program, Limits: limits, Without: []string{"no such wall"}}); err == nil || !strings.Contains(err.Error(), "no wall is called") {
		t.Errorf("error is %v", err)
	}
}
