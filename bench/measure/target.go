package measure

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Missed names the targets whose figure is worse, or is not there.
func Missed(figures []Figure, targets map[string]float64) []string {
	var missed []string
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		i := slices.IndexFunc(figures, func(f Figure) bool { return f.Name == name })
		if i < 0 || !reached(figures[i], targets[name]) {
			missed = append(missed, name)
		}
	}
	return missed
}

func reached(f Figure, target float64) bool {
	if f.Better == Higher {
		return f.Ratio >= target
	}
	return f.Ratio <= target
}

// Table is the figures for a reader.
func Table(figures []Figure, targets map[string]float64) string {
	var b strings.Builder
	for _, f := range figures {
		target := ""
		if t, ok := targets[f.Name]; ok {
			sign := map[string]string{Lower: "at most", Higher: "at least"}[f.Better]
			target = fmt.Sprintf("  (%s %.2f)", sign, t)
		}
		fmt.Fprintf(&b, "%-24s %12.2f %-6s %-34s %12.2f   ratio %6.3f%s  %d runs\n", f.Name, f.Ours, f.Unit, f.PeerName, f.Peer, f.Ratio, target, f.Runs)
	}
	return b.String()
}
