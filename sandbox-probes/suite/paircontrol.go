package suite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/sandbox-probes/control"
)

// controlPair runs both programs unconfined in one folder. On a busy machine a
// counter that all its processes move may hide the bits: such a channel is tried
// again.
func (s *Suite) controlPair(ctx context.Context, wanted []channel) (map[string]float64, error) {
	scores := map[string]float64{}
	left := wanted
	for range controlsMax {
		found := map[string]float64{}
		if err := s.outsidePair(ctx, left, found); err != nil {
			return nil, fmt.Errorf("control: %w", err)
		}
		maps.Copy(scores, found)
		left = slices.DeleteFunc(slices.Clone(left), func(c channel) bool { return scores[c.name] >= follows })
		if len(left) == 0 {
			break
		}
	}
	return scores, nil
}

func (s *Suite) outsidePair(ctx context.Context, wanted []channel, scores map[string]float64) error {
	dir, err := control.Folder(s.program, []byte("pair\n"))
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	return together(func() error {
		var talkers [2]*talker
		var running [2]*exec.Cmd
		for i := range running {
			talkers[i], running[i], err = startControl(ctx, s.program, dir, i+1)
			if err != nil {
				cancel()
				return err
			}
			defer talkers[i].orders.Close()
			defer talkers[i].answers.Close()
		}
		err := s.talk(ctx, talkers[0], talkers[1], wanted, scores)
		if err != nil {
			cancel() // which kills both
		}
		for _, cmd := range running {
			err = errors.Join(err, cmd.Wait())
		}
		return errors.Join(err, forgetKey())
	})
}

// together runs work on a thread with a host name, System V objects and mounts of
// its own, which every program it starts shares: the bits pass there, and the
// host's own host name stays.
func together(work func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNS); err != nil {
			result <- fmt.Errorf("make name spaces for the control: %w", err)
			return
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			result <- fmt.Errorf("make the control's mounts its own: %w", err)
			return
		}
		result <- work()
	}()
	return <-result
}

func startControl(ctx context.Context, program, dir string, role int) (*talker, *exec.Cmd, error) {
	t := &talker{}
	var err error
	if t.orders, err = os.OpenFile(filepath.Join(dir, fmt.Sprintf("in/orders-%d", role)), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return nil, nil, err
	}
	if t.answers, err = os.OpenFile(filepath.Join(dir, fmt.Sprintf("out/answers-%d", role)), os.O_CREATE|os.O_RDONLY, 0o600); err != nil {
		return nil, nil, errors.Join(err, t.orders.Close())
	}
	cmd := control.Command(ctx, program, dir)
	cmd.Env = append(cmd.Env, fmt.Sprintf("PROBE_ROLE=%d", role))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start the control: %w", err), t.orders.Close(), t.answers.Close())
	}
	return t, cmd, nil
}

// forgetKey takes the control's key out of root's keyring.
func forgetKey() error {
	const userKeyring, invalidate = -4, 21
	id, err := unix.KeyctlSearch(userKeyring, "user", "glovebox-pair", 0)
	if err != nil {
		return nil // none was made, or the kernel has no keyrings
	}
	if _, err := unix.KeyctlInt(invalidate, id, 0, 0, 0); err != nil {
		return fmt.Errorf("take the control's key away: %w", err)
	}
	return nil
}
