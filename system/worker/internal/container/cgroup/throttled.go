package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Throttled is how often the kernel has held the group back for its cpu quota since
// it was made. How much time a group was given does not tell that: on a busy host it
// may get no more without a quota.
func (g *Group) Throttled() (int, error) {
	dir := g.main()
	if g.tree.version == 1 {
		dir = filepath.Join(g.tree.roots["cpu"], g.name)
	}
	text, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
	if err != nil {
		return 0, fmt.Errorf("read how often the quota acted: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "nr_throttled "); ok {
			return strconv.Atoi(strings.TrimSpace(n))
		}
	}
	return 0, errors.New("read how often the quota acted: cpu.stat has no line nr_throttled; this kernel has no cpu quota")
}
