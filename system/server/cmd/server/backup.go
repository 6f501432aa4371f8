package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"glovebox/system/server/internal/config"
	"glovebox/system/server/internal/recovery"
	"glovebox/system/server/internal/storage/fs"
)

func newBackupCommand() *cobra.Command {
	var (
		out          string
		asJSON       bool
		allowDamaged bool
		patience     time.Duration
	)
	cmd := &cobra.Command{
		Use:   "backup --out DIR",
		Short: "take a backup of database and storage while the system runs",
		Long: `Take a backup of database and storage while the system runs: one snapshot of the
database, and every file that the snapshot names, each compared with its row on the
way. DIR is made when all is written and synced; whatever fails leaves nothing. The
sweeper deletes nothing meanwhile. Print the manifest's digest and keep it apart:
restore --digest then takes this backup and no other.

In it: users with their password hashes, the hashes of tokens, jobs, their history,
inputs and results. It is as worthy of protection as the installation itself.
Not in it, to be kept apart: the tokens' HMAC secret (auth.token_secret; without it
every user logs in again), the folder of pki, the configuration, the passwords of
the database's roles (migrate set-password gives new ones).

It logs in as glovebox_backup (database.backup_url), runs pg_dump of the server's
version or a later one, and must be able to read storage.root: run it as the
server's user or as root.`,
		Example: "  glovebox-server backup --out /srv/backups/$(date -u +%Y%m%dT%H%M%SZ)",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return usageError{fmt.Errorf("--out is needed: a folder that does not exist yet")}
			}
			c, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			login, err := c.ForBackup()
			if err != nil {
				return usageError{err}
			}
			storage, err := openStorage(c)
			if err != nil {
				return err
			}
			defer storage.Close()
			manifest, err := recovery.Backup(cmd.Context(), recovery.BackupOptions{
				Login: login, Storage: storage, Out: out, AllowDamaged: allowDamaged, Patience: patience,
				Progress: progressTo(cmd.ErrOrStderr(), asJSON),
			})
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(manifest)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "backup %s of %s: %d files of %d bytes (%d damaged), jobs %v\ndigest %s\n",
				manifest.ID, manifest.TakenAt.Format(time.RFC3339), manifest.Files, manifest.Bytes, manifest.Damaged, manifest.Jobs, manifest.Digest)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&out, "out", "", "the `folder` to make")
	flags.BoolVar(&asJSON, "json", false, "print the manifest as JSON, and no progress")
	flags.BoolVar(&allowDamaged, "allow-damaged", false, "note files whose bytes are not what their row says, and go on")
	flags.DurationVar(&patience, "wait", 10*time.Minute, "how long to wait for a sweeper's round to end")
	return cmd
}

// openStorage opens a storage that a server has made.
func openStorage(c *config.Config) (*fs.Store, error) {
	storage, err := fs.New(c.Storage.Root, fs.Options{Existing: true})
	if err != nil {
		return nil, fmt.Errorf("storage.root: %w", err)
	}
	return storage, nil
}

// progressEvery is how often progress is printed within a stage.
const progressEvery = time.Second

// progressTo prints how far something has come, a line a second.
func progressTo(w io.Writer, silent bool) func(recovery.Progress) {
	var (
		stage string
		last  time.Time
	)
	return func(p recovery.Progress) {
		if silent || p.Stage == stage && time.Since(last) < progressEvery {
			return
		}
		stage, last = p.Stage, time.Now()
		switch {
		case p.OfFiles > 0:
			fmt.Fprintf(w, "%s: %d of %d files, %d of %d bytes\n", p.Stage, p.Files, p.OfFiles, p.Bytes, p.OfBytes)
		case p.Files > 0:
			fmt.Fprintf(w, "%s: %d files, %d bytes\n", p.Stage, p.Files, p.Bytes)
		default:
			fmt.Fprintln(w, p.Stage)
		}
	}
}
