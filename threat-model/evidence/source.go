package evidence

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// SourceDigest returns git's tree hash of the working tree at dir as it stands,
// uncommitted and untracked files included (ignored ones not), and whether it
// differs from HEAD. The repository's own index is not touched.
func SourceDigest(dir string) (digest string, dirty bool, err error) {
	tmp, err := os.MkdirTemp("", "glovebox-index-")
	if err != nil {
		return "", false, err
	}
	defer os.RemoveAll(tmp)
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+filepath.Join(tmp, "index"))
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
		}
		return strings.TrimSpace(string(out)), nil
	}
	head, err := git("rev-parse", "HEAD^{tree}")
	if err != nil {
		return "", false, err
	}
	if _, err := git("read-tree", "HEAD"); err != nil {
		return "", false, err
	}
	if _, err := git("add", "--all", "."); err != nil {
		return "", false, err
	}
	tree, err := git("write-tree")
	if err != nil {
		return "", false, err
	}
	return tree, tree != head, nil
}

// Machine describes the host as far as it matters for judging a run.
func Machine() map[string]string {
	machine := map[string]string{
		"os": runtime.GOOS, "arch": runtime.GOARCH, "cpus": strconv.Itoa(runtime.NumCPU()), "go": runtime.Version(),
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		machine["kernel"] = strings.TrimSpace(string(release))
	}
	return machine
}
