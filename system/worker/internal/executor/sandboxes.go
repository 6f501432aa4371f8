package executor

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"glovebox/system/worker/internal/container/verdict"
	"glovebox/system/worker/internal/launcher"
)

const (
	// slotPatience is how long Acquire waits for a slot to come free. The
	// launcher has one for each of ours, save while it still removes what an
	// earlier worker of this host left.
	slotPatience = 30 * time.Second
	slotPause    = 100 * time.Millisecond
	statusWait   = 10 * time.Second
)

// Sandboxes is the Launcher behind a launcher's socket.
type Sandboxes struct {
	client *launcher.Client
	slots  int
}

// NewSandboxes returns the launcher that listens at socket. slots is how many
// sandboxes will be asked for at once.
func NewSandboxes(socket string, slots int) *Sandboxes {
	return &Sandboxes{client: launcher.NewClient(socket), slots: slots}
}

// Ready implements Launcher.
func (s *Sandboxes) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, statusWait)
	defer cancel()
	state, err := s.client.Status(ctx)
	switch {
	case err != nil:
		return err
	case state.Phase == launcher.Refusing:
		return fmt.Errorf("the launcher refuses: these walls do not stand: %s; run glovebox-launcher selftest", strings.Join(state.Missing, ", "))
	case state.Phase != launcher.Ready:
		return fmt.Errorf("the launcher is %s", state.Phase)
	case state.SlotsTotal < s.slots:
		return fmt.Errorf("the launcher has %d slots and worker.slots is %d; lower worker.slots or raise the launcher's sandbox.slots", state.SlotsTotal, s.slots)
	}
	return nil
}

// Acquire implements Launcher.
func (s *Sandboxes) Acquire(ctx context.Context) (Slot, error) {
	ctx, cancel := context.WithTimeout(ctx, slotPatience)
	defer cancel()
	for {
		slot, err := s.client.Acquire(ctx)
		if err == nil {
			return sandbox{slot}, nil
		}
		if launcher.CodeOf(err) != launcher.NoSlot {
			return nil, err
		}
		timer := time.NewTimer(slotPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

// sandbox is a launcher's slot as a Slot.
type sandbox struct{ slot *launcher.Slot }

func (s sandbox) Input() *os.File  { return s.slot.Input }
func (s sandbox) Result() *os.File { return s.slot.Result }

func (s sandbox) Run(ctx context.Context) (verdict.Verdict, error) { return s.slot.Run(ctx) }
func (s sandbox) Release(ctx context.Context) error                { return s.slot.Release(ctx) }
