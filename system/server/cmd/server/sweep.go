package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"glovebox/system/platform/logging"
	"glovebox/system/server/internal/config"
	jobstore "glovebox/system/server/internal/jobs/adapters/postgres"
	"glovebox/system/server/internal/jobs/sweep"
	"glovebox/system/server/internal/storage/fs"
)

func newSweepCommand() *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "remove what is over: expired inputs and results, orphans, temporary files",
		Long: `Remove what is over, until the first SIGINT or SIGTERM: inputs and results past
retention.duration (counted from the job's end), files that no row names and that
are older than sweeper.orphan_age, temporary files that nobody writes any more, rows
without meaning, and the rows of jobs whose files have been gone for retention.records.
Nothing of files is removed while a backup is being taken or the system is paused
after a restore. Run one beside the servers, under its own database login
(database.sweeper_url) and with its own access to storage.root: it alone deletes.
Several at once do no harm.

With --once it does one round, prints what it removed as JSON, and exits.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			return runSweep(cmd, c, once)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "do one round and print what it removed")
	return cmd
}

func runSweep(cmd *cobra.Command, c *config.Config, once bool) error {
	url, err := c.ForSweep()
	if err != nil {
		return usageError{err}
	}
	level, err := logging.ParseLevel(c.Log.Level)
	if err != nil {
		return usageError{err}
	}
	log := logging.New(cmd.ErrOrStderr(), "sweeper", level)
	const conns = 4
	pool, err := openWorkingPool(cmd.Context(), url, conns)
	if err != nil {
		return err
	}
	defer pool.Close()
	storage, err := fs.New(c.Storage.Root, fs.Options{Existing: true})
	if err != nil {
		return fmt.Errorf("storage.root: %w; a server makes the folders when it first starts", err)
	}
	defer storage.Close()
	sweeper := sweep.New(jobstore.NewLedger(pool), sweepable{storage}, sweep.Settings{
		Retention: c.Retention.Duration.Std(), Records: c.Retention.Records.Std(), OrphanAge: c.Sweeper.OrphanAge.Std(), StagedAge: c.Sweeper.StagedAge.Std(),
		Page: c.Sweeper.Page, Log: log,
	})
	if !once {
		log.Info("sweeping", "interval", c.Sweeper.Interval.String())
		return sweeper.Run(cmd.Context(), c.Sweeper.Interval.Std())
	}
	report, err := sweeper.Round(cmd.Context())
	if printErr := json.NewEncoder(cmd.OutOrStdout()).Encode(report); err == nil {
		err = printErr
	}
	return err
}

// sweepable is fs.Store in the sweeper's words.
type sweepable struct{ store *fs.Store }

// List implements sweep.Storage.
func (s sweepable) List(ctx context.Context, after string, limit int) ([]sweep.Object, string, error) {
	entries, next, err := s.store.List(ctx, after, limit)
	if err != nil {
		return nil, "", err
	}
	page := make([]sweep.Object, len(entries))
	for i, e := range entries {
		page[i] = sweep.Object{Key: e.Key, Modified: e.ModTime}
	}
	return page, next, nil
}

// Remove implements sweep.Storage.
func (s sweepable) Remove(ctx context.Context, key string) error { return s.store.Remove(ctx, key) }

// SweepStaged implements sweep.Storage.
func (s sweepable) SweepStaged(ctx context.Context, age time.Duration) (int, error) {
	return s.store.SweepTemp(ctx, age)
}
