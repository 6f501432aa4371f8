package fault

import "strings"

// threats says which lines of threat-model/threats.yaml a kind puts to the test, by
// the beginning of its name; the longest that fits counts.
var threats = map[string][]string{
	"kill-":            {"INT-D1", "INT-T1"},
	"stop-":            {"INT-T1", "INT-D1"},
	"drain-":           {"INT-D1"},
	"kill-launcher":    {"LCH-D1"},
	"kill-workers":     {"LCH-D1", "INT-D1"},
	"stop-launcher":    {"LCH-D1"},
	"kill-server":      {"PUB-T3", "STO-D2"},
	"kill-sweeper":     {"STO-D2", "STO-T3"},
	"stop-sweeper":     {"STO-D2", "STO-T3"},
	"kill-everything":  {"DBS-D1", "STO-D2", "LCH-D1"},
	"crash-finish":     {"INT-T2", "STO-D2", "DBS-T2"},
	"crash-submit":     {"PUB-T3", "STO-D2"},
	"crash-sweep":      {"STO-T3", "STO-D2"},
	"kill-postgres":    {"DBS-D1"},
	"stop-postgres":    {"DBS-D1"},
	"restart-postgres": {"DBS-D1"},
	"end-sessions":     {"DBS-D1", "DBS-T2"},
	"old-snapshot":     {"DBS-D1"},
	"kill-engine":      {"LCH-D1"},
	"stop-engine":      {"LCH-D1"},
	"net-":             {"PUB-T3", "DBS-T2"},
	"net-deaf-workers": {"INT-T1", "DBS-T2"},
	"net-mute-workers": {"INT-T1", "INT-T2", "DBS-T2"},
	"disk-":            {"STO-D1"},
	"flip-":            {"STO-T2"},
	"cut-":             {"STO-T2"},
	"clock-":           {"INT-T1", "STO-T3"},
	"rolling-":         {"INT-D1", "PUB-T3"},
	"renew-":           {"INT-S1"},
}

func threatsOf(kind string) []string {
	best := ""
	for prefix := range threats {
		if strings.HasPrefix(kind, prefix) && len(prefix) > len(best) {
			best = prefix
		}
	}
	return threats[best]
}
