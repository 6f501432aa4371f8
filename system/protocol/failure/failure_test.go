package failure_test

import (
	"testing"

	"glovebox/system/protocol/failure"
	"glovebox/threat-model/evidence"
)

// The whole table, spelt out a second time from the requirement's text.
func TestTable(t *testing.T) {
	evidence.Proves(t, "JOB-11")
	retryable := map[failure.Code]bool{
		"timeout": true, "out_of_memory": true, "sandbox_failure": true, "worker_lost": true, "worker_shutdown": true,
		"invalid_input": false, "core_error": false, "core_crashed": false, "core_forbidden_call": false,
		"output_too_large": false, "output_invalid": false, "attempts_exhausted": false,
		"rejected_unsupported_type": false, "rejected_too_large": false, "rejected_malicious_content": false,
	}
	if got := len(failure.Codes()); got != len(retryable) {
		t.Errorf("the table has %d codes, %d expected", got, len(retryable))
	}
	for code, want := range retryable {
		fact, ok := failure.Lookup(code)
		if !ok || fact.Retryable != want {
			t.Errorf("%s: retryable %v, known %v; want %v", code, fact.Retryable, ok, want)
		}
	}
	if _, ok := failure.Lookup("made_up"); ok {
		t.Error("an unknown code was found")
	}
}

func TestFromExit(t *testing.T) {
	evidence.Proves(t, "JOB-11")
	tests := map[int]failure.Code{
		1: "core_error", 2: "core_error", 3: "invalid_input", 4: "invalid_input", 5: "output_too_large",
		6: "out_of_memory", 7: "core_error", 70: "core_error", 125: "core_error", 137: "core_error", 139: "core_error", 159: "core_error", 255: "core_error",
	}
	for status, want := range tests {
		if got, ok := failure.FromExit(status); ok || got != want {
			t.Errorf("exit %d: %q (ok %v), want %q", status, got, ok, want)
		}
	}
	if got, ok := failure.FromExit(0); !ok || got != "" {
		t.Errorf("exit 0: %q, %v", got, ok)
	}
}
