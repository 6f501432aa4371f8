package recovery

import (
	"os"
	"slices"
	"strings"
	"testing"

	"glovebox/system/platform/secret"
)

// TestEachKindIsExplained: whoever reads a finding finds its kind in the manual,
// with what to do.
func TestEachKindIsExplained(t *testing.T) {
	manual, err := os.ReadFile("../../../../docs/RECOVERY.md")
	if err != nil {
		t.Fatal(err)
	}
	for kind, remedy := range remedies {
		if remedy == "" || !strings.Contains(string(manual), "`"+string(kind)+"`") {
			t.Errorf("%s is not explained in docs/RECOVERY.md", kind)
		}
	}
	for _, kind := range FsckKinds() {
		if remedies[kind] == "" {
			t.Errorf("%s has no remedy", kind)
		}
	}
	for _, rule := range contradictions {
		if !slices.Contains(FsckKinds(), rule.kind) {
			t.Errorf("%s is not among the kinds that a test plants", rule.kind)
		}
	}
}

func TestDifferingNamesWhatEachSideHasAlone(t *testing.T) {
	for _, c := range []struct{ before, after, want []string }{
		{nil, nil, nil},
		{[]string{"a", "b"}, []string{"a", "b"}, nil},
		{[]string{"a", "c"}, []string{"b", "c", "d"}, []string{"- a", "+ b", "+ d"}},
		{[]string{"a"}, nil, []string{"- a"}},
		{nil, []string{"a"}, []string{"+ a"}},
	} {
		if got := differing(c.before, c.after); !slices.Equal(got, c.want) {
			t.Errorf("of %v and %v: %v, want %v", c.before, c.after, got, c.want)
		}
	}
}

// TestAPasswordIsNoArgument: what stands in a process list holds no secret.
func TestAPasswordIsNoArgument(t *testing.T) {
	for _, login := range []string{
		"postgres://glovebox_backup:pass-word@/glovebox?host=%2Frun%2Fpg&port=5432",
		"postgresql://glovebox_backup@localhost/glovebox?password=pass-word",
	} {
		address, password, err := target(secret.New(login))
		if err != nil || password != "pass-word" || strings.Contains(address, "pass-word") || !strings.Contains(address, "glovebox_backup") {
			t.Errorf("%s: %s, %q, %v", login, address, password, err)
		}
	}
	if _, _, err := target(secret.New("host=localhost password=pass-word")); err == nil || strings.Contains(err.Error(), "pass-word") {
		t.Errorf("a login of another form: %v", err)
	}
}
