package evidence

import (
	"strings"
	"testing"
)

func TestThreatsLoad(t *testing.T) {
	Proves(t, "REL-06")
	all, err := Threats()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 60 {
		t.Fatalf("%d threats were read, the file holds more", len(all))
	}
	letters := map[string]bool{}
	for _, threat := range all {
		letters[threat.Stride] = true
	}
	if len(letters) != 6 {
		t.Errorf("the threats answer %d of STRIDE's six questions", len(letters))
	}
}

func TestThreatsRefuseWhatIsWrong(t *testing.T) {
	for name, text := range map[string]string{
		"unknown field":       `b: {X-S1: {stride: S, loss: a, requirements: [JOB-01], extra: 1}}`,
		"two letters":         `b: {X-S1: {stride: ST, loss: a, requirements: [JOB-01]}}`,
		"no loss":             `b: {X-S1: {stride: S, requirements: [JOB-01]}}`,
		"no requirement":      `b: {X-S1: {stride: S, loss: a}}`,
		"unknown requirement": `b: {X-S1: {stride: S, loss: a, requirements: [JOB-99]}}`,
		"an id twice":         "b: {X-S1: {stride: S, loss: a, requirements: [JOB-01]}}\nc: {X-S1: {stride: S, loss: a, requirements: [JOB-01]}}",
	} {
		if _, err := readThreats([]byte(text)); err == nil || !strings.Contains(err.Error(), "threats.yaml") {
			t.Errorf("%s: %v, want a refusal that names the file", name, err)
		}
	}
}
