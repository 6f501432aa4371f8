// Command glovebox-server serves both APIs, and holds every administrative act
// on an installation as a subcommand. This package wires; it decides nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"glovebox/system/platform/lifecycle"
)

func main() {
	ctx, cancel := lifecycle.SignalContext(context.Background())
	code := execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	cancel()
	os.Exit(code)
}

// Exit statuses of every subcommand; verify and fsck have one more, exitFindings.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError marks what the person at the keyboard can correct.
type usageError struct{ error }

// execute runs one command line; tests call it as the binary does.
func execute(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(errOut, "glovebox-server: error: %v\n", err)
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	var findings findingsError
	if errors.As(err, &findings) {
		return exitFindings
	}
	return exitFailed
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "glovebox-server",
		Short: "the server of Glovebox, and the administration of an installation",
		Long: `glovebox-server takes files from users, queues them, hands them to workers and
gives the results back. Every administrative act is a subcommand too; there is no
sign-up and no admin site.

A first start, once PostgreSQL runs:

  glovebox-server pki init --dir pki                   keys and certificates
  glovebox-server migrate up --admin-url-file admin    roles and schema
  glovebox-server check                                everything in place?
  glovebox-server user add alice                       somebody to serve
  glovebox-server worker add w-1                       somebody to work
  glovebox-server serve
  glovebox-server sweep                                beside it, under its own login

Every command but pki reads one TOML file (--config) and the environment
(lease.duration is GLOVEBOX_LEASE_DURATION); each resolves only the secrets it
needs.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().String("config", os.Getenv("GLOVEBOX_CONFIG"), "the TOML `file` with the settings (environment GLOVEBOX_CONFIG)")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		newServeCommand(),
		newSweepCommand(),
		newMigrateCommand(),
		newCheckCommand(),
		newUserCommand(),
		newTokenCommand(),
		newWorkerCommand(),
		newJobCommand(),
		newBackupCommand(),
		newRestoreCommand(),
		newResumeCommand(),
		newVerifyCommand(),
		newFsckCommand(),
		newPKICommand(),
	)
	return root
}
