package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"glovebox/system/server/internal/recovery"
	"glovebox/system/server/internal/storage/fs"
)

func newRestoreCommand() *cobra.Command {
	var (
		from, digest       string
		keepTokens, asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "restore --from DIR",
		Short: "set an empty installation back to a backup; it comes up paused",
		Long: `Set an empty installation back to a backup. Every byte of the backup is verified
before anything is changed. The database must have roles and schemas and no rows,
the storage root no files; nothing of the system may be connected. So, on a new
machine:

  createdb glovebox
  glovebox-server migrate up --admin-url-file admin-url
  glovebox-server migrate set-password ROLE --admin-url-file admin-url    for each role
  glovebox-server restore --from DIR
  glovebox-server serve, sweep                     they start, and are paused
  glovebox-server verify --from DIR
  glovebox-server resume

While paused, no job is claimed (204), none is taken in (503) and nothing is
deleted; results can be read. Jobs that were being processed are taken back, and
every job that has not ended goes on with a fencing token above all that the lost
system can have given out: what a worker of that system still brings is refused.
Tokens are revoked, because one that was revoked after the backup would be valid
again; --keep-tokens leaves users logged in. Before resume, look at user list and
worker list: whoever was disabled or removed after the backup is back.

It logs in as glovebox_migrator (database.migrator_url). Run it as root or as the
owner of storage.root: files are given to that owner.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from == "" {
				return usageError{errors.New("--from is needed: the folder of a backup")}
			}
			c, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			login, err := c.ForRestore()
			if err != nil {
				return usageError{err}
			}
			source, err := recovery.Open(from, digest)
			if err != nil {
				return err
			}
			defer source.Close()
			storage, err := fs.New(c.Storage.Root, fs.Options{OwnedLikeRoot: true, MinFree: c.Limits.MinFreeBytes.Int64()})
			if err != nil {
				return fmt.Errorf("storage.root: %w", err)
			}
			defer storage.Close()
			report, err := recovery.Restore(cmd.Context(), recovery.RestoreOptions{
				Login: login, Storage: storage, Source: source, KeepTokens: keepTokens,
				Progress: progressTo(cmd.ErrOrStderr(), asJSON),
			})
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(report)
			}
			return printRestore(cmd.OutOrStdout(), report)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "the `folder` of the backup")
	flags.StringVar(&digest, "digest", "", "take only the backup whose manifest has this digest")
	flags.BoolVar(&keepTokens, "keep-tokens", false, "leave users logged in")
	flags.BoolVar(&asJSON, "json", false, "print JSON, and no progress")
	return cmd
}

func printRestore(out io.Writer, r recovery.Report) error {
	fmt.Fprintf(out, "restored backup %s of %s in %s: %d files of %d bytes\n", r.BackupID, r.BackupAt.Format(time.RFC3339), r.Took.Round(time.Millisecond), r.Files, r.Bytes)
	fmt.Fprintf(out, "%d jobs were being processed and are pending again; tokens go on from %d\n", r.TakenBack, r.TokenBase)
	if r.TokensRevoked > 0 {
		fmt.Fprintf(out, "%d tokens were revoked: users log in again\n", r.TokensRevoked)
	}
	if r.Damaged > 0 {
		fmt.Fprintf(out, "%d files were damaged when the backup was taken and are not here; fsck names them\n", r.Damaged)
	}
	if r.Pending {
		fmt.Fprintln(out, "the backup is of an earlier release: run glovebox-server migrate up")
	}
	for _, line := range r.RightsDiffer {
		fmt.Fprintf(out, "rights differ: %s\n", line)
	}
	_, err := fmt.Fprintln(out, "the system is paused: verify it, look at user list and worker list, then run glovebox-server resume")
	return err
}

func newResumeCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "end the pause that a restore begins with",
		Long: `End the pause that a restore begins with: from now on jobs are claimed and taken in,
and the sweeper deletes. A restore that broke off cannot be resumed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pool, err := openOperatorPool(cmd)
			if err != nil {
				return err
			}
			defer pool.Close()
			jobs, err := recovery.Resume(cmd.Context(), pool)
			if errors.Is(err, recovery.ErrNotPaused) {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"resumed": true, "jobs": jobs})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "the system goes on; jobs: %v\n", jobs)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
