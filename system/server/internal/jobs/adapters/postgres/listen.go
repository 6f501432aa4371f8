package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// channel is what a transaction that makes a job claimable notifies on commit.
const channel = "glovebox_jobs"

const (
	listenRetry = time.Second
	// listenProbe is how often a quiet connection is asked whether it lives: a cut
	// network says nothing.
	listenProbe = 15 * time.Second
)

// Listener wakes whoever waits for a job.
type Listener struct {
	config *pgx.ConnConfig
	wake   func()
	log    *slog.Logger
}

// NewListener returns a listener with its own connection, made like pool's; it
// calls wake for each notification, and after each reconnection, for what was
// missed meanwhile.
func NewListener(pool *pgxpool.Pool, wake func(), log *slog.Logger) *Listener {
	return &Listener{config: pool.Config().ConnConfig, wake: wake, log: log}
}

// Run listens until ctx ends, reconnecting as often as it takes.
func (l *Listener) Run(ctx context.Context) error {
	for {
		err := l.listen(ctx)
		if ctx.Err() != nil {
			return nil
		}
		l.log.WarnContext(ctx, "notifications are lost, claims are found by polling", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(listenRetry):
		}
	}
}

func (l *Listener) listen(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return fmt.Errorf("connect to listen: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	l.wake()
	for {
		quiet, cancel := context.WithTimeout(ctx, listenProbe)
		_, err := conn.WaitForNotification(quiet)
		cancel()
		switch {
		case err == nil:
			l.wake()
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, context.DeadlineExceeded) && !conn.IsClosed():
			if err := conn.Ping(ctx); err != nil {
				return fmt.Errorf("ask the listening connection whether it lives: %w", err)
			}
		default:
			return fmt.Errorf("wait for a notification: %w", err)
		}
	}
}
