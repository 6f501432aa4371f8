package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Podman is a podman command on the bench's own engine: its storage, its
// configuration, its runtime.
func (b *Bench) Podman(ctx context.Context, args ...string) *exec.Cmd {
	engine := b.path("e")
	base := []string{"--root", filepath.Join(engine, "root"), "--runroot", filepath.Join(engine, "run"), "--storage-driver", "vfs"}
	cmd := exec.CommandContext(ctx, "podman", append(base, args...)...)
	cmd.Dir = engine // the monitor writes a file where it is started when memory runs out
	cmd.Env = []string{"CONTAINERS_CONF=" + filepath.Join(engine, "containers.conf"), "PATH=" + os.Getenv("PATH"), "HOME=" + engine}
	return cmd
}

// Bundle is the waiting container's configuration as the engine gave it to the
// runtime, for running the same by the runtime alone.
type Bundle struct {
	dir, state, name string
	runs             int
}

// Bundle copies the configuration of w's container; only the control group's last
// name differs. The bundle is good as long as w is not closed.
func (b *Bench) Bundle(w *Warm) (*Bundle, error) {
	paths, err := filepath.Glob(b.path("e/root/vfs-containers/*/userdata/config.json"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read a container's configuration: %w", err)
		}
		if !strings.Contains(string(text), w.spec.Rootfs) {
			continue
		}
		var config map[string]any
		if err := json.Unmarshal(text, &config); err != nil {
			return nil, fmt.Errorf("read a container's configuration: %w", err)
		}
		linux, ok := config["linux"].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("read a container's configuration: it has no part linux")
		}
		linux["cgroupsPath"] = w.spec.CgroupParent + "/bundle"
		if text, err = json.Marshal(config); err != nil {
			return nil, err
		}
		bundle := &Bundle{dir: b.path("bundle"), state: b.path("rt/state"), name: "bundle"}
		if err := os.MkdirAll(bundle.dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the bundle: %w", err)
		}
		return bundle, os.WriteFile(filepath.Join(bundle.dir, "config.json"), text, 0o600)
	}
	return nil, fmt.Errorf("no container of the engine has the root filesystem %s", w.spec.Rootfs)
}

// Command is `runc run` of the bundle, under a new name each time.
func (u *Bundle) Command(ctx context.Context) *exec.Cmd {
	u.runs++
	return exec.CommandContext(ctx, "runc", "--root", u.state, "run", "--bundle", u.dir, fmt.Sprintf("%s-%d", u.name, u.runs))
}
