package suite

import (
	"math/rand/v2"
	"strings"
	"testing"

	"glovebox/sandbox-probes/catalogue"
	"glovebox/system/worker/probe"
	"glovebox/threat-model/evidence"
)

func shut(errno string) catalogue.Outcome { return catalogue.Outcome{Word: "shut", Number: errno} }

var open = catalogue.Outcome{Word: "open"}

// Each way in which a probe proves nothing, or proves a hole, must show.
func TestJudgeOfATrial(t *testing.T) {
	evidence.Proves(t, "HAR-01")
	good := trial{check: catalogue.Check{By: catalogue.Filter, Behind: "EROFS"}, inside: shut("EPERM"), behind: shut("EROFS"), control: open, answered: true, kill: sigsys}
	if verdict, detail := good.judge(); verdict != evidence.Held {
		t.Fatalf("control: %s, %s", verdict, detail)
	}
	tests := map[string]struct {
		spoil func(*trial)
		want  evidence.Verdict
	}{
		"it works in the sandbox":            {func(t *trial) { t.inside = open }, evidence.Breached},
		"refused by an unexpected error":     {func(t *trial) { t.inside = shut("EINVAL") }, evidence.Breached},
		"not killed under the core's filter": {func(t *trial) { t.kill = "exit 0 with EPERM" }, evidence.Breached},
		"nothing behind the filter":          {func(t *trial) { t.behind = open }, evidence.Breached},
		"the probe stopped before":           {func(t *trial) { t.inside = catalogue.Outcome{} }, evidence.Errored},
		"the control is stopped too":         {func(t *trial) { t.control = shut("EPERM") }, evidence.Errored},
		"the control says nothing":           {func(t *trial) { t.answered = false }, evidence.Errored},
		"a right that the host lacks":        {func(t *trial) { t.control, t.check.Needs = shut("EPERM"), "CAP_NOT_THERE" }, evidence.Unavailable},
	}
	capabilities["CAP_NOT_THERE"] = 63
	for name, test := range tests {
		spoilt := good
		test.spoil(&spoilt)
		if verdict, detail := spoilt.judge(); verdict != test.want {
			t.Errorf("%s: %s, %s; wanted %s", name, verdict, detail, test.want)
		}
	}
}

func TestScoreTellsAChannelFromChance(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	bits := func(read func(bit bool, i int) int64) float64 {
		var all []reading
		for i := range 200 {
			bit := random.IntN(2) == 1
			all = append(all, reading{bit, read(bit, i)})
		}
		return score(all)
	}
	for name, read := range map[string]func(bool, int) int64{
		"the bit itself": func(bit bool, _ int) int64 { return int64(asInt(bit)) },
		"turned round":   func(bit bool, _ int) int64 { return -int64(asInt(bit)) },
		"with an offset": func(bit bool, i int) int64 { return int64(1000*asInt(bit) + i) },
	} {
		if got := bits(read); got < 0.99 {
			t.Errorf("%s: %.2f", name, got)
		}
	}
	for name, read := range map[string]func(bool, int) int64{
		"always the same": func(bool, int) int64 { return -1 },
		"chance":          func(bool, int) int64 { return random.Int64() },
		"a counter":       func(_ bool, i int) int64 { return int64(i) },
	} {
		if got := bits(read); got >= follows {
			t.Errorf("%s: %.2f", name, got)
		}
	}
	if score(nil) != 0 {
		t.Error("no reading tells something")
	}
}

func TestJudgeOfAChannel(t *testing.T) {
	accepted := channel{name: "x", accepted: "said in the model"}
	tests := []struct {
		name            string
		channel         channel
		inside, outside float64
		model           string
		want            evidence.Verdict
	}{
		{"closed", channel{}, 0.5, 1, "", evidence.Held},
		{"open", channel{}, 1, 1, "", evidence.Breached},
		{"open, accepted nowhere", accepted, 1, 1, "another sentence", evidence.Breached},
		{"open and accepted in writing", accepted, 1, 1, "it is said in the model so", evidence.Held},
		{"closed for everybody", channel{}, 0.5, 0.5, "", evidence.Errored},
		{"closed, and the host lacks it", channel{needs: "a thing"}, 0.5, 0.5, "", evidence.Unavailable},
		{"open where the control fails", channel{needs: "a thing"}, 1, 0.5, "", evidence.Breached},
	}
	for _, test := range tests {
		if c := judgeChannel(test.channel, "id", "title", test.inside, test.outside, test.model); c.Verdict != test.want {
			t.Errorf("%s: %s (%s)", test.name, c.Verdict, c.Detail)
		}
	}
}

// What a channel is excused by must stand in the threat model, word for word.
func TestAcceptedChannelsStandInTheThreatModel(t *testing.T) {
	text, err := acceptedText("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range channels {
		if !strings.Contains(text, c.accepted) {
			t.Errorf("%s: %q stands nowhere in THREAT_MODEL.md", c.name, c.accepted)
		}
	}
}

// The table of settings taken away must name each row of the spec.
func TestEveryRowOfTheSpecCanBeTakenAway(t *testing.T) {
	var fields strings.Builder
	seen := map[string]bool{}
	for _, wall := range probe.Walls() {
		if seen[wall.ID] || wall.What == "" {
			t.Errorf("wall %q stands twice or says nothing", wall.ID)
		}
		seen[wall.ID] = true
		fields.WriteString(wall.Field + "\n")
	}
	for _, row := range probe.SpecRows() {
		if !strings.Contains(fields.String(), row) {
			t.Errorf("no wall takes %s away", row)
		}
	}
}
