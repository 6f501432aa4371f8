package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAForgedNumberIsTakenForTheHarsherOfItsMeanings(t *testing.T) {
	for ends, want := range map[string]string{
		"exit 0": "exit 0", "exit 128": "exit 128", "exit 139": "signal 11", "exit 159": "signal 31", "exit 255": "exit 255", "oom": "oom",
		"exit 137": "sandbox_failure: the core was killed from outside its slot", "signal 11": "signal 11",
	} {
		if got := harsher(ends); got != want {
			t.Errorf("%s comes to %q, wanted %q", ends, got, want)
		}
	}
}

// A planted host that is not loose would show nothing: it says so instead.
func TestLiftRefusesWhatItDoesNotUnderstand(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.json")
	for text, fault := range map[string]string{
		`{"linux":{"resources":{"memory":{"limit":1}}}}`: "names no cgroup",
		`{"root":{}}`: "has no part linux",
		`{"linux":{"cgroupsPath":"/is/not/there/x","resources":{}}}`: "memory.max",
	} {
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := lift(config)
		if err == nil || !strings.Contains(err.Error(), fault) && !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAReportIsFoundAmongLogLines(t *testing.T) {
	r, err := parse("{\"level\":\"ERROR\"}\n{\"passed\":false,\"missing\":[\"cpu\"],\"walls\":[{\"name\":\"cpu\",\"stands\":false,\"detail\":\"x\"}]}\nerror\n")
	if err != nil || r.Passed || len(r.Walls) != 1 || r.Missing[0] != "cpu" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := parse("nothing\n"); err == nil {
		t.Error("a text without a report is taken")
	}
}
