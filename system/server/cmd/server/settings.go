package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"glovebox/migrations"
	"glovebox/system/platform/secret"
	"glovebox/system/server/internal/config"
)

// loadConfig reads the file of --config and the environment.
func loadConfig(cmd *cobra.Command) (*config.Config, error) {
	path, err := cmd.Flags().GetString("config")
	if err != nil {
		return nil, fmt.Errorf("read --config: %w", err)
	}
	c, err := config.Load(path, os.Environ())
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// openPool opens at most maxConns connections with the login url and tries one,
// so that a wrong login is said at start and not by the first request. No error
// repeats the URL.
func openPool(ctx context.Context, url secret.Text, maxConns int) (*pgxpool.Pool, error) {
	return openPoolOf(ctx, url, maxConns, nil)
}

// openWorkingPool is openPool for what works for as long as it runs, a server or a
// sweeper: no connection that it makes, then or later, is used on a schema that has
// retired this binary. A migration that does so sees only who is connected, and a
// sweeper between two rounds may not be (DBS-04).
func openWorkingPool(ctx context.Context, url secret.Text, maxConns int) (*pgxpool.Pool, error) {
	return openPoolOf(ctx, url, maxConns, func(ctx context.Context, conn *pgx.Conn) error { return migrations.Compatible(ctx, conn) })
}

func openPoolOf(ctx context.Context, url secret.Text, maxConns int, judge func(context.Context, *pgx.Conn) error) (*pgxpool.Pool, error) {
	settings, err := pgxpool.ParseConfig(url.Reveal())
	if err != nil {
		return nil, errors.New("the database URL is not a PostgreSQL URL") // the cause repeats it
	}
	settings.MaxConns = int32(min(maxConns, 1000)) //nolint:gosec // bounded by the line itself
	settings.MaxConnIdleTime = 5 * time.Minute
	settings.ConnConfig.RuntimeParams["application_name"] = migrations.ApplicationName()
	settings.AfterConnect = judge
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("open the database as %s: %w", settings.ConnConfig.User, err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		if errors.Is(err, migrations.ErrRetired) {
			return nil, err // the login is in order
		}
		return nil, fmt.Errorf("reach the database as %s; is it running, and does the role have this password: %w", settings.ConnConfig.User, err)
	}
	return pool, nil
}

// openOperatorPool opens the login of the administrative subcommands.
func openOperatorPool(cmd *cobra.Command) (*pgxpool.Pool, error) {
	c, err := loadConfig(cmd)
	if err != nil {
		return nil, err
	}
	url, err := c.ForOperator()
	if err != nil {
		return nil, usageError{err}
	}
	const conns = 2
	return openPool(cmd.Context(), url, conns)
}
