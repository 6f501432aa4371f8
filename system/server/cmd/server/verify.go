package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"glovebox/system/platform/secret"
	"glovebox/system/server/internal/recovery"
)

func newVerifyCommand() *cobra.Command {
	var (
		from, digest, tokenFile string
		asJSON                  bool
		job                     recovery.JobRun
		patience                time.Duration
	)
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "verify an installation: counts, every file's hash, the backup, a job run through it",
		Long: `Verify an installation: everything that fsck looks at, with every file read and
hashed. With --from, the backup too: each file that it names must be here with the
same size and hash, and, while the system is paused after that restore, every table
must have as many rows and every role, grant and setting must be the same. Nothing
is changed.

With --job FILE, and once the system is resumed, it then sends the file through the
whole system with a user's token, waits for the end and compares the result's bytes.

Status 0: everything fits. 3: something does not. 1: the look, or the job, failed.`,
		Example: "  glovebox-server verify --from DIR\n  glovebox-server verify --job samples/life.lua --url https://localhost:8443 --ca-file public.crt --token-file token",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if job.Input != "" && (job.URL == "" || tokenFile == "") {
				return usageError{errors.New("--job needs --url and --token-file")}
			}
			return examine(cmd, asJSON, func(ctx context.Context, x *examination) (err error) {
				var source *recovery.Source
				if from != "" {
					if source, err = recovery.Open(from, digest); err != nil {
						return err
					}
					defer source.Close()
				}
				if x.report.Summary, err = recovery.Verify(ctx, x.options(), source); err != nil || job.Input == "" {
					return err
				}
				return x.runJob(ctx, job, tokenFile, patience)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "the `folder` of the backup that was restored")
	flags.StringVar(&digest, "digest", "", "take only the backup whose manifest has this digest")
	flags.BoolVar(&asJSON, "json", false, "print one JSON document")
	flags.StringVar(&job.Input, "job", "", "a `file` to run through the system")
	flags.StringVar(&job.URL, "url", "", "the `address` of the public API, for --job")
	flags.StringVar(&job.CAFile, "ca-file", "", "the authority of its certificate, a `file`, for --job")
	flags.StringVar(&tokenFile, "token-file", "", "a user's token, a `file` readable by you alone, for --job")
	flags.DurationVar(&patience, "wait", 5*time.Minute, "how long the job may take")
	return cmd
}

// trialPoll is how often the trial's status is asked for.
const trialPoll = 200 * time.Millisecond

func (x *examination) runJob(ctx context.Context, job recovery.JobRun, tokenFile string, patience time.Duration) (err error) {
	if job.Token, err = secret.ReadFile(tokenFile); err != nil {
		return usageError{err}
	}
	job.Poll = trialPoll
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	outcome, err := recovery.RunJob(ctx, job)
	x.report.Job = &outcome
	if err != nil {
		return errors.Join(x.end(), fmt.Errorf("run a job through the system: %w", err))
	}
	return nil
}
