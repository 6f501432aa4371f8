// Package lifecycle runs the parts of a process together and stops them together.
//
// Run starts all parts at once. The first signal, or the first part that ends,
// cancels their context, and every part then has the grace period to finish. A
// second signal ends the process at once.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Part is one long-running piece of a process. It must return soon after ctx is
// done, and return nil when that is why it ended.
type Part struct {
	Name string
	Run  func(ctx context.Context) error
}

// SignalContext is done at the first SIGINT or SIGTERM. A second one exits the
// process with status 130, for the person who does not want to wait. The returned
// function gives the signals back to the system.
func SignalContext(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	released := make(chan struct{})
	go func() {
		for seen := 0; ; seen++ {
			select {
			case <-signals:
				if seen > 0 {
					os.Exit(130)
				}
				cancel()
			case <-released:
				return
			}
		}
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(released)
		cancel()
	})
}

// Run starts all parts and waits. It returns when every part has ended, or when
// grace has passed after the first end: then the parts still running are named
// in the error. The errors of parts are joined.
func Run(ctx context.Context, log *slog.Logger, grace time.Duration, parts ...Part) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var (
		mu      sync.Mutex
		errs    []error
		running = make(map[string]bool, len(parts))
		done    = make(chan struct{}, len(parts))
	)
	for _, p := range parts {
		running[p.Name] = true
		go func() {
			err := p.Run(ctx)
			mu.Lock()
			delete(running, p.Name)
			if err != nil && !(errors.Is(err, context.Canceled) && ctx.Err() != nil) {
				errs = append(errs, fmt.Errorf("%s: %w", p.Name, err))
				log.Error("part failed", "part", p.Name, "error", err)
			}
			mu.Unlock()
			cancel() // one part's end ends the process: half a server is not a server
			done <- struct{}{}
		}()
	}

	<-ctx.Done()
	log.Info("stopping", "grace", grace.String())
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for range parts {
		select {
		case <-done:
		case <-timer.C:
			mu.Lock()
			defer mu.Unlock()
			for name := range running {
				errs = append(errs, fmt.Errorf("%s did not stop within %s", name, grace))
			}
			return errors.Join(errs...)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return errors.Join(errs...)
}
