package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"glovebox/system/worker/internal/launcher"
)

// launchedUIDs is the first host id of a launched launcher's slots, behind those of
// the bench.
const launchedUIDs = plainUIDs + Slots*IDRange

// Launcher is the real program, serving on the bench's engine.
type Launcher struct {
	cmd    *exec.Cmd
	client *launcher.Client
	log    bytes.Buffer
}

const launcherForm = `[listen]
socket = %q
peer_uid = 0
[engine]
socket = %q
[slots]
root = %q
uid_base = %d
[sandbox]
slots = %d
image = %q
[selftest]
image = %q
[metrics]
listen = ""
[log]
level = "warn"
`

// readyTimeout bounds the start of a launcher, its self-test included.
const readyTimeout = time.Minute

// Launch starts binary with the program as its core and returns once it is ready.
// selfTest is the file that ci/image printed of the self-test's image.
func (b *Bench) Launch(ctx context.Context, binary, program, selfTest string, slots int) (*Launcher, error) {
	img, err := b.imageOf(program)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(selfTest)
	if err != nil {
		return nil, fmt.Errorf("read the self-test's image: %w; build it with make image", err)
	}
	var tested struct {
		Ref string `json:"ref"`
	}
	if err := json.Unmarshal(text, &tested); err != nil {
		return nil, fmt.Errorf("read the self-test's image: %w", err)
	}
	socket, conf := b.path("l"), b.path("launcher.toml")
	form := fmt.Sprintf(launcherForm, socket, b.service.Socket, b.path("launched"), launchedUIDs, slots, img.Ref.String(), tested.Ref)
	if err := os.WriteFile(conf, []byte(form), 0o600); err != nil {
		return nil, fmt.Errorf("configure the launcher: %w", err)
	}
	l := &Launcher{client: launcher.NewClient(socket), cmd: exec.Command(binary, "serve", "--config", conf)}
	l.cmd.Stdout, l.cmd.Stderr = &l.log, &l.log
	l.cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	if err := l.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the launcher: %w; build it with make programs", err)
	}
	if err := l.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, l.Stop())
	}
	return l, nil
}

func (l *Launcher) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		state, err := l.client.Status(ctx)
		if err == nil && state.Phase == launcher.Ready {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the launcher: %w (last: %w)", context.Cause(ctx), err)
		}
	}
}

// Attempt is a whole one, as of Through.
func (l *Launcher) Attempt(ctx context.Context, input []byte) (Report, error) {
	return through(ctx, l.client, input)
}

// Stop ends the launcher, which removes all it made.
func (l *Launcher) Stop() error {
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the launcher: %w", err)
	}
	if err := l.cmd.Wait(); err != nil {
		return fmt.Errorf("the launcher ended badly: %w\n%s", err, l.log.Bytes())
	}
	return nil
}
