package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/bench/measure"
)

// memory is what an idle slot holds: the waiting process and its monitor, each by
// its share of what it maps, and the slot's own filesystem. The peer is a plain
// container of podman, created and initialised.
func (r *rig) memory(ctx context.Context) (measure.Figure, error) {
	return measure.Pair{
		Name: "idle_slot_memory", Unit: "KiB", Better: measure.Lower, Runs: measure.MinRuns, PeerName: "podman create and init: conmon and runc",
		Ours: r.idleSlot, Peer: r.idleContainer,
	}.Run(ctx)
}

func (r *rig) idleSlot(ctx context.Context) (kib float64, err error) {
	w, err := r.warm(ctx, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	waiting, monitor, err := w.Processes()
	if err != nil {
		return 0, err
	}
	if kib, err = atRest(ctx, waiting, monitor); err != nil {
		return 0, err
	}
	root, _, _ := w.Place()
	var fs unix.Statfs_t
	if err := unix.Statfs(root, &fs); err != nil {
		return 0, fmt.Errorf("ask the slot's filesystem: %w", err)
	}
	return kib + float64(fs.Blocks-fs.Bfree)*float64(fs.Bsize)/1024, nil
}

const idleName = "bench-idle"

func (r *rig) idleContainer(ctx context.Context) (kib float64, err error) {
	root, _, _ := r.place.Place()
	if said, err := r.bench.Podman(ctx, "create", "--name", idleName, "--network", "none", "--log-driver", "none", "--rootfs", root, "/core").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("podman create: %w: %.300s", err, said)
	}
	defer func() {
		if said, removeErr := r.bench.Podman(context.WithoutCancel(ctx), "rm", "--force", idleName).CombinedOutput(); removeErr != nil {
			err = errors.Join(err, fmt.Errorf("podman rm: %w: %.300s", removeErr, said))
		}
	}()
	if said, err := r.bench.Podman(ctx, "container", "init", idleName).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("podman container init: %w: %.300s", err, said)
	}
	said, err := r.bench.Podman(ctx, "inspect", "--format", "{{.State.Pid}} {{.State.ConmonPid}}", idleName).Output()
	if err != nil {
		return 0, fmt.Errorf("podman inspect: %w", err)
	}
	var waiting, monitor int
	if n, _ := fmt.Sscan(string(said), &waiting, &monitor); n != 2 || waiting == 0 || monitor == 0 {
		return 0, fmt.Errorf("podman inspect: %q names no two processes", said)
	}
	return atRest(ctx, waiting, monitor)
}

// calm is the pause between two looks that must agree.
const calm = 100 * time.Millisecond

// atRest is the shares of processes once they do not change any more: a monitor
// still reads its configuration when its container waits.
func atRest(ctx context.Context, pids ...int) (float64, error) {
	ticker := time.NewTicker(calm)
	defer ticker.Stop()
	last := -1.0
	for {
		now, err := shares(pids...)
		if err != nil || now == last {
			return now, err
		}
		last = now
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// shares adds the proportional set sizes of processes, in KiB.
func shares(pids ...int) (kib float64, err error) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return 0, fmt.Errorf("read a process's memory: %w", err)
		}
		found := false
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "Pss:" {
				n, err := strconv.Atoi(fields[1])
				if err != nil {
					return 0, err
				}
				kib, found = kib+float64(n), true
			}
		}
		if !found {
			return 0, fmt.Errorf("process %d shows no share of memory", pid)
		}
	}
	return kib, nil
}
